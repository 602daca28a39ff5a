"""A spec file -> `Study`, or every fault in it at once, with file, line and column."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from pydantic import ValidationError

from ablate.core.cell import Execution
from ablate.core.errors import UserError
from ablate.core.serialize import from_dict
from ablate.core.study import Claim, Equivalence, Factor, LoaderOptions, Sequential, Study, Timing, Training
from ablate.plugins.registry import Catalog
from ablate.spec.checks import (
    arm_faults,
    loader_faults,
    read_factors,
    read_margins,
    sequential_faults,
    supports_faults,
    window_faults,
)
from ablate.spec.errors import Fault, SpecError
from ablate.spec.layout import Layout, arm_names, read_layout
from ablate.spec.messages import faults_of
from ablate.spec.models import SpecFile
from ablate.spec.names import Names
from ablate.spec.profiles import places_of, read_profiles, with_overrides, with_profile
from ablate.spec.source import MOST_BYTES, NotReadableError, Source, read_source
from ablate.spec.source import Path as Place
from ablate.spec.workloads import read_workloads

Device = Literal["cpu", "cuda"]


def read_study(
    path: Path, *, catalog: Catalog, device: Device | None = None, overrides: Mapping[str, Any] | None = None
) -> Study:
    """Read, check and resolve a spec.

    Args:
        path: The spec; paths inside it are relative to its folder.
        catalog: What the spec may name.
        device: The device of this machine, used for `device: auto`; None = not known, `auto` then means cpu.
        overrides: Top-level keys that options of the command line replace, e.g. `{"blocks": 1}`.

    Returns:
        The study, with the profile of its device merged.

    Raises:
        SpecError: anything wrong in the spec or in the overrides; its text is the full screen.
        UserError: the file cannot be read.
    """
    text = _read_text(path)
    try:
        source = read_source(text)
    except NotReadableError as error:
        _refuse([error.fault], path, text)
    names = Names(catalog=catalog, folder=path.resolve().parent)
    profiles, faults = read_profiles(source)
    faults += source.faults
    resolved = _resolve_device(source, device, faults)
    active = with_profile(source, resolved) if resolved in profiles else source
    names.remember_files(active.value.get("workloads"))
    study, found = _check(with_overrides(active, overrides or {}), resolved, names)
    faults += found
    for other in profiles:
        if other != resolved:
            _, found = _check(with_profile(source, other), "cuda" if other == "cuda" else "cpu", names)
            inside = places_of(source, other)
            faults += [fault for fault in found if fault.position in inside]
    if faults or study is None:
        _refuse(faults, path, text)
    profile = resolved if resolved in profiles else None
    return replace(study, profile=profile, spec_path=str(path), spec_text=text)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} is larger than {MOST_BYTES // 1024} KiB; that is no spec")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:1:1: not a text file (UTF-8 fails at byte {error.start}); give a YAML spec") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; check the path of the spec") from error


def _refuse(faults: list[Fault], path: Path, text: str) -> NoReturn:
    raise SpecError(faults, path=str(path), source=text)


def _resolve_device(source: Source, detected: Device | None, faults: list[Fault]) -> Device:
    asked = source.value.get("device", "auto")
    if asked == "cuda" and detected == "cpu":
        text = "this machine has no CUDA device; write device: auto or cpu"
        faults.append(Fault(position=source.at_value(("device",)), text=text))
    if asked in ("cpu", "cuda"):
        return "cuda" if asked == "cuda" else "cpu"
    return detected or "cpu"


def _check(source: Source, device: Device, names: Names) -> tuple[Study | None, list[Fault]]:
    """Check every section by itself, then the combinations of the sections that are right."""
    spec, wrong, faults = validate(source)
    factors, of_factors = read_factors(spec.optimizations, spec.off_means, names, source)
    complete = "optimizations" not in wrong and len(factors) == len(spec.optimizations)
    workloads, of_workloads = read_workloads(spec, names, source)

    def acts(factor: Factor, execution: Execution) -> bool:
        supports = set.intersection(*(set(choice.info.supports) for choice in workloads)) if workloads else set()
        reason = factor.info.inert_reason(
            execution=execution, compile_step=spec.compile_step, device=device, supports=supports
        )
        return reason is None

    layout = read_layout(spec.design, factors, acts=acts, complete=complete, source=source)
    margin, of_margin = read_margins("margin", spec.equivalence.margin, workloads, names, source)
    metric_margin, of_metric = read_margins("metric_margin", spec.equivalence.metric_margin, workloads, names, source)
    faults += [*of_factors, *of_workloads, *layout.faults, *loader_faults(spec.loader, workloads, source)]
    faults += [*supports_faults(factors, workloads, source), *sequential_faults(spec, source)]
    faults += [*of_margin, *of_metric, *window_faults(spec, source)]
    if complete:
        faults += arm_faults(spec, arm_names(factors, acts), source)
    if faults:
        return None, faults
    margins = {"margin": margin, "metric_margin": metric_margin}
    return _assemble(spec, layout, margins, factors=factors, workloads=workloads, device=device), []


SECTIONS: dict[str, type[Any]] = {
    "claim": Claim, "timing": Timing, "loader": LoaderOptions, "sequential": Sequential
}  # fmt: skip
AS_WRITTEN = ("question", "compile_step", "compile_backend", "blocks", "seed", "compile_cache", "num_threads", "ledger")


def _assemble(spec: SpecFile, layout: Layout, margins: Mapping[str, Mapping[str, float]], **found: Any) -> Study:
    """The study that a checked spec describes; what does not matter for its faults (profile, path, text) is empty."""
    plain, optimizer = spec.model_dump(), spec.training.optimizer
    arms = list(dict.fromkeys(spec.equivalence.arms))
    return Study(
        name=spec.study,
        design=layout.kind,
        cells=layout.cells,
        training=from_dict(Training, {**plain["training"], "optimizer": optimizer.name, "lr": optimizer.lr}),
        equivalence=from_dict(Equivalence, {**plain["equivalence"], **margins, "arms": arms}),
        trial_timeout_s=float(spec.trial_timeout),
        tracking_uri=spec.tracking.uri,
        profile=None,
        spec_path="",
        spec_text="",
        **{name: plain[name] for name in AS_WRITTEN},
        **{name: plain[name] and from_dict(kind, plain[name]) for name, kind in SECTIONS.items()},
        **found,
    )


PLACEHOLDERS: dict[str, Any] = {"study": "x", "workloads": ["x"], "data": {"dataset": "look-alike"}}


def validate(source: Source) -> tuple[SpecFile, set[str], list[Fault]]:
    """Validate a spec; what is wrong is left out or takes its default, so that everything else is checked too.

    Returns:
        The model; the top-level keys with something wrong in them; the faults.
    """
    value, wrong, faults = source.value, set[str](), list[Fault]()
    while True:
        try:
            return SpecFile.model_validate(value), wrong, faults
        except ValidationError as error:
            paths = [tuple(details["loc"]) for details in error.errors(include_url=False)]
            if not wrong:
                faults = list(faults_of(error, source))
            value = copy.deepcopy(value)
        # A second refusal means that leaving a part out made its section incomplete: leave out the section.
        again = bool(wrong)
        for path in paths:
            top = str(path[0])
            wrong.add(top)
            _leave_out(value, path[:1] if again else path)
            if top in PLACEHOLDERS and top not in value:
                value[top] = PLACEHOLDERS[top]


def _leave_out(value: dict[str, Any], path: Place) -> None:
    """Delete the deepest key of a mapping on a path; the items of a list stand or fall together."""
    holder, last = value, path[0]
    for key in path[1:]:
        inside = holder.get(str(last))
        if not isinstance(inside, dict) or key not in inside:
            break
        holder, last = inside, key
    holder.pop(str(last), None)
