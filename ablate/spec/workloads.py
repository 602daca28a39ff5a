"""The workloads of a spec, their options and the shorthands for all of them -> choices with every option checked."""

import dataclasses
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, ValidationError, create_model

from ablate.core.errors import UserError, did_you_mean
from ablate.core.study import WorkloadChoice
from ablate.spec.checks import are_as_written
from ablate.spec.errors import Fault, clean
from ablate.spec.messages import faults_of
from ablate.spec.models import SpecFile
from ablate.spec.names import Found, Names, file_digest
from ablate.spec.source import Path, Source
from ablate.spec.values import Section

OF_TRAINING = ("channels", "num_neighbors", "dropout", "encoder_layers", "validation_rows")
SHORTHANDS: Mapping[str, Path] = {
    "dataset": ("data", "dataset"),
    "revision": ("data", "revision"),
    "scale": ("data", "scale"),
    "data_seed": ("data", "seed"),
    **{name: ("training", name) for name in OF_TRAINING},
}
HUB_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def read_workloads(spec: SpecFile, names: Names, source: Source) -> tuple[tuple[WorkloadChoice, ...], list[Fault]]:
    """Build the workload choices that can be built; everything else becomes a fault at its place.

    Items that are neither text nor a mapping with `use` have a fault already and are passed over.
    """
    choices: dict[str, WorkloadChoice] = {}
    faults: list[Fault] = []
    shared = _shorthands(spec)
    items = source.value.get("workloads")
    for i, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        written = {"use": item} if isinstance(item, str) else item
        if not isinstance(written, dict) or not isinstance(text := written.get("use"), str):
            continue
        position = source.at_value(("workloads", i, "use"))
        try:
            found = names.workload(text, from_command_line=position.option is not None)
        except UserError as error:
            faults.append(Fault(position=position, text=str(error)))
            continue
        own = written.get("options")
        given = _Given(
            own=own if isinstance(own, dict) else {}, shared=shared, place=("workloads", i), folder=names.folder
        )
        options, wrong = given.read(found, source)
        faults += wrong
        if found.info.name in choices:
            faults.append(Fault(position=position, text=f"workload '{found.info.name}' is given twice; remove one"))
        choices[found.info.name] = WorkloadChoice(
            info=found.info, options=options, path=found.path, digest=file_digest(found.path)
        )
    if not faults:
        faults += _unused(shared, list(choices.values()), source)
    return tuple(choices.values()), list(dict.fromkeys(faults))


def _shorthands(spec: SpecFile) -> dict[str, Any]:
    """What `data` and `training` give for options, by the name of the option."""
    given = {name: getattr(getattr(spec, section), key, None) for name, (section, key) in SHORTHANDS.items()}  # type: ignore[arg-type]
    return {name: value for name, value in given.items() if value is not None}


def _unused(shared: Mapping[str, Any], choices: Sequence[WorkloadChoice], source: Source) -> Iterator[Fault]:
    if choices and are_as_written(source, len(choices)):
        for name in shared:
            if not any(name in choice.options for choice in choices):
                key = SHORTHANDS[name]
                text = f"no workload of this study has an option '{name}'; remove {'.'.join(map(str, key))}"
                yield Fault(position=source.at_key(key), text=text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Given:
    """What a spec gives for the options of one workload: its own options win over the shorthands."""

    own: Mapping[str, Any]
    shared: Mapping[str, Any]
    place: Path
    folder: FilePath

    def read(self, found: Found[Any], source: Source) -> tuple[dict[str, Any], list[Fault]]:
        """Return every option, defaults included, or faults."""
        model = options_model(found.info.options)
        given = {name: value for name, value in self.shared.items() if name in model.model_fields} | dict(self.own)
        try:
            options = model.model_validate(given).model_dump()
        except ValidationError as error:
            return {}, list(faults_of(error, source, model, self._locate))
        return self._with_dataset(options, source)

    def _locate(self, path: Path) -> Path:
        if not path:
            return self.place
        name = str(path[0])
        start = SHORTHANDS[name] if name in self.shared and name not in self.own else (*self.place, "options", name)
        return (*start, *path[1:])

    def _with_dataset(self, options: dict[str, Any], source: Source) -> tuple[dict[str, Any], list[Fault]]:
        """Options that name a data set: it must be given, and what goes with it must fit."""
        if "dataset" not in options:
            return options, []
        if not options["dataset"]:
            text = "the key 'data' is missing; write data: {dataset: look-alike, scale: tiny}, or another data set"
            return options, [Fault(position=source.at_value(()), text=text)]
        faults = list(_dataset_faults(options, self._locate, source)) if "scale" in options else []
        return _resolved(options, self.folder), faults


def _is_folder(dataset: str) -> bool:
    """Tell a folder (written with a slash, or a leading `~` or `.`) from the name of a hub dataset."""
    return "/" in dataset or dataset.startswith(("~", "."))


def _resolved(options: dict[str, Any], folder: FilePath) -> dict[str, Any]:
    """The options with a folder that is relative to the spec made absolute, and the default scale filled in."""
    dataset = options["dataset"]
    if _is_folder(dataset):
        return {**options, "dataset": str((folder / FilePath(dataset).expanduser()).resolve())}
    if dataset == "look-alike" and "scale" in options:
        return {**options, "scale": options["scale"] or "tiny"}
    return options


def _dataset_faults(options: Mapping[str, Any], locate: Callable[[Path], Path], source: Source) -> Iterator[Fault]:
    """Find settings of a data set of tables that do not go together."""
    dataset = options["dataset"]
    if dataset != "look-alike" and not _is_folder(dataset):
        near = did_you_mean(dataset, ["look-alike"])
        if not HUB_NAME.match(dataset) or "did you mean" in near:
            text = f"unknown dataset '{clean(dataset)}'{near if 'mean' in near else '; write a folder with a slash'}"
            yield Fault(position=source.at_value(locate(("dataset",))), text=text)
    if options["scale"] is not None and dataset != "look-alike":
        text = "scale is for the look-alike only; remove it or write dataset: look-alike"
        yield Fault(position=source.at_key(locate(("scale",))), text=text)
    if options.get("revision") is not None and (dataset == "look-alike" or _is_folder(dataset)):
        text = "revision is for datasets of the hub only; remove it"
        yield Fault(position=source.at_key(locate(("revision",))), text=text)


@cache
def options_model(options: Any) -> type[Section]:
    """The model of a workload's options: one key per field of its dataclass, made by `ablate.core.workload.option`."""
    hints = get_type_hints(options)
    keys: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        info = Field(
            default=... if default is dataclasses.MISSING else default, description=field.metadata.get("description")
        )
        keys[field.name] = (_typed(hints[field.name], field.metadata), info)
    model: type[Section] = create_model("Options", __base__=Section, **keys)
    return model


def _typed(hint: Any, bounds: Mapping[str, Any]) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return Union[tuple(kind if kind is types.NoneType else _typed(kind, bounds) for kind in arguments)]  # noqa: UP007
    if origin is tuple:
        return Annotated[list[_typed(arguments[0], bounds)], Field(min_length=1, max_length=64)]  # type: ignore[misc]
    if hint is str and bounds.get("one_of"):
        return Literal[bounds["one_of"]]
    if hint in (int, float):
        limits = {"ge": bounds.get("at_least"), "le": bounds.get("at_most"), "lt": bounds.get("below")}
        return Annotated[hint, Field(**{key: limit for key, limit in limits.items() if limit is not None})]
    return hint
