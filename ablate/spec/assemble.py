"""Checked parts of a spec -> the frozen `Study`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ablate.core.study import (
    Claim,
    Equivalence,
    Factor,
    LoaderOptions,
    Sequential,
    Study,
    Timing,
    Training,
    WorkloadChoice,
)
from ablate.spec.layout import Layout
from ablate.spec.models import ClaimSection, SpecFile, TrainingSection


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A spec without faults, with names looked up."""

    spec: SpecFile
    factors: tuple[Factor, ...]
    workloads: tuple[WorkloadChoice, ...]
    layout: Layout
    margin: Mapping[str, float]
    metric_margin: Mapping[str, float]


def assemble(
    draft: Draft, *, device: Literal["cpu", "cuda"], profile: str | None, spec_path: Path, spec_text: str
) -> Study:
    """Build the study that a checked spec describes."""
    spec = draft.spec
    return Study(
        name=spec.study,
        question=spec.question,
        claim=_claim(spec.claim),
        workloads=draft.workloads,
        factors=draft.factors,
        compile_step=spec.compile_step,
        compile_backend=spec.compile_backend,
        design=draft.layout.kind,
        cells=draft.layout.cells,
        blocks=spec.blocks,
        seed=spec.seed,
        timing=Timing(**spec.timing.model_dump()),
        training=_training(spec.training),
        loader=LoaderOptions(**spec.loader.model_dump()),
        compile_cache=spec.compile_cache,
        equivalence=_equivalence(draft),
        device=device,
        num_threads=spec.num_threads,
        trial_timeout_s=float(spec.trial_timeout),
        tracking_uri=spec.tracking.uri,
        profile=profile,
        spec_path=str(spec_path),
        spec_text=spec_text,
        ledger=spec.ledger,
        sequential=Sequential(**spec.sequential.model_dump()) if spec.sequential else None,
    )


def _claim(section: ClaimSection | None) -> Claim | None:
    if section is None:
        return None
    low, high = section.speedup
    other = (section.alternative[0], section.alternative[1]) if section.alternative else None
    return Claim(speedup=(low, high), alternative=other, source=section.source)


def _equivalence(draft: Draft) -> Equivalence:
    section = draft.spec.equivalence
    return Equivalence(
        parity=section.parity,
        arms=tuple(dict.fromkeys(section.arms)),
        margin=dict(draft.margin),
        metric_margin=dict(draft.metric_margin),
        windows=tuple(section.windows),
        window_steps=section.window_steps,
        reruns=section.reruns,
    )


def _training(section: TrainingSection) -> Training:
    optimizer = section.optimizer
    return Training(batch_size=section.batch_size, optimizer=optimizer.name, lr=optimizer.lr, schedule=section.schedule)
