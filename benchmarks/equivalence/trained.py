"""Workloads and seeds -> what tier 1 says of planted bugs and of correct held-out arms, by really training them.

Everything of a workload runs in one process: eager with its reruns, the bugs one by one, eager with other orders of
summation, and the fully optimized cell compiled by inductor, which is compiled once and takes over the weights of
each seed in place. Compiling the optimizer step as well is another arm: compiled Adam works out its bias correction in
float32, which makes the first update 6.7e-6 smaller in every element. Eager's rounding does no such thing, and tier 1
sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch._dynamo import utils as dynamo_utils

from ablate.analysis.statistics.envelope import FACTOR, Outcome, WindowSeries, WindowTest, compare_window
from ablate.core.recipe import Recipe
from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.design.recipes import compose_cell, find_appliers, for_parity
from ablate.design.trials import resolve_windows
from ablate.plugins.registry import make_catalog
from ablate.spec.reader import read_study
from ablate.train.parity.runs import train_arm, train_reference
from ablate.train.parity.windows import ARM, EAGER, ULP, ParityRuns, Row, Span, make_spans, masks_of
from ablate.train.session import Session, apply_settings, open_session
from benchmarks.equivalence import planted, reassociated

SPEC = Path(__file__).parent / "equivalence.yaml"
CPU = torch.device("cpu")
BUGS = tuple(planted.BUGS)
REASSOCIATED = ("edges_reversed", "halved_products")
COMPILED, COMPILED_STEP = "compiled forward", "compiled forward and step"
BUG_WINDOWS = (0, 20)
BUG_STEPS = 30
COMPILED_SEEDS = 10

FIRST_STEP: dict[str, Callable[[int], int]] = {  # window -> first step in which the bug can show, by reasoning
    "dropout-off": lambda window: window,
    "lr-frozen": lambda window: max(window, 1),
    "lr-2-percent": lambda window: window,
    "schedule-ignored": lambda window: max(window, planted.IGNORED_FROM),
    "stale-batch": lambda window: window + 1,
    "momentum-off": lambda window: max(window + 1, 2),  # the first step of all has nothing to forget
    "same-mask": lambda window: window,
}

Kind = Literal["bug", "correct", "known"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What tier 1 says of one window of one arm.

    Attributes:
        outcome: What the product says of the window.
        by_loss: The loss left the envelope.
        first_step, quantity: What departed first, and in which step of the training; None and empty when nothing did.
        ratio: Largest deviation over the limit of ten envelopes, in the tested steps.
        num_tested: Steps before eager stops repeating itself.
        aligned: Dropout masks were aligned.
    """

    workload: str
    arm: str
    kind: Kind
    seed: int
    window: int
    outcome: Outcome
    by_loss: bool
    first_step: int | None
    quantity: str
    ratio: float
    num_tested: int
    aligned: bool

    @property
    def flagged(self) -> bool:
        """The product calls the arm different here."""
        return self.aligned and self.outcome not in ("within the envelope", "says nothing")


class CachedBatches:
    """The batches of a seed, sampled once for all arms that train on them."""

    def __init__(self, dataset: Any) -> None:
        self._dataset, self._batches = dataset, {}  # type: ignore[var-annotated]

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, step: int) -> Any:
        if step not in self._batches:
            self._batches[step] = self._dataset[step]
        return self._batches[step]


def read_spec() -> Study:
    """The study that the benchmark trains."""
    return read_study(SPEC, catalog=make_catalog(), device="cpu")


def measure(
    workload: str, seeds: Sequence[int], compiled_seeds: Sequence[int], bugs: Sequence[str] = BUGS
) -> list[Finding]:
    """Train every arm of a workload with every seed.

    Args:
        seeds: Seeds of the bugs and of the reassociated arms.
        compiled_seeds: Those of them with which the compiled arms are trained too.
        bugs: Which bugs are planted.
    """
    study = read_spec()
    full = full_recipe(study)
    apply_settings(full, study.num_threads)
    recipes = {COMPILED: replace(full, compile_step=False), COMPILED_STEP: full} if compiled_seeds else {}
    compiled = {arm: open_session(study, workload, recipe, seed=0, device=CPU) for arm, recipe in recipes.items()}
    found: list[Finding] = []
    for seed in seeds:
        found += measure_seed(study, workload, seed, compiled if seed in compiled_seeds else {}, bugs)
    return found


