"""A setting -> coverage, bias, error rates and power over many simulated studies, counted chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ablate.analysis.statistics.engine import SEQUENTIAL_LEVEL, Array, block_t, contrast_values, epoch_summary, holm
from ablate.core.study import LOOKS
from benchmarks.validity import constants as c
from benchmarks.validity.lattice import Lattice, make_lattice
from benchmarks.validity.simulate import simulate
from benchmarks.validity.stopping import stopping_blocks


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What came out of one setting and number of blocks, per contrast (K) or per optimization (F).

    Attributes:
        family_wise: Share of studies with any false claim about an optimization (Holm at .05).
        identity: Largest error of `total = compile + sum of effects` in any block, optimizations and layers.
        bias_error_K: Standard error of the measured bias.
        found_F, found_together_F: Share of studies whose plain / simultaneous interval leaves out 0.
    """

    setting: str
    num_blocks: int
    lattice: Lattice
    num_studies: int
    coverage_K: Array
    bias_K: Array
    bias_error_K: Array
    simultaneous: float
    family_wise: float
    identity: float
    found_F: Array
    found_together_F: Array


def lattice_of(setting: str) -> Lattice:
    """The cells that a setting is simulated on."""
    return make_lattice(device="cpu" if setting == "inert" else "cuda", is_null=setting == "null")


def generator_of(*place: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the place in the benchmark only."""
    words = [c.SEED]
    for part in place:
        words += [part] if isinstance(part, int) else list(part.encode())
    return np.random.default_rng(words)


def chunks(num_studies: int) -> Iterator[int]:
    """Sizes of chunks that fit in the cache rather than fill the memory."""
    for start in range(0, num_studies, c.CHUNK):
        yield min(c.CHUNK, num_studies - start)


def measure(setting: str, num_blocks: int, num_studies: int) -> Rates:
    """Simulate a setting and count."""
    lattice = lattice_of(setting)
    generator = generator_of(setting, num_blocks)
    truth_K = lattice.truth_K
    family = lattice.rows("optimization")
    is_null = np.abs(truth_K[family]) < 1e-12
    covered, total, squares = (np.zeros(len(truth_K)) for _ in range(3))
    together = false_claims = 0
    found, found_together = np.zeros(len(family)), np.zeros(len(family))
    identity = 0.0
    for size in chunks(num_studies):
        times = simulate(setting, lattice, generator, num_studies=size, num_blocks=num_blocks)
        values_SKB = contrast_values(lattice.weights_KC, epoch_summary(times))
        identity = max(identity, _identity(lattice, values_SKB))
        plain = block_t(values_SKB)
        covered += plain.covers(truth_K).sum(axis=0)
        total += (plain.mean - truth_K).sum(axis=0)
        squares += ((plain.mean - truth_K) ** 2).sum(axis=0)
        shapley_SFB = values_SKB[:, family]
        joint = block_t(shapley_SFB, family=len(family))
        together += int(joint.covers(truth_K[family]).all(axis=-1).sum())
        claimed = holm(plain.p[:, family]) < 1.0 - c.NOMINAL
        wrong = claimed & (is_null | (np.sign(joint.mean) != np.sign(truth_K[family])))
        false_claims += int(wrong.any(axis=-1).sum())
        found += (np.abs(plain.mean[:, family]) > plain.half[:, family]).sum(axis=0)
        found_together += (np.abs(joint.mean) > joint.half).sum(axis=0)
    return Rates(
        setting=setting,
        num_blocks=num_blocks,
        lattice=lattice,
        num_studies=num_studies,
        coverage_K=covered / num_studies,
        bias_K=total / num_studies,
        bias_error_K=np.sqrt(squares) / num_studies,
        simultaneous=together / num_studies,
        family_wise=false_claims / num_studies,
        identity=identity,
        found_F=found / num_studies,
        found_together_F=found_together / num_studies,
    )


def measure_sequential(setting: str, num_studies: int, *, is_alone: bool = False) -> dict[float, tuple[Array, float]]:
    """Let every study add blocks until it is narrow enough.

    Args:
        is_alone: The study has one effect only, so that it stops on the very width that it reports (the hardest case).

    Returns:
        By target (half-width, log time): coverage of the reported interval of each Shapley value, layer, the compile
        term and the total where the study stopped, and the mean number of blocks.
    """
    lattice = lattice_of(setting)
    generator = generator_of("sequential", setting)
    family = [lattice.row("optimization", c.TWO_PERCENT)] if is_alone else lattice.rows("optimization")
    others = [] if is_alone else [row for kind in ("layer", "compile", "total") for row in lattice.rows(kind)]
    watched = [*family, *others]
    truth_K = lattice.truth_K[watched]
    targets = [target / 2 for target in c.TARGETS] if is_alone else list(c.TARGETS)
    covered = {target: np.zeros(len(watched)) for target in targets}
    blocks = dict.fromkeys(targets, 0)
    for size in chunks(num_studies):
        times = simulate(setting, lattice, generator, num_studies=size, num_blocks=LOOKS[-1])
        values_SKB = contrast_values(lattice.weights_KC, epoch_summary(times))
        shown = {b: block_t(values_SKB[:, watched, :b], level=SEQUENTIAL_LEVEL).covers(truth_K) for b in LOOKS}
        for target in targets:
            stopped = stopping_blocks(values_SKB[:, family], target, looks=LOOKS)
            blocks[target] += int(stopped.sum())
            for look in LOOKS:
                covered[target] += shown[look][stopped == look].sum(axis=0)
    return {t: (covered[t] / num_studies, blocks[t] / num_studies) for t in targets}


def _identity(lattice: Lattice, values_SKB: Array) -> float:
    total = values_SKB[:, lattice.row("total")] - values_SKB[:, lattice.row("compile")]
    return max(
        float(np.max(np.abs(total - values_SKB[:, lattice.rows(kind)].sum(axis=1))))
        for kind in ("optimization", "layer")
    )
