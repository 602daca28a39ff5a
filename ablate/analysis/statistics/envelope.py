"""Losses of an arm, eager and eager's reruns from weights moved by one ulp -> whether the arm differs beyond rounding.

Legend: T steps of one window, R reruns. Rule (tier 1): `d(t) = |arm - eager| / |eager|`; `env(t)` is the running
maximum of the same quantity over the reruns, at least 2^-22; K is the first step where env exceeds 1e-5 (from there on
eager does not repeat itself either); the arm passes if `d(t) <= 10 env(t)` for every t < K. A window with K < 10 is not
passed by anybody: what is wrong with a training may need a few steps to show in the loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Quantity = Literal["lr", "mask", "gradient", "loss"]
Cause = Literal["beyond the envelope", "non-finite loss", "different number of steps"]
Outcome = Literal[
    "bitwise equal",
    "within the envelope",
    "beyond the envelope",
    "non-finite loss",
    "different number of steps",
    "different learning rate",
    "different dropout masks",
    "says nothing",
]

FLOOR = 2.0**-22
CHAOTIC = 1e-5
FACTOR = 10.0
LR_ROUNDING = 1e-6
FEWEST_TESTED = 10


@dataclass(frozen=True, kw_only=True)
class WindowSeries:
    """What one run of one window recorded in each step, shape (T,) each.

    Attributes:
        grad_norm: Euclidean norm of the gradient.
        mask: Checksum of the dropout masks; None where nobody looked.
    """

    loss: Array
    grad_norm: Array
    lr: Array
    mask: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class EnvelopeTest:
    """One quantity of one window against its envelope.

    Attributes:
        deviation: `d(t)`, shape (T,), for the steps that both have; infinite where only one of them is finite.
        envelope: `env(t)`, shape (T,).
        num_tested: K, the steps before eager stops repeating itself.
        first_beyond: First step, counted from the start of the window, that leaves the envelope, is not finite, or is
            missing in one of them; None when there is none.
        cause: Why that step counts; empty without one.
    """

    deviation: Array
    envelope: Array
    num_tested: int
    first_beyond: int | None
    cause: Cause | Literal[""] = ""

    @property
    def passed(self) -> bool:
        """No tested step is beyond, and there are enough of them: ten, or all of a shorter window."""
        return self.first_beyond is None and self.num_tested >= max(1, min(FEWEST_TESTED, len(self.deviation)))

    @property
    def largest(self) -> float:
        """Largest `d(t)` over the tested steps (and the first one beyond); 0 when there is none."""
        last = max(self.num_tested, -1 if self.first_beyond is None else self.first_beyond + 1)
        return float(np.max(self.deviation[:last], initial=0.0))


@dataclass(frozen=True, kw_only=True)
class WindowTest:
    """One window of an arm against eager: the loss decides, the other quantities say where a difference came from.

    Attributes:
        departures: First step (from the start of the window) at which each quantity departs, for those that do, in the
            order of the steps; within one step lr, mask, gradient, loss.
    """

    loss: EnvelopeTest
    departures: tuple[tuple[Quantity, int], ...] = ()

    @property
    def first(self) -> tuple[Quantity, int] | None:
        """The quantity that departs first and its step; None when nothing does."""
        return self.departures[0] if self.departures else None

    @property
    def outcome(self) -> Outcome:
        """What the window says. Another learning rate or mask is another training even before the loss shows it."""
        if self.loss.cause:
            return self.loss.cause
        departed = {quantity for quantity, _ in self.departures}
        if "lr" in departed:
            return "different learning rate"
        if "mask" in departed:
            return "different dropout masks"
        return "within the envelope" if self.loss.passed else "says nothing"


def relative_deviation(value_T: Array, eager_T: Array) -> Array:
    """`|value - eager| / |eager|` per step, shape (T,); 0 where both are equal or neither is finite.

    Infinite where only one of them is finite, or where eager is 0 and the other is not.
    """
    finite_T, finite_eager_T = np.isfinite(value_T), np.isfinite(eager_T)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference_T = np.abs(value_T - eager_T)
        ratio_T = np.where(difference_T == 0.0, 0.0, difference_T / np.abs(eager_T))
    ratio_T = np.where(finite_T == finite_eager_T, ratio_T, np.inf)
    return np.asarray(np.where(~finite_T & ~finite_eager_T, 0.0, ratio_T))


def eager_envelope(eager_T: Array, reruns: Sequence[Array]) -> Array:
    """`env(t)`: running maximum of the reruns' relative deviation from eager, at least 2^-22, shape (T,).

    Args:
        eager_T: Loss (or gradient norm) of the unperturbed eager run.
        reruns: The same of each rerun from weights moved by one ulp; a rerun that ended early (its loss was not finite)
            makes the envelope infinite from there on.

    Raises:
        ValueError: there is no rerun.
    """
    if not reruns:
        raise ValueError("an envelope needs at least one eager rerun from perturbed weights")
    deviation_RT = np.full((len(reruns), len(eager_T)), np.inf)
    for row, rerun_T in enumerate(reruns):
        common = min(len(rerun_T), len(eager_T))
        deviation_RT[row, :common] = relative_deviation(rerun_T[:common], eager_T[:common])
    return np.maximum(np.maximum.accumulate(np.max(deviation_RT, axis=0)), FLOOR)


def compare_with_envelope(
    value_T: Array, eager_T: Array, reruns: Sequence[Array], reference_T: Array | None = None
) -> EnvelopeTest:
    """Apply the rule of tier 1 to one quantity.

    Where only one of them is finite counts in every step, as does a step that one of them does not have: these are
    differences of another kind than rounding. (Not where eager itself is not finite: its reruns may be, so unsure.)

    Args:
        value_T: Loss (or gradient norm) per step of the arm.
        eager_T: The same of the unperturbed eager run.
        reruns: The same of eager's reruns from weights moved by one ulp.
        reference_T: What the arm is compared with; eager when absent. The envelope is eager's either way.

    Raises:
        ValueError: there is no rerun.
    """
    reference_T = eager_T if reference_T is None else reference_T
    common = min(len(value_T), len(reference_T), len(eager_T))
    envelope_T = eager_envelope(eager_T, reruns)[:common]
    deviation_T = relative_deviation(value_T[:common], reference_T[:common])
    chaotic = np.flatnonzero(envelope_T > CHAOTIC)
    num_tested = int(chaotic[0]) if len(chaotic) else common
    finite_T, finite_reference_T, finite_eager_T = (
        np.isfinite(series[:common]) for series in (value_T, reference_T, eager_T)
    )
    lost_T = np.where(finite_reference_T, ~finite_T, finite_T & finite_eager_T)
    beyond_T = (deviation_T > FACTOR * envelope_T) & (np.arange(common) < num_tested)
    steps = np.flatnonzero(beyond_T | lost_T)
    first: int | None = int(steps[0]) if len(steps) else None
    cause: Cause | Literal[""] = ""
    if first is not None:
        finite = bool(np.isfinite(value_T[first]) and np.isfinite(reference_T[first]))
        cause = "beyond the envelope" if finite else "non-finite loss"
    elif len(value_T) != len(reference_T) and not _ended(value_T, reference_T):
        first, cause = min(len(value_T), len(reference_T)), "different number of steps"
    return EnvelopeTest(
        deviation=deviation_T, envelope=envelope_T, num_tested=num_tested, first_beyond=first, cause=cause
    )


def compare_window(
    arm: WindowSeries, eager: WindowSeries, reruns: Sequence[WindowSeries], reference: WindowSeries | None = None
) -> WindowTest:
    """Compare one window of an arm with eager's (or with another arm's) and find what departs first.

    The learning rate departs beyond float32 rounding (1e-6 of the reference's), a mask when its checksum differs, the
    gradient norm by the rule of the loss with an envelope of its own.

    Args:
        reference: What the arm is compared with; eager when absent.

    Raises:
        ValueError: there is no rerun.
    """
    against = eager if reference is None else reference
    loss = compare_with_envelope(arm.loss, eager.loss, [rerun.loss for rerun in reruns], against.loss)
    norm_T, reference_T = _cut(arm.grad_norm, against.grad_norm)  # of the steps that both have: the loss tells others
    gradient = compare_with_envelope(norm_T, eager.grad_norm, [rerun.grad_norm for rerun in reruns], reference_T)
    unseen = arm.mask is None or against.mask is None
    steps: dict[Quantity, int | None] = {
        "lr": _first(relative_deviation(*_cut(arm.lr, against.lr)) > LR_ROUNDING),
        "mask": None if unseen else _first(np.not_equal(*_cut(arm.mask, against.mask))),  # type: ignore[arg-type]
        "gradient": gradient.first_beyond,
        "loss": loss.first_beyond,
    }
    found = [(quantity, step) for quantity, step in steps.items() if step is not None]
    return WindowTest(loss=loss, departures=tuple(sorted(found, key=lambda item: item[1])))


def _ended(value_T: Array, reference_T: Array) -> bool:
    """The shorter one stopped at a loss that is not finite: the steps behind it are missing for a known reason."""
    shorter = value_T if len(value_T) < len(reference_T) else reference_T
    return bool(len(shorter) > 0 and not np.isfinite(shorter[-1]))


def _cut(first_T: NDArray[np.generic], second_T: NDArray[np.generic]) -> tuple[NDArray, NDArray]:  # type: ignore[type-arg]
    common = min(len(first_T), len(second_T))
    return first_T[:common], second_T[:common]


def _first(where_T: NDArray[np.bool_]) -> int | None:
    steps = np.flatnonzero(where_T)
    return int(steps[0]) if len(steps) else None
