"""The benchmark in small -> it passes with the engine as it is, and fails with an engine that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.analysis.statistics import engine
from benchmarks.validity import __main__ as benchmark
from benchmarks.validity import checks, controls
from benchmarks.validity.lattice import make_lattice
from benchmarks.validity.measure import measure, measure_sequential

NUM = 2000


def missed(setting: str, num_blocks: int = 5) -> list[str]:
    rates = [measure(setting, num_blocks, NUM)]
    found = [*checks.coverage_checks(rates), *checks.joint_checks(rates), *checks.exact_checks(rates, {})]
    return [check.what for check in found if check.holds is False]


@pytest.mark.parametrize("setting", ["normal", "inert", "null"])
def test_numbers_hold(setting: str) -> None:
    assert missed(setting) == []


def test_too_narrow_intervals_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = engine.quantile
    monkeypatch.setattr(engine, "quantile", lambda degrees, **options: 0.8 * right(degrees, **options))
    assert "coverage of 64 effects" in missed("normal") and "simultaneous coverage" in missed("normal")


def test_normal_instead_of_t_quantiles_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = engine.quantile
    monkeypatch.setattr(engine, "quantile", lambda degrees, **options: right(10_000, **options))
    assert "coverage of 64 effects" in missed("normal")


def test_biased_values_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.validity import measure as module

    right = engine.contrast_values
    monkeypatch.setattr(module, "contrast_values", lambda weights, times: 1.05 * right(weights, times))
    assert "|bias|, worst effect" in missed("normal")


def test_adding_up_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.validity import measure as module

    right = engine.contrast_values
    monkeypatch.setattr(module, "contrast_values", lambda weights, times: right(weights, times) + 1e-6)
    assert "identity in every block" in missed("normal")


def test_negative_controls_fail_as_they_must() -> None:
    assert controls.pooled_epochs(NUM) < 0.85
    assert controls.copied_rows(NUM) < 0.92 < controls.copied_rows(NUM, is_copied=False)
    assert controls.fixed_order(NUM) < 0.80


def test_a_control_that_passes_is_a_miss() -> None:
    found = list(checks.control_checks({"pooled epochs": 0.95}, right=0.95))
    assert [check.holds for check in found] == [False, None]


def test_sequential_studies_stop_earlier_for_wider_targets() -> None:
    found = measure_sequential("normal", 100)
    blocks = [mean for _, mean in found.values()]
    assert blocks == sorted(blocks, reverse=True) and blocks[0] > 20 > blocks[-1] >= 5


def test_the_truth_of_the_simulation_is_as_stated() -> None:
    lattice = make_lattice(device="cuda")
    shapley = dict(zip(lattice.names, lattice.truth_K[lattice.rows("optimization")], strict=True))
    assert shapley["tensor_lr"] == pytest.approx(np.log(1.02), abs=1e-12)
    assert shapley["dynamic_shapes"] == pytest.approx(np.log(1.05), abs=1e-12)
    assert shapley["string_keys"] == pytest.approx(0.0, abs=1e-12)
    assert lattice.truth_K[lattice.row("compile")] == pytest.approx(0.20, abs=1e-12)
    assert len(make_lattice(device="cpu").cells) == 20
    assert np.all(make_lattice(device="cuda", is_null=True).truth_K == 0.0)


def test_exit_code_is_one_when_a_number_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = checks.Check(item="2", what="coverage", setting="x", measured="0.9", wanted=">= 0.935", holds=False)
    for found, code in (([bad], 1), ([], 0)):
        monkeypatch.setattr(benchmark, "run_checks", lambda *_, found=found: found)
        monkeypatch.setattr("sys.argv", ["validity", "--quick"])
        assert benchmark.main() == code
    assert "1 MISSED" in capsys.readouterr().out
