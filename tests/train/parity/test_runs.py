"""Parity runs in this process: bitwise restarts, one ulp, aligned masks, and what departs first in a wrong arm."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from ablate.analysis.statistics.envelope import CHAOTIC, WindowSeries, WindowTest, compare_window
from ablate.core.errors import TrialError, UserError
from ablate.core.recipe import Recipe
from ablate.core.study import Training
from ablate.train.observe.environment import describe_precision
from ablate.train.parity.checkpoint import read_checkpoint, restore_checkpoint, take_checkpoint, write_checkpoint
from ablate.train.parity.runs import ParityRuns, are_bitwise_equal, make_spans, masks_of, train_arm, train_reference
from ablate.train.parity.steps import Span, step_seed
from ablate.train.parts import Parts
from ablate.train.session import Session, open_session
from real_parts import WORKLOADS, stepper_of, tiny_study

CHURN = "hm/user-churn"
CPU = torch.device("cpu")
SPANS = make_spans((0, 3), 5, 8)
COMPILED = Recipe(
    execution="compiled",
    backend="aot_eager",
    forward_dynamic=True,
    lr_kind="tensor",
    model={"keys": "string"},
    metric_policy="on-device",
    mean_metric="on-device",
)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def open_tiny(recipe: Recipe = Recipe(), *, seed: int = 0, name: str = CHURN, **training: object) -> Session:  # noqa: B008
    return open_session(tiny_study(name, **training), name, recipe, seed=seed, device=CPU)


def open_arm(recipe: Recipe = Recipe(), **training: object) -> Session:  # noqa: B008
    """A session with other initial weights: only eager's checkpoints can make it train as eager did."""
    session = open_tiny(recipe, **training)
    for parameter in session.workload.model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    return session


@pytest.fixture(scope="module")
def eager() -> ParityRuns:
    return train_reference(open_tiny(), SPANS, seed=0, reruns=2)


def arm_of(eager: ParityRuns, session: Session, spans: tuple[Span, ...] = SPANS) -> ParityRuns:
    return train_arm(session, spans, eager.checkpoints.__getitem__, masks_of(eager.rows), seed=0)


def rows_of(runs: ParityRuns, run: str, window: int):
    return [row for row in runs.rows if (row.run, row.window) == (run, window)]


def series_of(runs: ParityRuns, run: str, window: int) -> WindowSeries:
    rows = rows_of(runs, run, window)
    return WindowSeries(
        **{name: np.array([getattr(row, name) for row in rows]) for name in ("loss", "grad_norm", "lr", "mask")}
    )


def judge(eager: ParityRuns, arm: ParityRuns, window: int) -> WindowTest:
    reruns = [series_of(eager, f"ulp-{number}", window) for number in (1, 2)]
    return compare_window(series_of(arm, "arm", window), series_of(eager, "eager", window), reruns)


def test_windows_end_with_the_training():
    assert make_spans((0, 20, 90), 60, 100) == (
        Span(start=0, num_steps=60),
        Span(start=20, num_steps=60),
        Span(start=90, num_steps=10),
    )


def test_a_seed_belongs_to_the_step_wherever_a_window_starts():
    assert step_seed(1, 20) == step_seed(1, 20)
    assert len({step_seed(seed, step) for seed in range(5) for step in range(50)}) == 250


def test_eager_leaves_its_runs_of_every_window(eager):
    assert [(w.start, w.num_steps, w.masks) for w in eager.windows] == [(0, 5, "aligned"), (3, 5, "aligned")]
    assert set(eager.checkpoints) == {0, 3} and eager.checkpoints[0].state == {}
    for window in (0, 3):
        for run in ("eager", "repeat", "ulp-1", "ulp-2"):
            rows = rows_of(eager, run, window)
            assert [row.step for row in rows] == list(range(window, window + 5))
            assert [row.lr for row in rows] == pytest.approx([0.01 * (1 - row.step / 8) for row in rows])
            assert all(row.mask and row.grad_norm > 0 for row in rows)
    assert set(eager.predictions) == {"eager", "repeat", "ulp-1", "ulp-2"}
    assert eager.windows[0].stream_hash != eager.windows[1].stream_hash


def test_a_restart_reproduces_the_straight_trajectory_in_every_bit(eager):
    """Eager trained steps 0 to 7 in one go; the window from step 3 shares steps with the one from step 0."""
    assert eager.deterministic
    for window in (0, 3):
        assert are_bitwise_equal(rows_of(eager, "repeat", window), rows_of(eager, "eager", window))
    shared = [[row for row in rows_of(eager, "repeat", window) if row.step in (3, 4)] for window in (0, 3)]
    assert are_bitwise_equal(*shared)
    assert np.array_equal(eager.predictions["repeat"].values, eager.predictions["eager"].values)


