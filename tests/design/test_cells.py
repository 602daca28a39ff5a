"""Cells, arm names, inert optimizations and aliases of every kind of design, counted by hand."""

import pytest

from ablate.core.cell import Design, DesignedCell
from ablate.core.errors import UserError
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from builders import make_factors, make_study

GUIDE = ("dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free")


def cell_of(design: Design, arm: str) -> DesignedCell:
    (found,) = [cell for cell in design.cells if arm in cell.arms]
    return found


def test_full_factorial_on_a_gpu_has_36_keys():
    design = make_design(make_study(device="cuda"))
    compiled = [cell for cell in design.cells if cell.cell.execution == "compiled" and not cell.cell.repeat]
    assert len(compiled) == 32  # 2^5
    assert len(design.cells) == 36  # + eager, eager with sync_free, eager and full once more
    assert len(design.effective_keys) == 36
    assert design.aliases() == {}


def test_full_factorial_on_a_cpu_has_20_keys():
    design = make_design(make_study(device="cpu"))
    assert len(design.cells) == 36
    assert len(design.effective_keys) == 20  # 2^4 compiled, eager, eager with sync_free, two of the A/A pair
    assert len(design.aliases()) == 16  # each compiled key stands for no_cuda_graphs on and off


def test_without_compiled_step_tensor_lr_is_inert_too():
    design = make_design(make_study(device="cpu", compile_step=False))
    assert len(design.effective_keys) == 8 + 4
    assert cell_of(design, "full").inert == {
        "tensor_lr": "the optimizer step is not compiled (compile_step: false)",
        "no_cuda_graphs": "no CUDA device: CUDA graphs cannot be recorded on a CPU",
    }


def test_eager_is_what_a_user_has_without_any_advice():
    eager = make_design(make_study()).cells[0]
    assert eager.arms == ("eager",)
    assert eager.effective_key == "eager[sync_free=syncing]"
    assert eager.on == ()
    assert set(eager.inert) == set(GUIDE) - {"sync_free"}


def test_eager_with_an_optimization_that_needs_no_compiler():
    cell = cell_of(make_design(make_study()), "eager-with-sync_free")
    assert cell.effective_key == "eager[sync_free=sync-free]"
    assert cell.on == ("sync_free",)


def test_the_a_a_pair_repeats_eager_and_full():
    design = make_design(make_study())
    assert cell_of(design, "eager-again").effective_key == "eager[sync_free=syncing]#1"
    assert cell_of(design, "full-again").effective_key == cell_of(design, "full").effective_key + "#1"


def test_effective_keys_leave_inert_optimizations_out():
    design = make_design(make_study())
    assert cell_of(design, "naive").effective_key == (
        "compiled[dynamic_shapes=automatic,tensor_lr=float,string_keys=tuple,sync_free=syncing]"
    )
    assert cell_of(design, "full").effective_key == (
        "compiled[dynamic_shapes=dynamic,tensor_lr=tensor,string_keys=string,sync_free=sync-free]"
    )
    assert cell_of(design, "without-no_cuda_graphs").effective_key == cell_of(design, "full").effective_key


def test_cells_without_an_arm_are_named_by_what_is_on():
    names = [cell.name for cell in make_design(make_study()).cells]
    assert "compiled +dynamic_shapes +string_keys" in names
    assert len(set(names)) == 36


def test_one_optimization_has_two_names_for_each_end():
    design = make_design(make_study(factors=make_factors(["sync_free"])))
    assert [cell.arms for cell in design.cells] == [
        ("eager",),
        ("naive", "without-sync_free"),
        ("full", "with-sync_free", "ladder-1"),
        ("eager-with-sync_free",),
        ("eager-again",),
        ("full-again",),
    ]


def test_the_ladder_switches_on_in_spec_order():
    factors = make_factors(["tensor_lr", "dynamic_shapes", "sync_free"])
    design = make_design(make_study(design="ladder", factors=factors))
    assert [(cell.name, cell.on) for cell in design.cells] == [
        ("eager", ()),
        ("naive", ()),
        ("ladder-1", ("tensor_lr",)),
        ("ladder-2", ("tensor_lr", "dynamic_shapes")),
        ("full", ("tensor_lr", "dynamic_shapes", "sync_free")),
    ]
    assert "ladder-3" in design.cells[-1].arms


def test_leave_one_out_and_add_one_in():
    factors = make_factors(["dynamic_shapes", "tensor_lr", "sync_free"])
    for kind, word in (("leave-one-out", "without"), ("add-one-in", "with")):
        design = make_design(make_study(design=kind, factors=factors))
        names = [cell.name for cell in design.cells]
        expected = [f"{word}-dynamic_shapes", f"{word}-tensor_lr", f"{word}-sync_free"]
        assert names == ["eager", "naive", "full", *expected]


def test_fixed_optimizations_are_set_wherever_they_act():
    factors = make_factors(["dynamic_shapes"]) + make_factors(["sync_free"], setting="on")
    design = make_design(make_study(factors=factors))
    assert [(cell.name, cell.effective_key) for cell in design.cells] == [
        ("eager", "eager[sync_free=sync-free]"),
        ("naive", "compiled[dynamic_shapes=automatic,sync_free=sync-free]"),
        ("full", "compiled[dynamic_shapes=dynamic,sync_free=sync-free]"),
        ("eager-again", "eager[sync_free=sync-free]#1"),
        ("full-again", "compiled[dynamic_shapes=dynamic,sync_free=sync-free]#1"),
    ]
    assert [cell.on for cell in design.cells[1:3]] == [("sync_free",), ("dynamic_shapes", "sync_free")]


def test_the_guides_meaning_of_off_reaches_the_cells():
    factors = make_factors(["dynamic_shapes"], off_means="guide")
    design = make_design(make_study(factors=factors))
    assert cell_of(design, "naive").cell.levels == {"dynamic_shapes": "static"}


def test_explicit_cells_take_arms_settings_and_levels():
    cells = (
        ExplicitCell(arm="eager"),
        ExplicitCell(arm="full-again"),
        ExplicitCell(levels={"dynamic_shapes": "on"}),
        ExplicitCell(levels={"tensor_lr": "device-tensor"}),
        ExplicitCell(execution="eager", levels={"sync_free": "on"}),
    )
    factors = make_factors(["dynamic_shapes", "tensor_lr", "sync_free"])
    design = make_design(make_study(design="cells", cells=cells, factors=factors))
    assert [(cell.name, cell.cell.levels["tensor_lr"]) for cell in design.cells] == [
        ("eager", "float"),
        ("full-again", "tensor"),
        ("with-dynamic_shapes", "float"),
        ("compiled tensor_lr=device-tensor", "device-tensor"),
        ("eager-with-sync_free", "float"),
    ]


def test_a_cell_written_twice_is_one_cell():
    cells = (ExplicitCell(arm="naive"), ExplicitCell(levels={"sync_free": "off"}))
    design = make_design(make_study(design="cells", cells=cells))
    assert [cell.name for cell in design.cells] == ["naive"]


@pytest.mark.parametrize(("kind", "count"), [("factorial", 0), ("ladder", 1), ("leave-one-out", 0), ("add-one-in", 0)])
def test_too_few_varying_optimizations_are_refused(kind, count):
    with pytest.raises(UserError, match=f"a {kind} design needs at least {count + 1}"):
        make_design(make_study(design=kind, factors=make_factors(GUIDE[:count])))


def test_an_arm_the_study_does_not_have_is_refused():
    with pytest.raises(UserError, match="no arm 'ladder-6'"):
        make_design(make_study(design="cells", cells=(ExplicitCell(arm="ladder-6"),)))
