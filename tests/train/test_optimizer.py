"""Schedules against their formulas, and the learning rate's kinds."""

import math

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.core.study import Training
from ablate.train.optimizer import schedule_factor
from real_parts import stepper_of


def test_schedule_factors_by_hand():
    assert [schedule_factor("constant", t, 4) for t in range(3)] == [1, 1, 1]
    assert [schedule_factor("linear", t, 4) for t in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    assert schedule_factor("cosine", 1, 3) == pytest.approx(0.75)  # (1 + cos 60 deg) / 2
    assert schedule_factor("cosine", 3, 3) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("lr_kind", ["float", "tensor", "device-tensor"])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_rate_follows_the_formula_on_the_same_object(lr_kind, schedule, optimizer):
    weight = torch.nn.Parameter(torch.ones(3))
    training = Training(optimizer=optimizer, schedule=schedule)
    stepper = stepper_of(weight, Recipe(lr_kind=lr_kind), training, 0.1, 5)
    before = stepper.optimizer.param_groups[0]["lr"]
    for step in range(5):
        assert float(stepper.learning_rate()) == pytest.approx(0.1 * schedule_factor(schedule, step, 5), rel=1e-6)
        weight.grad = torch.ones(3)
        stepper.step()
        stepper.advance_schedule()
    if lr_kind != "float":
        assert stepper.optimizer.param_groups[0]["lr"] is before


def test_a_tensor_rate_is_not_shared_between_trials():
    training = Training(schedule="linear")
    first = stepper_of(torch.nn.Parameter(torch.ones(1)), Recipe(lr_kind="tensor"), training, 0.1, 2)
    first.advance_schedule()
    second = stepper_of(torch.nn.Parameter(torch.ones(1)), Recipe(lr_kind="tensor"), training, 0.1, 2)
    assert first.learning_rate() == pytest.approx(0.05)
    assert second.learning_rate() == pytest.approx(0.1)
    assert math.isclose(second.learning_rate(), 0.1, rel_tol=1e-6)


@pytest.mark.parametrize("lr_kind", ["float", "tensor"])
def test_a_compiled_adam_rounds_its_bias_corrections_and_takes_a_shorter_first_step(lr_kind):
    """What tier 1 finds in an arm whose step is compiled: torch reads the step counter as a float32 tensor there.

    In float32 `1 - 0.999` is 1.29e-5 too small and `1 - 0.9` is 2.4e-7 too large; the update goes with the root of the
    first over the second.
    """
    moved = []
    for recipe in (Recipe(lr_kind=lr_kind), Recipe(execution="compiled", backend="aot_eager", lr_kind=lr_kind)):
        torch._dynamo.reset()
        weight = torch.nn.Parameter(torch.zeros(1000))
        stepper = stepper_of(weight, recipe, Training(schedule="constant"), 0.01, 5)
        weight.grad = torch.randn(1000, generator=torch.Generator().manual_seed(0))
        stepper.step()
        moved.append(float(weight.detach().double().norm()))
    torch._dynamo.reset()
    assert moved[1] / moved[0] - 1 == pytest.approx(-1.293e-5 / 2 - 2.4e-7, rel=0.02)