def measure_seed(
    study: Study, workload: str, seed: int, compiled: Mapping[str, Session], bugs: Sequence[str]
) -> Iterator[Finding]:
    """Train eager, then every arm from its checkpoints, and compare their windows.

    Raises:
        RuntimeError: a compiled arm fell back to eager.
    """
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    starts = resolve_windows(study.equivalence, num_steps)
    spans = make_spans(starts, study.equivalence.window_steps, num_steps)
    bug_spans = make_spans(BUG_WINDOWS, min(BUG_STEPS, study.equivalence.window_steps), num_steps)
    reference = open_session(study, workload, Recipe(), seed=seed, device=CPU)
    batches = CachedBatches(reference.dataset)

    def arm(recipe: Recipe) -> Session:
        return open_session(study, workload, recipe, seed=seed + 1000, device=CPU)  # weights are eager's anyway

    eager = train_reference(with_batches(reference, batches), spans, seed=seed, reruns=study.equivalence.reruns)
    for bug in bugs:
        recipe = Recipe().with_changes(planted.planting(bug))
        yield from judge(eager, arm(recipe), batches, bug_spans, seed, bug, "bug")
    for name in REASSOCIATED:
        recipe = reassociated.with_change(Recipe(), name)
        yield from judge(eager, arm(recipe), batches, spans, seed, name.replace("_", " "), "correct")
    for name, session in compiled.items():
        yield from judge(eager, session, batches, spans, seed, name, "correct" if name == COMPILED else "known")
    failures = [m.fail_reason for m in dynamo_utils.get_compilation_metrics() if m.fail_type]  # since the last session
    if failures:
        raise RuntimeError(f"an arm went on eagerly, so it is not a compiled one: {failures[0]}")


def judge(
    eager: ParityRuns, session: Session, batches: CachedBatches, spans: Sequence[Span], seed: int, arm: str, kind: Kind
) -> Iterator[Finding]:
    """Train an arm and compare each of its windows with eager's."""
    runs = train_arm(
        with_batches(session, batches), spans, eager.checkpoints.__getitem__, masks_of(eager.rows), seed=seed
    )
    for span, window in zip(spans, runs.windows, strict=True):
        ulps = sorted({row.run for row in eager.rows if row.run.startswith(ULP)})
        one, base, *reruns = (
            _series(rows, run, span)
            for rows, run in ((runs.rows, ARM), (eager.rows, EAGER), *((eager.rows, ulp) for ulp in ulps))
        )
        test = compare_window(one, base, reruns)
        yield _finding(
            test, span, workload=session.choice.name, arm=arm, kind=kind, seed=seed, aligned=window.masks == "aligned"
        )


def with_batches(session: Session, batches: CachedBatches) -> Session:
    """The session on the batches of a seed."""
    return replace(session, parts=replace(session.parts, dataset=batches))  # type: ignore[arg-type]


def full_recipe(study: Study) -> Recipe:
    """How the fully optimized cell trains in a parity trial."""
    cell = next(designed.cell for designed in make_design(study).cells if "full" in designed.arms)
    return for_parity(compose_cell(study, cell, find_appliers(study)))


def _finding(test: WindowTest, span: Span, **who: Any) -> Finding:
    first = test.first
    loss = test.loss
    tested = slice(0, max(loss.num_tested, 0 if loss.first_beyond is None else loss.first_beyond + 1))
    ratio = float(np.max(loss.deviation[tested] / (FACTOR * loss.envelope[tested]), initial=0.0))
    return Finding(
        window=span.start,
        outcome=test.outcome,
        by_loss=loss.first_beyond is not None,
        first_step=None if first is None else span.start + first[1],
        quantity="" if first is None else first[0],
        ratio=ratio,
        num_tested=loss.num_tested,
        **who,
    )


def _series(rows: Sequence[Row], run: str, span: Span) -> WindowSeries:
    """The recorded quantities of one run in the steps of a window."""
    own = [row for row in rows if (row.run, row.window) == (run, span.start) and row.step in span]
    return WindowSeries(
        loss=np.array([row.loss for row in own]),
        grad_norm=np.array([row.grad_norm for row in own]),
        lr=np.array([row.lr for row in own]),
        mask=np.array([row.mask for row in own], dtype=np.int64),
    )
