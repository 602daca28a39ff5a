"""Inner module and optimizer <-> a checkpoint: plain tensors under plain names, in memory or in a file.

Weights and optimizer state go by the names of the inner module, compiled or not, so a checkpoint of any cell loads in
any other. Everything is copied into the tensors that are there: a compiled step knows them and does not compile again,
and each cell keeps its own kind of learning rate.

A file is what torch writes and a digest of it: torch looks at no checksum when it reads, and those of its zip do not
cover the list of what is in it. A file without a digest, from before there was one, counts as damaged.
"""

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from ablate.core.errors import StoredDataError
from ablate.files.disk import written_durably

FOLDER = "checkpoints"
WEIGHT, STATE, STEP = "weight:", "state:", "step"
DIGEST_SIZE = 16  # bytes at the end of a file


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A training before a step.

    Attributes:
        step: The step that comes next.
        weights: Parameters and buffers of the inner module, by name.
        state: Optimizer state per parameter and entry, e.g. `head.weight:exp_avg`; empty before the first step.
    """

    step: int
    weights: Mapping[str, Tensor]
    state: Mapping[str, Tensor]


def checkpoint_path(folder: Path, step: int) -> Path:
    """File of a checkpoint in a record folder."""
    return folder / FOLDER / f"step-{step:06d}.pt"


def take_checkpoint(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> Checkpoint:
    """Copy weights and optimizer state to the host."""
    state = {
        f"{name}:{entry}": value.detach().cpu().clone()
        for name, parameter in model.named_parameters()
        for entry, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }
    weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    return Checkpoint(step=step, weights=weights, state=state)


def restore_checkpoint(
    checkpoint: Checkpoint, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, compiled: bool = False
) -> None:
    """Copy a checkpoint into a module and its optimizer, in place.

    Optimizer state that the checkpoint does not have is zeroed: that is what Adam and momentum start from.

    Args:
        compiled: Whether the optimizer's step is compiled.

    Raises:
        StoredDataError: it is a checkpoint of another model.
    """
    present = model.state_dict()
    if _shapes(present) != _shapes(checkpoint.weights):
        differing = sorted(set(_shapes(present).items()) ^ set(_shapes(checkpoint.weights).items()))
        raise StoredDataError(
            f"the checkpoint before step {checkpoint.step} belongs to another model (it differs in "
            f"{differing[0][0]}); train its eager reference again"
        )
    if compiled:
        make_capturable(optimizer)
    with torch.no_grad():
        for name, value in present.items():
            value.copy_(checkpoint.weights[name])
        for name, parameter in model.named_parameters():
            _restore_state(optimizer, parameter, _entries(checkpoint.state, name))


def make_capturable(optimizer: torch.optim.Optimizer) -> None:
    """Mark an optimizer on a GPU as `capturable` while it has no state, as dynamo does when it compiles the step.

    Dynamo leaves alone what has state already. So a step that is compiled after a restart would be another one than one
    that is compiled before the first step, with counters on the host that it has to move.
    """
    for group in optimizer.param_groups:
        is_new = not any(parameter in optimizer.state for parameter in group["params"])
        if "capturable" in group and is_new and all(parameter.is_cuda for parameter in group["params"]):
            group["capturable"] = True


def nudge_weights(model: torch.nn.Module, generator: torch.Generator) -> None:
    """Move every element of every parameter to the next number up or down, in place, in random direction."""
    with torch.no_grad():
        for parameter in model.parameters():
            up = torch.randint(0, 2, parameter.shape, generator=generator).to(torch.bool)
            towards = torch.where(up, float("inf"), float("-inf")).to(parameter)
            parameter.copy_(torch.nextafter(parameter, towards))


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint into a record folder, whole or not at all; returns its file."""
    path = checkpoint_path(folder, checkpoint.step)
    tensors = {STEP: torch.tensor(checkpoint.step)}
    tensors |= {WEIGHT + name: value for name, value in checkpoint.weights.items()}
    tensors |= {STATE + name: value for name, value in checkpoint.state.items()}
    with written_durably(path) as stream:
        torch.save(tensors, stream)
        stream.write(_digest(stream, stream.tell()))
    return path


def read_checkpoint(folder: Path, step: int) -> Checkpoint:
    """Read the checkpoint before a step from a record folder; nothing in the file is executed.

    Raises:
        StoredDataError: the file is absent, damaged or something else.
    """
    path = checkpoint_path(folder, step)
    advice = "train its eager reference again"
    if not path.exists():
        raise StoredDataError(f"{path} is missing, so there is nothing to restart from; {advice}")
    try:
        with path.open("rb") as stream:
            if _digest(stream, path.stat().st_size - DIGEST_SIZE) != stream.read():
                raise StoredDataError(f"{path} cannot be read (it is damaged, or no checkpoint at all); {advice}")
            stream.seek(0)
            tensors = torch.load(stream, weights_only=True, map_location="cpu")
    except (RuntimeError, OSError, pickle.UnpicklingError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise StoredDataError(f"{path} cannot be read ({reason}); {advice}") from error
    if not isinstance(tensors, dict) or STEP not in tensors or int(tensors[STEP]) != step:
        raise StoredDataError(f"{path} is not a checkpoint before step {step}; {advice}")
    parts = {
        prefix: {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        for prefix in (WEIGHT, STATE)
    }
    return Checkpoint(step=step, weights=parts[WEIGHT], state=parts[STATE])


def _digest(stream: BinaryIO, num_bytes: int) -> bytes:
    """BLAKE2b of the first bytes of a file, which is left behind them."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    stream.seek(0)
    while num_bytes > 0 and (chunk := stream.read(min(num_bytes, 1 << 22))):
        digest.update(chunk)
        num_bytes -= len(chunk)
    return digest.digest()


def _restore_state(
    optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter, entries: Mapping[str, Tensor]
) -> None:
    state = optimizer.state[parameter] if entries else optimizer.state.get(parameter, {})
    for name, value in state.items():
        if isinstance(value, Tensor) and name not in entries:
            value.zero_()
    for name, value in entries.items():
        if isinstance(state.get(name), Tensor):
            state[name].copy_(value)
        else:
            state[name] = _place_state(optimizer, parameter, value)


def is_host_state(optimizer: torch.optim.Optimizer, value: Tensor) -> bool:
    """Whether the optimizer would keep a state on the host: a counter, unless it is capturable or fused."""
    return value.dim() == 0 and not any(g.get("capturable") or g.get("fused") for g in optimizer.param_groups)


def _place_state(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter, value: Tensor) -> Tensor:
    """A copy where the optimizer would make it."""
    return value.clone() if is_host_state(optimizer, value) else value.to(parameter.device, copy=True)


def _entries(state: Mapping[str, Tensor], parameter: str) -> dict[str, Tensor]:
    """The optimizer state of one parameter, by entry (`exp_avg`)."""
    return {
        entry: value for key, value in state.items() for name, _, entry in [key.rpartition(":")] if name == parameter
    }


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in tensors.items()}
