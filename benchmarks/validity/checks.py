"""Measured rates -> one row per acceptance number: what was wanted, what came out, whether it holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ablate.analysis.statistics.engine import Array
from benchmarks.validity import constants as c
from benchmarks.validity.measure import Rates


@dataclass(frozen=True, kw_only=True)
class Check:
    """One acceptance number; `holds` is None for a number that is only printed."""

    item: str
    what: str
    setting: str
    measured: str
    wanted: str
    holds: bool | None


def spread(num_studies: int, num_checks: int, rate: float = c.NOMINAL) -> float:
    """How far a rate may stray by chance when all checks together shall fail in at most 1 % of seeds."""
    return -float(ndtri(c.CHANCE / (2 * num_checks))) * math.sqrt(rate * (1 - rate) / num_studies)


def coverage_checks(rates: Sequence[Rates]) -> Iterator[Check]:
    """Item 2: lowest and highest coverage over all effects; item 3: largest bias."""
    num_checks = sum(len(r.coverage_K) for r in rates)
    for r in rates:
        low, high = c.COVERAGE_SPIKES if r.setting == "spikes" else c.COVERAGE
        chance = spread(r.num_studies, num_checks)
        low, high = min(low, c.NOMINAL - chance), max(high, c.NOMINAL + chance)
        lowest, highest = float(r.coverage_K.min()), float(r.coverage_K.max())
        yield Check(
            item="2", what=f"coverage of {len(r.coverage_K)} effects", setting=_setting(r),
            measured=f"{lowest:.3f} ({_name(r, r.coverage_K, lowest)}) to {highest:.3f}",
            wanted=f"in [{low:.3f}, {high:.3f}]", holds=low <= lowest and highest <= high,
        )  # fmt: skip
    yield from _bias_checks(rates, spread(1, num_checks, 0.5) / 0.5)


def _bias_checks(rates: Sequence[Rates], errors: float) -> Iterator[Check]:
    """The effect whose bias is largest in relation to its limit: .1 %, or what chance allows where that is more."""
    for r in rates:
        limit_K = np.maximum(c.MOST_BIAS, errors * r.bias_error_K)
        ratio_K = np.abs(r.bias_K) / limit_K
        worst = int(np.argmax(ratio_K))
        at_most = float(np.abs(r.bias_K[r.lattice.rows("optimization")]).max())
        yield Check(
            item="3", what="|bias|, worst effect", setting=_setting(r),
            measured=f"{100 * abs(r.bias_K[worst]):.3f} % ({_name(r, ratio_K, ratio_K[worst])}); "
            f"Shapley values at most {100 * at_most:.3f} %",
            wanted=f"<= {100 * limit_K[worst]:.3g} %", holds=bool(ratio_K[worst] <= 1.0),
        )  # fmt: skip


def joint_checks(rates: Sequence[Rates]) -> Iterator[Check]:
    """Item 4: simultaneous coverage and family-wise error over the optimizations."""
    for r in rates:
        low = min(c.SIMULTANEOUS, c.NOMINAL - spread(r.num_studies, 2 * len(rates)))
        high = max(c.FAMILY_WISE, 1 - c.NOMINAL + spread(r.num_studies, 2 * len(rates)))
        yield Check(
            item="4", what="simultaneous coverage", setting=_setting(r), measured=f"{r.simultaneous:.3f}",
            wanted=f">= {low:.3f}", holds=r.simultaneous >= low,
        )  # fmt: skip
        yield Check(
            item="4", what="family-wise error of claims", setting=_setting(r), measured=f"{r.family_wise:.3f}",
            wanted=f"<= {high:.3f}", holds=r.family_wise <= high,
        )  # fmt: skip


def power_checks(rates: Sequence[Rates]) -> Iterator[Check]:
    """Item 5: how often effects of 2 % and 5 % are found under normal noise."""
    for r in (r for r in rates if r.setting == "normal" and r.num_blocks in (5, 8)):
        subjects = [r.lattice.contrasts[row].subject for row in r.lattice.rows("optimization")]
        two, five = subjects.index(c.TWO_PERCENT), subjects.index(c.FIVE_PERCENT)
        for what, found, wanted in (
            ("power, 2 %, unadjusted", r.found_F[two], c.POWER_TWO),
            ("power, 2 %, simultaneous", r.found_together_F[two], c.POWER_TWO if r.num_blocks == 8 else None),
            ("power, 5 %, unadjusted", r.found_F[five], c.POWER_FIVE),
            ("power, 5 %, simultaneous", r.found_together_F[five], c.POWER_FIVE),
        ):
            yield Check(
                item="5", what=what, setting=_setting(r), measured=f"{found:.3f}",
                wanted="printed only" if wanted is None else f">= {wanted:g}",
                holds=None if wanted is None else bool(found >= wanted),
            )  # fmt: skip


def exact_checks(rates: Sequence[Rates], differences: Mapping[str, float]) -> Iterator[Check]:
    """Item 1: the identity in every simulated block, and agreement with an independent implementation."""
    worst = max(r.identity for r in rates)
    yield Check(
        item="1", what="identity in every block", setting="all", measured=f"{worst:.1e}",
        wanted=f"<= {c.EXACT:g}", holds=worst <= c.EXACT,
    )  # fmt: skip
    for kind, value in differences.items():
        yield Check(
            item="1", what=f"{kind} against shapiq", setting="2 to 6 optimizations", measured=f"{value:.1e}",
            wanted=f"<= {c.EXACT:g}", holds=value <= c.EXACT,
        )  # fmt: skip


def sequential_checks(setting: str, found: Mapping[float, tuple[Array, float]], num_studies: int) -> Iterator[Check]:
    """Item 6: worst coverage over effects when the number of blocks depends on the width."""
    num_checks = sum(len(coverage) for coverage, _ in found.values())
    low = min(c.SEQUENTIAL, c.NOMINAL - spread(num_studies, num_checks))
    for target, (coverage, blocks) in found.items():
        worst = float(coverage.min())
        yield Check(
            item="6", what=f"sequential, target {100 * target:g} %", setting=setting,
            measured=f"{worst:.3f} (worst of {len(coverage)}, {blocks:.1f} blocks on average)",
            wanted=f">= {low:.3f}", holds=worst >= low,
        )  # fmt: skip


def control_checks(found: Mapping[str, float], right: float) -> Iterator[Check]:
    """Item 10: what must fail does fail."""
    for name, coverage in found.items():
        yield Check(
            item="10", what=f"negative control: {name}", setting="5 blocks", measured=f"{coverage:.3f}",
            wanted=f"< {c.CONTROLS[name]:g}", holds=coverage < c.CONTROLS[name],
        )  # fmt: skip
    yield Check(
        item="10", what="the same without copies", setting="5 blocks", measured=f"{right:.3f}",
        wanted="printed only", holds=None,
    )  # fmt: skip


def _setting(rates: Rates) -> str:
    return f"{rates.setting}, {rates.num_blocks} blocks"


def _name(rates: Rates, values_K: Array, value: float) -> str:
    contrast = rates.lattice.contrasts[list(values_K).index(value)]
    return f"{contrast.kind} {contrast.subject}".strip()
