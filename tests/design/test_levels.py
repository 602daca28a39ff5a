"""A level beside off and on -> plain contrasts against both, by hand; what has no neighbor is refused by name."""

from __future__ import annotations

from ablate.core.contrast import Refusal
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from ablate.design.contrasts import make_contrasts
from builders import make_factors, make_study

THREE = ("dynamic_shapes", "tensor_lr", "string_keys")
FURTHER = ExplicitCell(levels={"tensor_lr": "device-tensor"})


def levels_of(*cells: ExplicitCell) -> tuple[dict[str, dict[str, float]], list[Refusal]]:
    study = make_study(design="cells", cells=cells, factors=make_factors(THREE))
    design = make_design(study)
    names = {cell.effective_key: cell.name for cell in design.cells}
    contrasts, refusals = make_contrasts(study, design)
    found = {
        c.subject: {names[key]: weight for key, weight in c.weights.items()} for c in contrasts if c.kind == "level"
    }
    return found, [r for r in refusals if r.kind == "level"]


def test_a_further_level_is_compared_with_off_and_on() -> None:
    found, refusals = levels_of(ExplicitCell(arm="naive"), ExplicitCell(arm="with-tensor_lr"), FURTHER)
    assert refusals == []
    further = "compiled tensor_lr=device-tensor"
    assert found == {
        "tensor_lr: device-tensor against float (naive)": {"naive": 1.0, further: -1.0},
        "tensor_lr: device-tensor against tensor (with-tensor_lr)": {"with-tensor_lr": 1.0, further: -1.0},
    }


def test_a_missing_neighbor_is_named() -> None:
    found, refusals = levels_of(ExplicitCell(arm="naive"), FURTHER)
    assert list(found) == ["tensor_lr: device-tensor against float (naive)"]
    assert [r.missing for r in refusals] == [("with-tensor_lr",)]
