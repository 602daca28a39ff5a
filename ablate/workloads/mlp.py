"""Random numbers -> a small multi-layer perceptron that learns a rule hidden in them (classification, accuracy).

A workload in one file, to copy and change: `ablate init --workload mine.py` writes it beside a spec that trains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ablate.core.workload import WorkloadInfo, option

if TYPE_CHECKING:
    from ablate.core.record import Metric
    from ablate.workloads.contract import Workload, WorkloadContext


# What a spec may set for this workload, with defaults and bounds; `workloads: [{use: mine.py, options: {width: 64}}]`.
@dataclass(frozen=True, kw_only=True)
class Options:
    """Sizes of the perceptron and its data."""

    features: int = option(32, "Numbers per sample.", at_least=1)
    width: int = option(256, "Hidden width.", at_least=1)
    classes: int = option(10, "Classes.", at_least=2)
    validation_rows: int = option(2000, "Samples scored after training.", at_least=1)


INFO = WorkloadInfo(
    name="example/mlp",  # how specs, tables and MLflow call it
    title="perceptron on random numbers",
    lr=0.001,  # where the spec gives none
    metric="accuracy",  # leave these three out, and `predict` and `score` below, if there is nothing to judge
    metric_unit="share, 0 to 1",
    higher_is_better=True,
    options=Options,
)


def build(context: WorkloadContext) -> Workload:
    """Build model and batches. Import torch here and not above: a spec is checked without it."""
    import numpy as np
    import torch
    from torch import nn
    from torch.utils.data import Dataset

    from ablate.workloads.contract import Predictions, measured

    options: Options = context.options
    rule = torch.randn(options.features, options.classes, generator=torch.Generator().manual_seed(0))

    def draw(num_rows: int, *seed: int) -> dict[str, torch.Tensor]:
        numbers = np.random.default_rng(seed).standard_normal((num_rows, options.features), dtype=np.float32)
        x = torch.from_numpy(numbers)
        return {"x": x, "y": (x @ rule).argmax(dim=1)}

    class Batches(Dataset[Any]):
        """Step -> batch; the same step gives the same batch in every cell, whatever else was drawn before."""

        def __init__(self, num_steps: int, seed: int) -> None:
            self.num_steps, self.seed = num_steps, seed

        def __len__(self) -> int:
            return self.num_steps

        def __getitem__(self, step: int) -> dict[str, torch.Tensor]:
            return draw(context.training.batch_size, self.seed, step)

    class Perceptron:
        """What the trainer asks for: a model, batches, a loss, and how many samples a batch has."""

        def __init__(self) -> None:
            width = options.width
            self.model: nn.Module = nn.Sequential(  # a plain module: this is what gets compiled
                nn.Linear(options.features, width), nn.ReLU(),
                nn.Linear(width, width), nn.ReLU(),
                nn.Linear(width, options.classes),
            )  # fmt: skip

        def batches(self, num_steps: int, seed: int) -> Dataset[Any]:
            return Batches(num_steps, seed)

        def loss(self, forward: Callable[..., torch.Tensor], batch: Any) -> torch.Tensor:
            return nn.functional.cross_entropy(forward(batch["x"]), batch["y"])

        def num_samples(self, batch: Any) -> int:
            return len(batch["y"])

        def predict(self, to_device: Callable[[Any], Any]) -> Predictions:
            batch = to_device(draw(options.validation_rows, 1, 2, 3))
            self.model.eval()
            with torch.no_grad():
                classes = self.model(batch["x"]).argmax(dim=1)
            self.model.train()
            return Predictions(values=classes.double().cpu().numpy(), table=batch["y"].cpu().numpy())

        def score(self, predictions: Predictions) -> Metric:
            right = predictions.values == predictions.table
            return measured(INFO, right.mean(), len(right))

    return Perceptron()
