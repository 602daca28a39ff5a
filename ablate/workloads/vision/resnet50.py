"""Synthetic images -> which pattern does an image show? (one of many classes, top-1 accuracy, ResNet)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ablate.core.workload import WorkloadInfo, option

if TYPE_CHECKING:
    from ablate.workloads.contract import Workload, WorkloadContext


@dataclass(frozen=True, kw_only=True)
class VisionOptions:
    """What a spec can set."""

    arch: str = option("resnet50", "the network", one_of=("resnet18", "resnet34", "resnet50", "resnet101"))
    image: int = option(224, "height and width of an image in pixels", at_least=32)
    classes: int = option(1000, "number of classes", at_least=2)
    train_images: int = option(50_000, "images that training draws its batches from", at_least=1)
    validation_images: int = option(2_000, "held-out images", at_least=1)
    signal: float = option(0.25, "strength of a class's pattern under the noise", at_least=0, at_most=1)
    data_seed: int = option(0, "seed of patterns, labels and noise", at_least=0)
    label_seed: int | None = option(None, "permutes the training labels: then nothing can be learned", at_least=0)


INFO = WorkloadInfo(
    name="vision/resnet50",
    title="ResNet on synthetic images",
    metric="top1",
    metric_unit="top-1 accuracy, 0 to 1",
    higher_is_better=True,
    lr=0.001,
    options=VisionOptions,
    supports=("images",),
)


def build(context: WorkloadContext) -> Workload:
    """Build the network and the images."""
    from ablate.workloads.vision.classification import Classification

    return Classification(context, INFO)
