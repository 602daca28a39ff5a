"""Times of epochs and steps that were added up by hand, by the host's clock and by events of a stand-in device."""

import inspect
import time

import pytest
import torch

from ablate.train import clock as clock_module
from ablate.train import session as session_module
from ablate.train.clock import StepClock, exercise, summarize_times, synchronize, warm_up
from real_parts import CPU, open_line


def clock_of(*ends_s):
    """The host's clock of one epoch that began at 0, with steps that ended at these seconds."""
    return FakeTime(0.0, *ends_s).run(StepClock(None))


def summarize(epoch_s, compile_steps, **changes):
    settings = {
        "steps_per_epoch": 10,
        "horizon_epochs": 10,
        "compile_s": 5.0,
        "wait_s": [0.1] * 10 * len(epoch_s),
        "steps": clock_of(0.25, 0.5),
        **changes,
    }
    return summarize_times(epoch_s, compile_steps, **settings)


def test_horizon_is_start_up_plus_steady_epochs():
    times = summarize([9.0, 2.0, 3.0, 2.0], [0, 1])
    assert times.steady_s == 2.0
    assert times.steady_epochs == (1, 2, 3)
    assert times.startup_s == 16.0 - 4 * 2.0
    assert times.horizon_s == 8.0 + 10 * 2.0
    assert times.loader_wait_s == pytest.approx((1.0, 1.0, 1.0, 1.0))


def test_an_epoch_that_recompiles_is_not_steady_and_its_excess_counts_as_start_up():
    times = summarize([9.0, 2.0, 6.0, 2.0], [0, 25])
    assert times.steady_epochs == (1, 3)
    assert times.startup_s == 19.0 - 8.0


def test_no_quiet_epoch_means_no_steady_state_and_no_horizon():
    times = summarize([9.0, 8.0], [0, 12])
    assert times.steady_s is times.startup_s is times.horizon_s is None
    assert times.steady_epochs == ()


def test_the_first_epoch_is_never_steady():
    assert summarize([2.0], []).steady_s is None
    assert summarize([3.0, 2.0], []).steady_s == 2.0


def test_a_step_lasts_from_the_end_of_the_one_before_or_the_start_of_its_epoch():
    clock = StepClock(None)
    FakeTime(10.0, 10.25, 11.0).run(clock)
    FakeTime(20.0, 20.5).run(clock)
    assert clock.step_s == [0.25, 0.75, 0.5] and clock.starts_s == [10.0, 20.0] and clock.num_ended == 3
    assert clock.host_step_s is None
    times = summarize([9.0, 2.0], [], steps=clock)
    assert (times.first_step_s, times.step_clock) == (0.25, "host")


def test_on_a_device_a_step_lasts_as_long_as_its_events_are_apart():
    """The host gives three steps away in 0.3 s; the device takes 1, 2 and 4 s for them."""
    device = FakeDevice([0.0, 1000.0, 3000.0, 7000.0])
    clock = StepClock(device.make_event)
    FakeTime(0.0, 0.1, 0.2, 0.3).run(clock, before_reading=device.wait)
    assert clock.step_s == [1.0, 2.0, 4.0] and clock.host_step_s == pytest.approx([0.1, 0.1, 0.1])
    times = summarize([7.0], [], steps=clock)
    assert (times.first_step_s, times.step_clock) == (1.0, "device")


def test_nothing_is_read_from_the_device_before_the_epoch_is_over():
    device = FakeDevice([0.0, 1000.0])
    clock = StepClock(device.make_event)
    with pytest.raises(AssertionError, match="would wait"):
        FakeTime(0.0, 0.1).run(clock)  # nobody waited for the device
    assert clock.step_s == []


def test_the_stand_in_has_the_interface_of_torch():
    for name in ("record", "elapsed_time"):
        theirs = inspect.signature(getattr(torch.cuda.Event, name)).parameters
        needed = [p for p in theirs.values() if p.default is p.empty]
        assert [p.name for p in needed] == list(inspect.signature(getattr(FakeEvent, name)).parameters), name
    assert "enable_timing" in inspect.signature(torch.cuda.Event.__new__).parameters


def test_only_a_gpu_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    synchronize(CPU)
    synchronize(torch.device("cuda", 1))
    assert waits == [torch.device("cuda", 1)]


def test_a_training_records_its_steps_on_the_device_and_reads_them_once_an_epoch(monkeypatch):
    """A real training; its stand-in device is done with everything at once."""
    monkeypatch.setattr(session_module, "StepClock", lambda make_event: StepClock(HostEvent))
    session = open_line()
    session.train()
    steps = session.module.steps
    assert len(steps.step_s) == len(steps.host_step_s) == 8 and min(steps.step_s) > 0
    for epoch, seconds in enumerate(session.clock.epoch_s):
        assert sum(steps.step_s[4 * epoch : 4 * epoch + 4]) <= seconds


def test_warming_up_draws_nothing_and_does_nothing_without_a_gpu(monkeypatch):
    before = torch.random.get_rng_state()
    exercise(torch.device("cpu"))
    assert torch.equal(torch.random.get_rng_state(), before)
    monkeypatch.setattr(clock_module, "exercise", lambda device: pytest.fail("no GPU to warm up"))
    warm_up(torch.device("cpu"))


def test_every_session_warms_the_device_before_it_builds_the_model(monkeypatch):
    warmed = []
    monkeypatch.setattr(session_module, "warm_up", lambda device: warmed.append((device, torch.initial_seed())))
    torch.manual_seed(77)
    open_line()
    assert warmed == [(CPU, 77)]  # the model's seed comes later


class HostEvent:
    def record(self):
        self.at_s = time.perf_counter()

    def elapsed_time(self, end_event):
        return 1000 * (end_event.at_s - self.at_s)


class FakeTime:
    """Runs a clock through one epoch whose moments are given."""

    def __init__(self, *moments_s):
        self.moments_s = moments_s

    def run(self, clock, before_reading=lambda: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock_module.time, "perf_counter", iter(self.moments_s).__next__)
            clock.epoch_started()
            for _ in self.moments_s[1:]:
                clock.step_ended()
        before_reading()
        clock.epoch_ended()
        return clock


class FakeDevice:
    """Reaches its events at given milliseconds, once somebody has waited for it."""

    def __init__(self, reached_ms):
        self.reached_ms, self.events, self.is_done = reached_ms, [], False

    def make_event(self):
        return FakeEvent(self)

    def wait(self):
        self.is_done = True


class FakeEvent:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.at_ms = self.device.reached_ms[len(self.device.events)]
        self.device.events.append(self)

    def elapsed_time(self, end_event):
        assert self.device.is_done, "reading this event would wait for the device"
        return end_event.at_ms - self.at_ms