def test_one_ulp_is_little_but_not_nothing(eager):
    for window in (0, 3):
        same = series_of(eager, "eager", window)
        for run in ("ulp-1", "ulp-2"):
            other = series_of(eager, run, window)
            assert not {row.weights for row in rows_of(eager, run, window)} & {
                row.weights for row in rows_of(eager, "eager", window)
            }
            assert np.array_equal(other.mask, same.mask) and np.array_equal(other.lr, same.lr)
            assert 0 < np.max(np.abs(other.loss - same.loss) / same.loss) < CHAOTIC
    assert rows_of(eager, "ulp-1", 0)[0].weights != rows_of(eager, "ulp-2", 0)[0].weights


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_eager_arm_trains_as_eager_did_in_every_bit(name):
    eager = train_reference(open_tiny(name=name), SPANS, seed=0, reruns=1)
    arm = arm_of(eager, open_arm(Recipe(model={"keys": "string"}, metric_policy="on-device"), name=name))
    assert eager.deterministic
    for window in (0, 3):
        assert are_bitwise_equal(rows_of(arm, "arm", window), rows_of(eager, "eager", window))
    assert [w.stream_hash for w in arm.windows] == [w.stream_hash for w in eager.windows]
    assert np.array_equal(arm.predictions["arm"].values, eager.predictions["eager"].values)


def test_masks_are_those_of_the_seed(eager):
    other = train_reference(open_tiny(seed=1), SPANS[:1], seed=1, reruns=0)
    assert not {row.mask for row in rows_of(other, "eager", 0)} & {row.mask for row in rows_of(eager, "eager", 0)}


def test_without_dropout_there_is_nothing_to_align():
    eager = train_reference(open_tiny(dropout=0.0), SPANS[:1], seed=0, reruns=0)
    arm = arm_of(eager, open_arm(dropout=0.0), SPANS[:1])
    assert [eager.windows[0].masks, arm.windows[0].masks] == ["no dropout"] * 2
    assert {row.mask for row in eager.rows + arm.rows} == {0}


def test_dropout_switched_off_departs_in_the_mask_first(eager):
    session = open_arm()
    for module in session.workload.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    arm = arm_of(eager, session)
    assert [w.masks for w in arm.windows] == ["aligned"] * 2  # it draws no mask compiled, and none uncompiled
    for window in (0, 3):
        test = judge(eager, arm, window)
        assert test.first == ("mask", 0) and not test.loss.passed


def test_a_rate_two_percent_too_large_departs_in_the_rate_first(eager):
    session = open_arm()
    lambdas = session.stepper.scheduler.lr_lambdas
    session.stepper.scheduler.lr_lambdas = [lambda step: 1.02 * lambdas[0](step)]
    arm = arm_of(eager, session)
    assert [judge(eager, arm, window).first for window in (0, 3)] == [("lr", 0)] * 2
    assert judge(eager, arm, 0).loss.first_beyond == 1


def test_an_aot_compiled_arm_stays_in_the_envelope_and_restarts_without_compiling_again(eager, tmp_path):
    session = open_arm(COMPILED)
    arm = arm_of(eager, session)
    assert [w.masks for w in arm.windows] == ["aligned"] * 2
    for window in (0, 3):
        test = judge(eager, arm, window)
        assert test.loss.passed and not {"lr", "mask"} & {quantity for quantity, _ in test.departures}
    events = session.watch.collect(compiled=True).events
    assert [(e.step, e.function) for e in events] == [(0, "forward"), (0, "optimizer_step")]
    exchange_checkpoints(session, tmp_path)


def exchange_checkpoints(compiled: Session, folder) -> None:
    """Hand a training over from compiled to eager and back, through files: names are plain, losses go on alike."""
    plain = open_arm()
    for one, other in ((compiled, plain), (plain, compiled)):
        losses = []
        for session in (one, other):
            if session is other:
                restore_checkpoint(read_checkpoint(folder, 8), other.workload.model, other.stepper.optimizer)
            else:
                taken = take_checkpoint(one.workload.model, one.stepper.optimizer, 8)
                assert not any("_orig_mod" in name for name in (*taken.weights, *taken.state))
                write_checkpoint(folder, taken)
            session.stepper.restart(4)
            torch.manual_seed(0)
            batch = session.dataset[4]
            losses += [step_loss(session, batch, 4), step_loss(session, batch, 5)]
        assert losses[:2] == pytest.approx(losses[2:], rel=2.0**-22)


def step_loss(session: Session, batch, step: int) -> float:
    torch.manual_seed(step)
    loss = session.module.compute_loss(batch)
    session.module.differentiate(loss, batch, step)
    session.module.update(batch, step)
    return float(loss.detach())


def drawing(graph, inputs):
    """A backend that draws a random number of its own before each call, as inductor's generator would."""

    def call(*values):
        torch.rand(1)
        return graph(*values)

    return call


def test_masks_that_are_not_aligned_are_told(eager):
    torch._dynamo.register_backend(drawing, name="drawing")
    arm = arm_of(eager, open_arm(replace(COMPILED, backend="drawing", compile_step=False)), SPANS[:1])
    assert arm.windows[0].masks == "not aligned"
    assert arm.windows[0].note.endswith("not those of the same module uncompiled, from number 1 on, at step 0")


