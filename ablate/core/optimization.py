"""What an optimization declares about itself -> pure data that spec, design and analysis can use without torch."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ablate.core.errors import UserError, did_you_mean

OffMeans = Literal["today", "guide"]
SUPPORTS = "supports:"  # `supports:hetero-keys`: only where the workload supports it
Numerics = Literal["identical", "rounding", "training"]
LAYERS = ("compiler input", "compiler output", "runtime")
GENERAL_REASONS: Mapping[str, str] = {
    "compiled_forward": "nothing is compiled here",
    "compiled_step": "the optimizer step is not compiled (compile_step: false)",
    "cuda": "no CUDA device: it cannot act on a CPU",
}


@dataclass(frozen=True)
class Level:
    """One level of an optimization.

    Attributes:
        sentence: What it means, for the report.
        changes: What it sets in the recipe, as data: a field (`metric_policy`), or a key of a mapping field
            (`model.keys`); None when the module's `apply` computes it.
    """

    sentence: str
    changes: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Expectation:
    """What must differ in the evidence when the optimization bites.

    Attributes:
        counter: A key of `Evidence.counters`, e.g. `compiles.optimizer_step`.
        direction: Whether the on level shows `fewer` or `more` of it than the off level.
        sentence: The same in words, for the report.
    """

    counter: str
    direction: Literal["fewer", "more"]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class OptimizationInfo:
    """One optimization (a factor): its levels, where it can act, and what it promises.

    Attributes:
        name: Key in the spec, e.g. `dynamic_shapes`.
        title: Short human name.
        layer: The layer it belongs to; one of `LAYERS` for the guide's five, free text for others.
        levels: All levels, by name.
        on: The level that is the optimization itself.
        off: The off level for each meaning of off (`today`, `guide`).
        emulations: Off levels that restore an older behavior, with the label the report prints beside numbers.
        numerics: What it may change: `identical` arithmetic, `rounding`, or the `training` itself.
        requires: It acts only where all of these hold; elsewhere it is inert: `compiled_forward`, `compiled_step`,
            `cuda`, and `supports:<what>` for what a workload's model must support.
        why_inert: Reason per requirement, where the optimization can say it better than the general sentence.
        expectations: What must differ when it bites.
        counters: Counters of the evidence that the module itself collects, by name, with their titles: its
            `count(session)` returns their values after the timed training.
        source: Where the advice comes from.
    """

    name: str
    title: str
    layer: str
    levels: Mapping[str, Level]
    on: str
    off: Mapping[str, str]
    emulations: Mapping[str, str] = field(default_factory=dict)
    numerics: Numerics = "identical"
    requires: tuple[str, ...] = ()
    why_inert: Mapping[str, str] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    counters: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        for what, words, known in (
            ("level", (self.on, *self.off.values(), *self.emulations), self.levels),
            ("requires", [r for r in self.requires if not r.startswith("supports:")], GENERAL_REASONS),
            ("numerics", (self.numerics,), get_args(Numerics)),
        ):
            for word in words:
                if word not in known:
                    raise UserError(f"optimization {self.name}: {what} {word!r} is unknown{did_you_mean(word, known)}")
        if "today" not in self.off:
            raise UserError(f"optimization {self.name}: off needs at least the meaning 'today'")

    def off_level(self, meaning: OffMeans) -> str:
        """Return the off level under a meaning of off; `guide` falls back to `today` when it has no emulation."""
        return self.off.get(meaning, self.off["today"])

    def inert_reason(
        self, *, execution: str, compile_step: bool, device: str, supports: Collection[str] = ()
    ) -> str | None:
        """Say why the optimization cannot act in a cell; None where it can."""
        holds = {
            "compiled_forward": execution == "compiled",
            "compiled_step": execution == "compiled" and compile_step,
            "cuda": device == "cuda",
        }
        holds |= {f"{SUPPORTS}{what}": True for what in supports}
        missing = [requirement for requirement in self.requires if not holds.get(requirement)]
        unsupported = [requirement for requirement in missing if requirement.startswith(SUPPORTS)]
        if unsupported:
            what = unsupported[0].removeprefix(SUPPORTS)
            return self.why_inert.get(unsupported[0], f"the workload has nothing that it acts on ({what})")
        if execution == "eager" and ("compiled_forward" in self.requires or "compiled_step" in self.requires):
            return "nothing is compiled in an eager cell"
        return self.why_inert.get(missing[0], GENERAL_REASONS[missing[0]]) if missing else None
