"""A workload, a device and a recipe -> the loss and the copies of a batch as that recipe wants them, and `adapt`."""

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.data import Dataset

from ablate.core.errors import UserError
from ablate.core.recipe import Recipe
from ablate.plugins.registry import load_file
from ablate.workloads.contract import Batch, Forward, Workload, to_device

CHANNELS_LAST = "channels-last"


@dataclass(kw_only=True)
class Parts:
    """What a training is put together from; a function of `Recipe.adapt` may change or exchange all of it.

    Attributes:
        scheduler: What advances the learning rate; None where it is constant.
        drops: Whether the model as its workload made it has dropout, whatever was done to it since.
    """

    workload: Workload
    dataset: Dataset[Batch]
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LambdaLR | None
    device: torch.device
    recipe: Recipe
    drops: bool

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Training loss of a batch on the device, under the recipe's autocast."""
        kind = self.recipe.autocast
        with nullcontext() if kind is None else torch.autocast(self.device.type, dtype=getattr(torch, kind)):
            return self.workload.loss(forward, batch)

    def move(self, batch: Batch, *, non_blocking: bool = False) -> Batch:
        """The batch on the device, in the recipe's memory format."""
        moved = to_device(self.workload, batch, self.device, non_blocking=non_blocking)
        return tree_map_only(Tensor, in_channels_last, moved) if self.recipe.memory_format == CHANNELS_LAST else moved


def has_dropout(model: torch.nn.Module) -> bool:
    """Whether a model has dropout of a probability above 0."""
    return any(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0 for m in model.modules())


def in_channels_last(tensor: Tensor) -> Tensor:
    """A 4-dimensional tensor with its channels last in memory; any other as it is."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def adapt_parts(parts: Parts) -> None:
    """Run the recipe's functions on the parts, in the order of their names.

    Raises:
        UserError: one of them cannot be found.
    """
    for name in sorted(parts.recipe.adapt):
        find_adapt(parts.recipe.adapt[name])(parts)


def find_adapt(address: str) -> Callable[[Parts], Any]:
    """Find the function behind an entry of `Recipe.adapt`: `module:function`, or `path/to/file.py:function`.

    Raises:
        UserError: there is no such module, file or function.
    """
    place, _, name = address.rpartition(":")
    if place.endswith(".py"):
        module = load_file(Path(place))
    else:
        try:
            module = importlib.import_module(place)
        except (ImportError, ValueError) as error:
            raise UserError(
                f"recipe.adapt {address!r}: module {place!r} cannot be imported ({error}); an optimization "
                "must name module:function"
            ) from error
    function: Callable[[Parts], Any] | None = getattr(module, name, None)
    if not callable(function):
        raise UserError(
            f"recipe.adapt {address!r}: {place} has no function {name!r}; correct the optimization that sets it"
        )
    return function
