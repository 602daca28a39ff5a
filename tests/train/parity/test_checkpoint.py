"""Checkpoints: whole or refused, tensors only, copied in place."""

import hashlib
import pickle
import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ablate.core.errors import StoredDataError
from ablate.train.parity import checkpoint
from ablate.train.parity.checkpoint import (
    checkpoint_path,
    is_host_state,
    make_capturable,
    nudge_weights,
    read_checkpoint,
    restore_checkpoint,
    take_checkpoint,
    write_checkpoint,
)


def make(width: int = 3, steps: int = 0):
    torch.manual_seed(width)
    model = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.BatchNorm1d(width))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 2)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_a_file_gives_back_what_was_taken_and_holds_only_tensors(tmp_path):
    taken = take_checkpoint(*make(steps=3), step=20)
    path = write_checkpoint(tmp_path, taken)
    assert path == tmp_path / "checkpoints" / "step-000020.pt"
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    read = read_checkpoint(tmp_path, 20)
    assert set(read.weights) == {
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    }
    assert set(read.state) == {
        f"{name}:{entry}"
        for name in ("0.weight", "0.bias", "1.weight", "1.bias")
        for entry in ("step", "exp_avg", "exp_avg_sq")
    }
    assert float(read.state["0.weight:step"]) == 3
    for part in ("weights", "state"):
        assert all(torch.equal(value, getattr(read, part)[name]) for name, value in getattr(taken, part).items())
    assert all(isinstance(value, torch.Tensor) for value in torch.load(path, weights_only=True).values())


def test_a_compiled_step_on_a_gpu_keeps_its_counters_there():
    """On a tensor that torch pretends to have on a GPU."""
    with FakeTensorMode():
        optimizer = torch.optim.Adam([torch.nn.Parameter(torch.empty(3, device="cuda"))], lr=0.1)
    counter, moment = torch.tensor(2.0), torch.zeros(3)
    assert is_host_state(optimizer, counter) and not is_host_state(optimizer, moment)  # a step that is not compiled
    make_capturable(optimizer)
    assert optimizer.param_groups[0]["capturable"] and not is_host_state(optimizer, counter)


def test_a_restart_tells_whether_the_step_is_compiled(monkeypatch):
    told = []
    monkeypatch.setattr(checkpoint, "make_capturable", told.append)
    model, optimizer = make()
    for compiled in (False, True):
        restore_checkpoint(take_checkpoint(model, optimizer, step=0), model, optimizer, compiled=compiled)
    assert told == [optimizer]


def test_an_optimizer_that_has_state_or_lives_on_a_cpu_stays_as_it_is():
    _, started = make(steps=1)
    _, fresh = make()
    for optimizer in (started, fresh, torch.optim.SGD(make()[0].parameters(), lr=0.1)):
        make_capturable(optimizer)
        assert not optimizer.param_groups[0].get("capturable", False)


def test_a_checkpoint_is_copied_into_the_tensors_that_are_there():
    taken = take_checkpoint(*make(steps=2), step=2)
    model, optimizer = make(steps=5)
    parameter = model[0].weight
    places = [parameter.data_ptr(), *(value.data_ptr() for value in optimizer.state[parameter].values())]
    optimizer.param_groups[0]["lr"] = 0.7
    restore_checkpoint(taken, model, optimizer)
    assert torch.equal(parameter, taken.weights["0.weight"])
    assert float(optimizer.state[parameter]["step"]) == 2
    assert places == [parameter.data_ptr(), *(value.data_ptr() for value in optimizer.state[parameter].values())]
    assert optimizer.param_groups[0]["lr"] == 0.7  # each cell keeps its own rate


@pytest.mark.parametrize("trained", [0, 5])
def test_training_goes_on_as_if_it_had_never_stopped(trained):
    """A first step's checkpoint has no optimizer state; what is there is zeroed, which is what Adam starts from."""
    outcomes = []
    for steps in (0, 2):
        taken = take_checkpoint(*make(steps=steps), step=steps)
        for model, optimizer in (make(steps=steps), make(steps=trained)):
            restore_checkpoint(taken, model, optimizer)
            torch.manual_seed(9)
            optimizer.zero_grad()
            model(torch.randn(4, 2)).square().sum().backward()
            optimizer.step()
            outcomes.append(take_checkpoint(model, optimizer, steps + 1))
    for one, other in (outcomes[:2], outcomes[2:]):
        assert all(torch.equal(value, other.weights[name]) for name, value in one.weights.items())
        assert all(torch.equal(value, other.state[name]) for name, value in one.state.items())


def test_another_model_is_refused_by_name():
    text = "before step 4 belongs to another model (it differs in 0.bias)"
    with pytest.raises(StoredDataError, match=re.escape(text)):
        restore_checkpoint(take_checkpoint(*make(3), step=4), *make(5))


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    path = write_checkpoint(tmp_path, take_checkpoint(*make(), step=0))
    with pytest.raises(StoredDataError, match=r"step-000020.pt is missing, .*train its eager reference again"):
        read_checkpoint(tmp_path, 20)
    path.rename(checkpoint_path(tmp_path, 20))
    with pytest.raises(StoredDataError, match="is not a checkpoint before step 20"):
        read_checkpoint(tmp_path, 20)
    whole = checkpoint_path(tmp_path, 20).read_bytes()
    middle = len(whole) // 3
    flipped = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 64]) + whole[middle + 64 :]
    for damaged in (whole[:200], whole[:-40], flipped, b"", b"text"):
        path.write_bytes(damaged)
        with pytest.raises(StoredDataError, match=r"cannot be read \(.+\); train") as caught:
            read_checkpoint(tmp_path, 0)
        assert "\n" not in str(caught.value)


class Malice:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was executed')",)


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    """Planted with a digest that fits, as whoever can write the folder would do it; the reason is torch's own."""
    path = checkpoint_path(tmp_path, 0)
    path.parent.mkdir()
    torch.save({"step": Malice()}, path)
    for content in (path.read_bytes(), pickle.dumps(Malice())):
        path.write_bytes(content + hashlib.blake2b(content, digest_size=16).digest())
        with pytest.raises(StoredDataError, match=r"cannot be read \(Weights only load failed"):
            read_checkpoint(tmp_path, 0)


def test_every_weight_moves_by_one_ulp_in_random_direction():
    model = torch.nn.Linear(40, 5)
    torch.nn.init.ones_(model.weight)
    nudge_weights(model, torch.Generator().manual_seed(0))
    first = model.weight.clone()
    assert set(first.unique().tolist()) == {1 - 2.0**-24, 1 + 2.0**-23}  # the numbers beside 1 in float32
    torch.nn.init.ones_(model.weight)
    nudge_weights(model, torch.Generator().manual_seed(1))
    assert 0.2 < float((first != model.weight).float().mean()) < 0.8