def test_masks_that_are_not_aligned_from_some_step_on_are_told(eager):
    """The first call is the look before the window; from the fourth on, as after a recompilation, it draws too."""
    calls = []

    def late(graph, inputs):
        def call(*values):
            calls.append(graph)
            if len(calls) >= 4:
                torch.rand(1)
            return graph(*values)

        return call

    torch._dynamo.register_backend(late, name="late")
    arm = arm_of(eager, open_arm(replace(COMPILED, backend="late", compile_step=False)), SPANS[:1])
    assert arm.windows[0].masks == "not aligned"
    assert arm.windows[0].note.endswith("from number 1 on, at step 2")


def test_a_loss_that_is_not_finite_ends_its_window(eager):
    session = open_arm()
    loss, calls = session.workload.loss, []

    def explode(forward, batch):
        calls.append(batch)
        return loss(forward, batch) * (math.inf if len(calls) == 3 else 1.0)

    session.workload.loss = explode
    arm = arm_of(eager, session)
    assert [row.step for row in rows_of(arm, "arm", 0)] == [0, 1, 2] and arm.windows[0].num_steps == 3
    assert (arm.first_bad("arm").step, arm.first_bad("arm").loss) == (2, math.inf)
    assert arm.windows[1].num_steps == 5 and "arm" not in arm.predictions
    test = judge(eager, arm, 0)
    assert (test.loss.first_beyond, test.loss.cause) == (2, "non-finite loss")
    assert judge(eager, arm, 3).loss.passed  # the next window starts from eager's weights again


def test_eager_itself_can_become_infinite():
    session = open_tiny(lr=1e30, optimizer="sgd", schedule="constant")
    runs = train_reference(session, SPANS, seed=0, reruns=1)
    assert len(runs.windows) == 1 and runs.first_bad("eager").step < 3 and runs.deterministic
    with pytest.raises(TrialError, match=r"eager's loss is (nan|inf) at step \d, before the first window"):
        train_reference(open_tiny(lr=1e30, optimizer="sgd", schedule="constant"), SPANS[1:], seed=0, reruns=1)


@pytest.mark.parametrize("lr_kind", ["float", "tensor", "device-tensor"])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_a_restarted_schedule_is_bitwise_where_the_straight_one_was(lr_kind, schedule):
    def stepper():
        weight = torch.nn.Parameter(torch.ones(1))
        return stepper_of(weight, Recipe(lr_kind=lr_kind), Training(schedule=schedule), 0.003, 7)

    straight, restarted = stepper(), stepper()
    rates = []
    for _ in range(6):
        rates.append(float(straight.learning_rate()))
        straight.step()
        straight.advance_schedule()
    place = restarted.optimizer.param_groups[0]["lr"]
    for step in (4, 0, 3):
        restarted.restart(step)
        assert float(restarted.learning_rate()) == rates[step]
        restarted.step()
        restarted.advance_schedule()
        assert float(restarted.learning_rate()) == rates[step + 1]
    if lr_kind != "float":
        assert restarted.optimizer.param_groups[0]["lr"] is place


def test_precision_is_read_from_the_process():
    session = open_tiny(Recipe(torch_settings={"flush_denormal": True}))
    session.workload.model.head.double()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert describe_precision(session) == {
            "weights": "float32 and float64",
            "autocast": "off",
            "float32_matmul_precision": "high",
            "flush_denormal": "true",
        }
    finally:
        torch.set_float32_matmul_precision(before)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert describe_precision(session)["autocast"] == "bfloat16"


def double_weights(parts: Parts) -> None:
    with torch.no_grad():
        for parameter in parts.workload.model.parameters():
            parameter.mul_(2)


def test_adapt_changes_the_parts():
    plain, doubled = (
        next(open_tiny(Recipe(adapt=adapt)).workload.model.parameters())
        for adapt in ({}, {"own": f"{__name__}:double_weights"})
    )
    assert torch.equal(doubled, 2 * plain)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("no.such.module:change", "module 'no.such.module' cannot be imported"),
        (f"{__name__}:absent", f"{__name__} has no function 'absent'"),
        ("double_weights", "module '' cannot be imported"),
        ("no/such/file.py:change", "no/such/file.py cannot be read"),
    ],
)
def test_an_adapt_that_is_not_there_is_one_sentence(address, problem):
    with pytest.raises(UserError) as caught:
        open_tiny(Recipe(adapt={"own": address}))
    assert problem in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_inductor_draws_other_masks_unless_it_falls_back_and_then_stays_in_the_envelope(eager, tmp_path, monkeypatch):
    recipe = replace(COMPILED, backend="inductor")
    monkeypatch.setattr(torch._inductor.config, "fallback_random", False)
    own = arm_of(eager, open_arm(recipe), SPANS[:1])
    assert own.windows[0].masks == "not aligned" and not judge(eager, own, 0).loss.passed
    torch._dynamo.reset()
    monkeypatch.setattr(torch._inductor.config, "fallback_random", True)
    session = open_arm(recipe)
    arm = arm_of(eager, session)
    assert [w.masks for w in arm.windows] == ["aligned"] * 2
    for window in (0, 3):
        test = judge(eager, arm, window)
        assert test.loss.passed and not {"lr", "mask"} & {quantity for quantity, _ in test.departures}
    exchange_checkpoints(session, tmp_path)
