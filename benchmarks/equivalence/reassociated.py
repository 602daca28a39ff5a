"""The parts of an eager training -> the same training with sums taken in another order: correct, but not bitwise equal.

Held-out arms for the envelope, which was calibrated on weights moved by one ulp and has never seen these changes.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch_geometric.nn.dense import Linear

from ablate.core.recipe import Recipe
from ablate.train.parts import Parts


def with_change(recipe: Recipe, name: str) -> Recipe:
    """The recipe with `edges_reversed` or `halved_products`."""
    return recipe.with_changes({"adapt.reassociated": f"{__name__}:{name}"})


def edges_reversed(parts: Parts) -> None:
    """Messages of a node are added in the opposite order."""
    loss = parts.workload.loss

    def reversed_loss(forward: Any, batch: Any) -> Any:
        return loss(forward, tuple(map(_reverse, batch)) if isinstance(batch, tuple) else _reverse(batch))

    parts.workload.loss = reversed_loss  # type: ignore[method-assign]


def halved_products(parts: Parts) -> None:
    """Every linear map is the sum of its two halves."""
    for module in parts.workload.model.modules():
        if isinstance(module, (torch.nn.Linear, Linear)):
            module.forward = _Halves(module)


class _Halves:
    def __init__(self, module: Any) -> None:
        self._module = module

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        half = inputs.size(-1) // 2
        weight = self._module.weight
        result = inputs[..., :half] @ weight[:, :half].t() + inputs[..., half:] @ weight[:, half:].t()
        return result if self._module.bias is None else result + self._module.bias


def _reverse(batch: Any) -> Any:
    changed = copy.copy(batch)
    for edge_type in batch.edge_types:
        changed[edge_type].edge_index = batch[edge_type].edge_index.flip(1)
    return changed
