"""Rows of the tiers -> their sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ablate.analysis.results.effects import Effect
from ablate.analysis.results.training import MarginRow, WindowRow
from ablate.analysis.words.speed import why_not_reported
from ablate.analysis.words.training import describe_failure, margin_note

PASSES = WindowRow(
    side="arm", subject="full", block=0, window=0, outcome="within the envelope", num_steps=60,
    num_tested=60, largest=2e-7,
)  # fmt: skip
FAILS = replace(
    PASSES, window=20, outcome="beyond the envelope", largest=1e-3, first_step=22, quantity="lr", quantity_step=20
)  # fmt: skip


def test_failures_in_words() -> None:
    lost = replace(FAILS, outcome="non-finite loss", quantity="loss", first_step=12, quantity_step=12)
    assert describe_failure(lost) == "the loss of full is not finite at step 12 (window 20, block 0)"
    side = replace(lost, side="optimization", subject="x", lost="full without x")
    assert describe_failure(side) == "the loss of full without x is not finite at step 12 (window 20, block 0)"
    masks = replace(lost, outcome="different dropout masks", quantity="mask", first_step=None, quantity_step=3)
    assert describe_failure(masks) == "the dropout masks differ from step 3 on (window 20, block 0)"
    short = replace(lost, outcome="different number of steps", first_step=30)
    assert describe_failure(short) == "the number of steps differs from step 30 on (window 20, block 0)"
    rate = replace(lost, outcome="different learning rate", quantity="lr", first_step=None, quantity_step=21)
    assert describe_failure(rate) == "the learning rate differs from step 21 on (window 20, block 0)"


@pytest.mark.parametrize(
    ("row", "note"),
    [
        ({}, ""),
        ({"why": "one block"}, "one block"),
        ({"why": "pilot"}, "pilot with 3 blocks, no claim"),
        ({"why": "steps differ", "detail": "3 against 12"}, "different number of steps (3 against 12)"),
        ({"bin": 2, "num_bins": 20}, "bin 2 of 20 is farthest off"),
        ({"bin": 2, "num_bins": 20, "why": "pilot"}, "bin 2 of 20 is farthest off; pilot with 3 blocks, no claim"),
        ({"why": "no margin"}, "no margin in the spec: run `ablate margins SPEC`"),
    ],
)
def test_what_a_margin_test_lacks_in_words(row: dict[str, Any], note: str) -> None:
    blank = MarginRow(
        side="arm", subject="full", quantity="loss curve", verdict="inconclusive", difference=0.1, num_blocks=3
    )
    assert margin_note(replace(blank, **row)) == note


def test_an_effect_says_why_it_has_no_number() -> None:
    blank = Effect(response="steady", kind="total", subject="")
    lacking = replace(blank, why="no such cell", lacks=("naive", "full"), num_more_lacking=3)
    assert why_not_reported(lacking) == "this design lacks naive, full, and 3 more"
    assert why_not_reported(replace(lacking, num_more_lacking=0)) == "this design lacks naive, full"
    gone = replace(blank, why="no complete block", dropped=("block 0: full failed", "block 1: full failed"))
    assert why_not_reported(gone) == "no block has every trial it needs: block 0: full failed; block 1: full failed"
    assert why_not_reported(replace(blank, why="not comparable", cause="a and b")) == "not comparable: a and b"
    assert why_not_reported(replace(blank, why="inert", cause="no GPU")) == "no GPU"
