"""Every planted bug is found where it acts, by the quantity that it changes; another order of summation is not."""

from __future__ import annotations

import pytest

from ablate.core.recipe import Recipe
from ablate.plugins.registry import apply_of
from ablate.train.parity.runs import EAGER, ParityRuns, masks_of, train_arm, train_reference
from ablate.train.parity.steps import Span
from ablate.train.session import open_session
from benchmarks.equivalence import planted, reassociated
from benchmarks.equivalence.trained import BUGS, CPU, FIRST_STEP, CachedBatches, Finding, judge, with_batches
from real_parts import tiny_study

CHURN = "hm/user-churn"
SPANS = (Span(start=0, num_steps=4), Span(start=19, num_steps=4))
FIRST = {  # bug -> what departs first, and the step in each window
    "dropout-off": ("mask", 0, 19),
    "lr-frozen": ("lr", 1, 19),
    "lr-2-percent": ("lr", 0, 19),
    "schedule-ignored": ("lr", None, 20),
    "stale-batch": ("mask", 1, 20),  # another batch has masks of other sizes
    "momentum-off": ("gradient", 2, 20),
    "same-mask": ("mask", 0, 19),
}


def open_tiny(recipe: Recipe, seed: int):
    return open_session(tiny_study(CHURN, epochs=1, steps=40), CHURN, recipe, seed=seed, device=CPU)


@pytest.fixture(scope="module")
def eager() -> tuple[ParityRuns, CachedBatches]:
    session = open_tiny(Recipe(), 0)
    batches = CachedBatches(session.dataset)
    return train_reference(with_batches(session, batches), SPANS, seed=0, reruns=2), batches


def judged(eager: tuple[ParityRuns, CachedBatches], recipe: Recipe, kind) -> list[Finding]:
    runs, batches = eager
    return list(judge(runs, open_tiny(recipe, 7), batches, SPANS, 0, "arm", kind))


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_by_what_it_changes_and_no_earlier_than_it_can_be(eager, bug):
    recipe = Recipe().with_changes(planted.planting(bug))
    quantity, *steps = FIRST[bug]
    for finding, step in zip(judged(eager, recipe, "bug"), steps, strict=True):
        assert (finding.quantity, finding.first_step) == ((quantity, step) if step is not None else ("", None))
        assert finding.by_loss == finding.flagged == (step is not None)
        assert finding.aligned and (step is None or step >= FIRST_STEP[bug](finding.window))


def test_nothing_planted_is_the_training_as_it_is(eager):
    assert apply_of(planted)(Recipe(), "none") == Recipe()
    assert all(f.ratio == 0 and not f.flagged for f in judged(eager, Recipe(), "correct"))


@pytest.mark.parametrize("change", ["edges_reversed", "halved_products"])
def test_another_order_of_summation_changes_bits_but_is_not_flagged(eager, change):
    runs, batches = eager
    recipe = reassociated.with_change(Recipe(), change)
    arm = train_arm(
        with_batches(open_tiny(recipe, 7), batches), SPANS, runs.checkpoints.__getitem__, masks_of(runs.rows), seed=0
    )
    weights = {(row.window, row.step): row.weights for row in runs.rows if row.run == EAGER}
    assert any(row.weights != weights[row.window, row.step] for row in arm.rows)  # the loss may round to the same
    assert not any(finding.flagged for finding in judged(eager, recipe, "correct"))
