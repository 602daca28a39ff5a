"""Plain values of a spec -> pydantic models: keys, types and bounds; the source of the JSON Schema."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator

from ablate.spec.values import Duration, Interval, Place, Positive, Section, Seed, ShortSection, Text, Window

STUDY_NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
KINDS = ("factorial", "fraction", "ladder", "leave-one-out", "add-one-in")


class ClaimSection(Section):
    """The published claim: speed-up of full against eager."""

    expects: ClassVar[str] = "a mapping such as {speedup: [1.30, 1.35]}"
    speedup: Interval = Field(description="Lowest and highest speed-up factor of the claim.")
    alternative: Interval | None = Field(default=None, alias="or", description="The claim under its other reading.")
    source: Text = Field(default="", description="Where the claim was published.")

    @field_validator("speedup", "alternative")
    @classmethod
    def _ordered(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and value[0] > value[1]:
            raise ValueError(f"the interval runs backwards; write [{value[1]:g}, {value[0]:g}]")
        return value


class WorkloadSection(ShortSection):
    """One workload; written as its name or file, or as a mapping with its options."""

    expects: ClassVar[str] = (
        "a name, path/to/file.py, or a mapping such as {use: hm/user-churn, options: {channels: 16}}"
    )
    use: Place = Field(description="Name, or path/to/file.py.")
    options: dict[str, Any] = Field(default={}, description="Options of this workload, as it declares them.")


class DataSection(Section):
    """Options of every workload that trains on tables: where they come from."""

    expects: ClassVar[str] = "a mapping such as {dataset: look-alike, scale: tiny}"
    dataset: Place = Field(
        description="look-alike, the name of a RelBench dataset, or a folder (written with a slash) in its format."
    )
    revision: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Pinned revision of a dataset from the hub."
    )
    scale: Literal["tiny", "small", "real"] | None = Field(default=None, description="Size of the look-alike.")
    seed: Seed | None = Field(default=None, description="Seed of the look-alike.")


class OptimizationSection(ShortSection):
    """How one optimization takes part; written as `both`, `on`, `off`, or as a mapping."""

    expects: ClassVar[str] = "both, on, off or a mapping such as {use: both, off_means: guide}"
    use: Literal["both", "on", "off"] = Field(default="both", description="Vary it, or fix it in every compiled cell.")
    off_means: Literal["today", "guide"] | None = Field(default=None, description="Meaning of off for this one.")
    off: str | None = Field(default=None, description="The level that counts as off.")
    on: str | None = Field(default=None, description="The level that counts as on.")


class TimingSection(Section):
    """How long a trial trains."""

    expects: ClassVar[str] = "a mapping such as {epochs: 5, steps_per_epoch: 200, horizon_epochs: 10}"
    epochs: int = Field(default=5, ge=2, le=1000, description="Timed epochs of a trial.")
    steps_per_epoch: int = Field(default=200, ge=1, le=1_000_000, description="Optimizer updates in an epoch.")
    horizon_epochs: int = Field(default=10, ge=1, le=1_000_000, description="Epochs the horizon time is stated for.")


class OptimizerSection(Section):
    """The optimizer of `torch.optim`."""

    expects: ClassVar[str] = "a mapping such as {name: adam, lr: 0.005}"
    name: Literal["adam", "adamw", "sgd"] = Field(default="adam", description="Which optimizer.")
    lr: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None, description="Learning rate; if omitted, each workload's reference."
    )


class TrainingSection(Section):
    """How workloads are trained; `channels` and what follows it are options of every workload that has them."""

    expects: ClassVar[str] = "a mapping such as {batch_size: 512, schedule: linear}"
    batch_size: int = Field(default=512, ge=1, le=1_000_000, description="Samples in a batch.")
    optimizer: OptimizerSection = OptimizerSection()
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="linear", description="Learning rate over the steps."
    )
    channels: Annotated[int, Field(ge=1, le=16_384)] | None = Field(default=None, description="Hidden width.")
    num_neighbors: (
        Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=1, max_length=8)] | None
    ) = Field(default=None, description="Sampled neighbors per hop.")
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="Dropout probability of the encoders."
    )
    encoder_layers: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="Residual blocks of each table's feature encoder."
    )
    validation_rows: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="Rows scored after training; if omitted, all."
    )

    @field_validator("schedule", mode="before")
    @classmethod
    def _needs_no_metric(cls, value: Any) -> Any:
        if isinstance(value, str) and "plateau" in value.lower():
            raise ValueError(
                "ReduceLROnPlateau needs a validation metric while it trains, and a timed trial validates only at "
                "its end; take constant, linear or cosine"
            )
        return value


class LoaderSection(Section):
    """How batches reach the model."""

    expects: ClassVar[str] = "a mapping such as {mode: live, num_workers: 4}"
    mode: Literal["live", "replay"] = Field(
        default="live", description="Sample while training, or keep batches in memory."
    )
    num_workers: int = Field(default=0, ge=0, le=256, description="Processes that sample.")
    pin_memory: bool = Field(default=False, description="Page-locked batches, for a GPU.")


class EquivalenceSection(ShortSection):
    """What counts as the same training; fixed before any trial. Written as `default`, `all`, `off`, or as a mapping."""

    expects: ClassVar[str] = "default, all, off or a mapping such as {margin: {hm/user-churn: 0.002}}"
    alone: ClassVar[str] = "parity"
    parity: Literal["default", "all", "off"] = Field(
        default="default",
        description="Parity trials: the arms in the first block and window, every cell, block and window, or none.",
    )
    arms: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)] = Field(
        default=[], description="With default, only these arms, such as full; if omitted, all of them."
    )
    margin: dict[str, Positive] = Field(
        default={}, description="Loss difference per workload that still counts as equal."
    )
    metric_margin: dict[str, Positive] = Field(
        default={}, description="The same for the validation metric, in its unit."
    )
    windows: Annotated[list[Window], Field(min_length=1, max_length=20)] = Field(
        default=[0, 20, "middle", "end"], description="Steps where parity trials restart from eager."
    )
    window_steps: int = Field(default=60, ge=1, le=1_000_000, description="Steps of a window.")
    reruns: int = Field(default=5, ge=2, le=100, description="Eager reruns a window, weights moved by one ulp.")


class SequentialSection(Section):
    """Add whole blocks until the intervals are narrow enough."""

    expects: ClassVar[str] = "a mapping such as {target: 0.02}"
    target: Annotated[float, Field(gt=0, le=1)] = Field(
        description="Wanted half-width of the widest simultaneous interval; 0.02 is 2 %."
    )
    response: Literal["steady", "horizon_warm", "horizon_cold"] = Field(
        default="steady", description="The time whose intervals decide."
    )
    most: int = Field(default=40, ge=5, le=40, description="Most blocks: 5, 8, 12, 20 or 40.")


class TrackingSection(Section):
    """Where MLflow stores the study."""

    expects: ClassVar[str] = 'a mapping such as {uri: "sqlite:///mlflow.db"}'
    uri: Place | None = Field(default=None, description="MLflow tracking URI.")


ExplicitDesign: dict[str, Any] = {
    "anyOf": [
        {"enum": list(KINDS)},
        {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
    ]
}


class SpecFile(Section):
    """One question about training speed: a study of ablate."""

    study: Annotated[str, Field(pattern=STUDY_NAME)] = Field(description="Name of the study and of its folders.")
    question: Text = Field(default="", description="What the study answers, in one sentence.")
    claim: ClaimSection | None = None
    workloads: Annotated[list[WorkloadSection], Field(min_length=1, max_length=50)] = Field(
        description="What is trained: names, path/to/file.py, or {use: ..., options: {...}}."
    )
    data: DataSection | None = None
    optimizations: Annotated[dict[str, OptimizationSection], Field(max_length=32)] = Field(
        default={}, description="Names, or path/to/file.py, and how each takes part."
    )
    off_means: Literal["today", "guide"] = Field(
        default="today", description="What a user without the advice gets, or the guide's start."
    )
    compile_step: bool = Field(default=True, description="Does the compiled mode compile the optimizer step too.")
    compile_backend: Literal["inductor", "aot_eager", "eager"] = Field(
        default="inductor", description="Backend of the compiler."
    )
    design: Annotated[Any, WithJsonSchema(ExplicitDesign)] = Field(
        default="factorial", description="Which cells are measured."
    )
    blocks: int = Field(default=5, ge=1, le=1000, description="Passes over all cells, each with its own seed.")
    sequential: SequentialSection | None = Field(
        default=None, description="Add blocks until the intervals are narrow enough; if omitted, a fixed number."
    )
    seed: Seed = Field(default=0, description="Seed of the first block.")
    timing: TimingSection = TimingSection()
    training: TrainingSection = TrainingSection()
    loader: LoaderSection = LoaderSection()
    compile_cache: Literal["per-cell", "shared", "none"] = Field(
        default="per-cell", description="Who shares compiled kernels."
    )
    equivalence: EquivalenceSection = EquivalenceSection()
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="Where trials train.")
    num_threads: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="CPU threads of a trial."
    )
    trial_timeout: Duration = Field(default=3600.0, description="Longest time of one trial: seconds, or 30m.")
    profiles: Annotated[
        Any,
        WithJsonSchema(
            {
                "type": "object",
                "properties": {"cpu": {"type": "object"}, "cuda": {"type": "object"}},
                "additionalProperties": False,
            }
        ),
    ] = Field(default=None, description="Changes to this spec on a machine with that device.")
    tracking: TrackingSection = TrackingSection()
    ledger: Place | None = Field(
        default=None, description="PostgreSQL database that workers of several hosts share; if omitted, a file."
    )

    @field_validator("ledger")
    @classmethod
    def _without_password(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not re.match(r"postgres(ql)?://", value):
            raise ValueError("expected the address of a PostgreSQL database, such as postgresql://user@host/database")
        if re.search(r"://[^/@]*:[^/@]*@|[?&]password=", value):
            raise ValueError(
                "a spec is stored and shared: leave the password out; put it in ~/.pgpass, PGPASSWORD or ABLATE_LEDGER"
            )
        return value


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a spec file."""
    schema = SpecFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "ablate study"}
