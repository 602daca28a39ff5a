"""The half fraction -> 18 cells, its aliases, and numbers that are right when no three optimizations interact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from ablate.core.cell import Design
from ablate.core.contrast import Contrast
from ablate.core.errors import UserError
from ablate.core.study import ExplicitCell, Study
from ablate.design.cells import make_design
from ablate.design.contrasts import make_contrasts
from ablate.design.fraction import ASSUMES, alias_table
from builders import make_factors, make_study

GAINS = {"dynamic_shapes": 0.05, "tensor_lr": 0.02, "string_keys": -0.01, "no_cuda_graphs": 0.03, "sync_free": 0.04}
PAIRS = {("dynamic_shapes", "tensor_lr"): 0.03, ("no_cuda_graphs", "sync_free"): -0.02}
TRIPLE = ("dynamic_shapes", "tensor_lr", "sync_free")


def designed(study: Study) -> tuple[Design, dict[tuple[str, str], Contrast]]:
    design = make_design(study)
    contrasts, _ = make_contrasts(study, design)
    return design, {(c.kind, c.subject): c for c in contrasts}


def log_times(design: Design, triple: float = 0.0) -> dict[str, float]:
    """Eager 2.1, naive 2.0, minus the gains of what is on, of pairs and of one triple."""
    times = {}
    for cell in design.cells:
        on = {name for name in cell.on if name not in cell.inert}
        if cell.cell.execution == "eager":
            times[cell.effective_key] = 2.1
            continue
        gain = sum(GAINS[name] for name in on) + sum(g for pair, g in PAIRS.items() if on.issuperset(pair))
        times[cell.effective_key] = 2.0 - gain - (triple if on.issuperset(TRIPLE) else 0.0)
    return times


def apply(contrast: Contrast, times: Mapping[str, float]) -> float:
    return sum(weight * times[key] for key, weight in contrast.weights.items())


def test_five_optimizations_have_eighteen_cells() -> None:
    design, _ = designed(make_study(design="fraction", device="cuda"))
    assert len(design.cells) == len(design.effective_keys) == 18
    assert [cell.name for cell in design.cells[:3]] == ["eager", "naive", "full"]
    assert sorted(len(c.on) for c in design.cells[3:]) == [1] * 5 + [3] * 10


def test_four_that_act_have_eight_cells_and_eager() -> None:
    design, _ = designed(make_study(design="fraction"))  # on a CPU no_cuda_graphs cannot act
    assert len(design.effective_keys) == 9
    assert all("no_cuda_graphs" not in cell.on for cell in design.cells if "full" not in cell.arms)


def test_aliases_by_hand() -> None:
    table = {alias.reported: alias.together_with for alias in alias_table(["a", "b", "c", "d", "e"])}
    assert len(table) == 15
    assert table["a",] == ("b", "c", "d", "e")
    assert table["b", "d"] == ("a", "c", "e")
    four = {alias.reported: alias.together_with for alias in alias_table(["a", "b", "c", "d"])}
    assert four["a", "b"] == ("c", "d") and ("c", "d") not in four and len(four) == 4 + 3


def test_numbers_without_triples_are_the_shapley_values_of_the_full_factorial() -> None:
    design, half = designed(make_study(design="fraction", device="cuda"))
    whole_design, whole = designed(make_study(device="cuda"))
    times, every = log_times(design), log_times(whole_design)
    for (kind, subject), contrast in half.items():
        if kind in ("optimization", "layer", "interaction"):
            assert apply(contrast, times) == pytest.approx(apply(whole[kind, subject], every), abs=1e-12)
            assert contrast.assumes == ASSUMES
    # by hand: own gain and half of each pair
    assert apply(half["optimization", "tensor_lr"], times) == pytest.approx(0.02 + 0.015, abs=1e-12)
    assert apply(half["interaction", "dynamic_shapes × tensor_lr"], times) == pytest.approx(0.03, abs=1e-12)
    assert apply(half["lack-of-fit", ""], times) == pytest.approx(0.0, abs=1e-12)


def test_a_triple_shows_in_the_lack_of_fit_and_the_sum_still_holds() -> None:
    design, half = designed(make_study(design="fraction", device="cuda"))
    times = log_times(design, triple=0.08)
    # a triple m shares the column of the pair of the other two: as a polynomial in signs it adds m/8 to the columns of
    # its three names and three pairs and to its own; the sum over the names counts 2 * 3 * m/8, full - naive has m
    assert apply(half["lack-of-fit", ""], times) == pytest.approx(0.08 * (1 - 6 / 8), abs=1e-12)
    parts = sum(apply(c, times) for (kind, _), c in half.items() if kind in ("optimization", "lack-of-fit"))
    assert apply(half["compile", ""], times) + parts == pytest.approx(apply(half["total", ""], times), abs=1e-12)


def test_compile_term_effects_and_lack_of_fit_add_up_for_any_times() -> None:
    for device in ("cuda", "cpu"):
        design, half = designed(make_study(design="fraction", device=device))
        generator = np.random.default_rng(1)
        times = {key: float(generator.normal(2, 0.5)) for key in design.effective_keys}
        for over in ("optimization", "layer"):
            parts = sum(apply(c, times) for (kind, _), c in half.items() if kind in (over, "lack-of-fit") and c.weights)
            total = apply(half["total", ""], times) - apply(half["compile", ""], times)
            assert parts == pytest.approx(total, abs=1e-12)


def test_what_a_fraction_cannot_identify_is_refused() -> None:
    study = make_study(design="fraction", device="cuda")
    _, refusals = make_contrasts(study, make_design(study))
    missing = {(r.kind, r.subject): r.missing for r in refusals}
    assert missing["leave-one-out", "tensor_lr"] == ("without-tensor_lr",)
    assert ("a/a", "eager") in missing


def test_pairs_of_four_are_known_as_sums_only() -> None:
    _, half = designed(make_study(design="fraction"))
    pairs = {subject for kind, subject in half if kind == "interaction"}
    assert "dynamic_shapes × tensor_lr + string_keys × sync_free" in pairs and len(pairs) == 3


def test_a_half_continues_as_the_whole() -> None:
    half, whole = make_study(design="fraction"), make_study()
    assert half.hash == whole.hash != make_study(design="ladder").hash
    keys = set(make_design(whole).effective_keys)
    assert set(make_design(half).effective_keys) <= keys


def test_a_hand_written_half_is_not_guessed_to_be_one() -> None:
    """The same cells as a list: nothing says that no three interact, so nothing is attributed."""
    study = make_study(design="fraction", device="cuda")
    written = tuple(
        ExplicitCell(execution=c.cell.execution, levels={n: "on" for n in c.on}) for c in make_design(study).cells
    )
    listed = replace(study, design="cells", cells=written)
    contrasts, refusals = make_contrasts(listed, make_design(listed))
    assert not [c for c in contrasts if c.kind == "optimization" and c.weights]
    assert {r.subject for r in refusals if r.kind == "optimization"} == set(GAINS)


def test_fewer_than_four_that_act_are_refused() -> None:
    study = make_study(design="fraction", factors=make_factors(["dynamic_shapes", "tensor_lr", "sync_free"]))
    with pytest.raises(UserError, match=r"at least 4 .* 'both'"):
        make_design(study)
    with pytest.raises(UserError, match="at least 4 optimizations that act in compiled cells"):
        make_design(make_study(design="fraction", compile_step=False))
