"""`ProbeRequest` -> a few untimed training steps -> `ProbeResult` on disk: compilations and would-be syncs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ablate.core.errors import AblateError
from ablate.core.request import ProbeRequest, ProbeResult
from ablate.records.store import read_study, write_json
from ablate.train.edge_cases import try_hazards
from ablate.train.loop import move_batch
from ablate.train.observe.diagnostics import add_syncs
from ablate.train.session import Session, apply_settings, open_session
from ablate.workloads.relational.data.graph import load_graph


def execute_probe(request: ProbeRequest) -> ProbeResult:
    """Train, look, write the result; what the workload or the compiler raises is a result too."""
    try:
        result = _probe(request)
    except AblateError as error:
        result = ProbeResult(failure=str(error))
    except Exception as error:  # noqa: BLE001 -- whatever a workload or the compiler raises is what is asked for
        result = ProbeResult(failure=f"{type(error).__name__}: {str(error).strip() or 'no message'}")
    write_json(Path(request.result_json), result)
    return result


def _probe(request: ProbeRequest) -> ProbeResult:
    study = read_study(Path(request.study_json))
    apply_settings(request.recipe, study.num_threads)
    device = torch.device("cpu") if study.device == "cpu" else torch.device("cuda", request.device_index or 0)
    session = open_session(
        study, study.workloads[0].name, load_graph(study.data), request.recipe, seed=study.seed, device=device
    )
    session.train()
    evidence = session.watch.collect(compiled=request.recipe.execution == "compiled")
    result = ProbeResult(
        evidence=add_syncs(evidence, session, request.recipe), first_loss=float(session.module.losses[0])
    )
    return _with_hazards(result, session, request) if request.hazards else result


def _with_hazards(result: ProbeResult, session: Session, request: ProbeRequest) -> ProbeResult:
    hazards = try_hazards(
        session.workload,
        request.recipe,
        session.dataset,
        lambda batch: move_batch(batch, session.device, non_blocking=False),
    )
    return replace(result, hazards=tuple(hazards))
