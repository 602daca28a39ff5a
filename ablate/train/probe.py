"""`ProbeRequest` -> a few untimed training steps -> `ProbeResult` on disk: compilations and would-be syncs."""

from functools import partial
from pathlib import Path

import torch

from ablate.core.errors import AblateError
from ablate.core.request import Hazard, ProbeRequest, ProbeResult
from ablate.records.store import read_study, write_json
from ablate.train.observe.compile_watch import CompileWatch
from ablate.train.observe.diagnostics import add_counters, add_syncs
from ablate.train.session import Session, apply_settings, compile_forward, open_session
from ablate.workloads.contract import Batch, Forward, HasEdgeCases, sizes

DRAWS = 7


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
    session = open_session(study, study.workloads[0].name, request.recipe, seed=study.seed, device=device)
    session.train()
    evidence = session.watch.collect(compiled=request.recipe.execution == "compiled")
    evidence = add_syncs(add_counters(evidence, session, study.factors), session)
    hazards = tuple(try_hazards(session)) if request.hazards else ()
    return ProbeResult(evidence=evidence, first_loss=float(session.module.losses[0]), hazards=hazards)


def try_hazards(session: Session) -> list[Hazard]:
    """Compile anew for each edge case and report the compilations that it causes after (or before) an ordinary batch.

    A workload without edge cases has none to try.
    """
    workload, dataset = session.workload, session.dataset
    if not isinstance(workload, HasEdgeCases):
        return []
    ordinary, sizes_of = dataset[1], partial(sizes, workload)
    found = []
    for name, batch, comes_first in workload.edge_cases(dataset):
        torch._dynamo.reset()
        watch = CompileWatch(sizes_of)
        forward = compile_forward(workload.model, session.recipe)
        order = [batch, ordinary] if comes_first else [ordinary, batch]
        differences = []
        for index, current in enumerate(order):
            moved = session.parts.move(current)
            compiled, eager = (_loss(session, run, moved) for run in (forward, workload.model))
            differences.append(abs(compiled - eager) / max(abs(eager), 1e-12))
            watch.note(index, "forward", current)
        events = tuple(e for e in watch.collect(compiled=True).events if e.step == 1)
        found.append(Hazard(name=name, sizes=sizes_of(batch), loss_difference=max(differences), events=events))
    return found


def _loss(session: Session, forward: Forward, batch: Batch) -> float:
    """Loss with the gradient taken, as in a training step; the dropout masks of every call are the same."""
    torch.manual_seed(DRAWS)
    loss = session.parts.loss(forward, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    session.workload.model.zero_grad(set_to_none=True)
    return float(loss.detach())
