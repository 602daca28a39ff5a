"""What a few steps of a workload show -> `Diagnosis`, and the request and result of the processes that take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ablate.core.evidence import CompileEvent, Evidence
from ablate.core.optimization import OffMeans
from ablate.core.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """One recipe to train for a few untimed steps, in a process of its own (`python -m ablate.train probe FILE`).

    Attributes:
        study_json: A study with one workload; its timing says how many steps.
        result_json: Where the `ProbeResult` goes.
        hazards: Also give the compiled forward batches at the edge of what can be sampled.
    """

    study_json: str
    recipe: Recipe
    result_json: str
    hazards: bool = False
    device_index: int | None = None


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """One batch at the edge of what can be sampled, after (or before) an ordinary one.

    Attributes:
        name: For instance `0 edges of customer f2p_customer_id transactions`.
        sizes: Nodes by type, edges by `source relation target`.
        loss_difference: Relative difference of the compiled loss from the eager one on the same batch and weights.
        events: Compilations that it caused, each with its failed guard.
    """

    name: str
    sizes: Mapping[str, int]
    loss_difference: float
    events: tuple[CompileEvent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What one recipe showed; `failure` is the reason when it could not be trained."""

    evidence: Evidence = field(default_factory=Evidence)
    first_loss: float | None = None
    hazards: tuple[Hazard, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One optimization switched from where it was.

    Attributes:
        inert: Why it cannot act here; then there is no result.
        changes: Counter -> (as it was, switched), for the counters that the optimization declares.
        verdict: As in a study's evidence: `structural` is a counter that only a GPU could turn into time.
    """

    optimization: str
    before: str
    after: str
    inert: str | None = None
    changes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    verdict: Literal["bites", "vacuous", "inert", "structural", "not measured"] = "not measured"
    result: ProbeResult | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What a few steps of a workload show, and what each optimization would change."""

    workload: str
    execution: str
    backend: str
    num_batches: int
    off_means: OffMeans
    levels: Mapping[str, str]
    result: ProbeResult
    probes: tuple[Probe, ...] = ()
