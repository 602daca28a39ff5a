"""The `design` of a spec -> its kind and explicitly written cells, and what is wrong with them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ablate.core.cell import Execution
from ablate.core.errors import did_you_mean
from ablate.core.study import FEWEST_VARYING, DesignKind, ExplicitCell, Factor
from ablate.spec.errors import Fault, clean
from ablate.spec.models import KINDS
from ablate.spec.source import Path, Source

MOST_VARYING = {"factorial": 8, "fraction": 9}
MOST_CELLS = 512
Acts = Callable[[Factor, Execution], bool]


@dataclass(kw_only=True)
class Layout:
    """Kind of a design and the cells that the spec writes out; collects faults while it is read."""

    kind: DesignKind = "factorial"
    cells: tuple[ExplicitCell, ...] = ()
    faults: list[Fault] = field(default_factory=list)


def read_layout(value: Any, factors: tuple[Factor, ...], *, acts: Acts, complete: bool, source: Source) -> Layout:
    """Read `design`: the name of a kind, or a list of arm names and cells.

    Args:
        value: What the spec writes.
        factors: The optimizations of the study that are right.
        acts: Whether an optimization can act in cells of an execution mode.
        complete: Whether `factors` are all that the spec names; their number is judged only then.
        source: Places in the spec.
    """
    if isinstance(value, list):
        return _Cells(factors=factors, acts=acts, source=source).read(value)
    layout = Layout()
    if value in KINDS:
        layout.kind = cast(DesignKind, value)
        if complete:
            layout.faults += _number_of_varying(layout.kind, factors, source)
        if complete and value == "fraction" and not layout.faults:
            layout.faults += _number_of_acting(factors, acts, source)
    else:
        text = f"expected one of {', '.join(KINDS)}, or a list of cells such as [eager, naive, full]"
        if isinstance(value, str):
            text = f"unknown design '{clean(value)}'{did_you_mean(value, KINDS)}"
        layout.faults.append(Fault(position=source.at_value(("design",)), text=text))
    return layout


def _number_of_varying(kind: DesignKind, factors: tuple[Factor, ...], source: Source) -> Iterable[Fault]:
    varying = sum(factor.setting == "both" for factor in factors)
    where = source.at_value(("design",) if ("design",) in source.values else ("optimizations",))
    if varying < FEWEST_VARYING[kind]:
        needed = FEWEST_VARYING[kind]
        yield Fault(
            position=where,
            text=f"a {kind} design needs at least {needed} optimization{'s' if needed > 1 else ''} set to 'both', "
            f"this spec has {varying}",
        )
    elif varying > MOST_VARYING.get(kind, varying):
        yield Fault(
            position=where,
            text=f"a {kind} design of {varying} optimizations has {2**varying} cells; set at most "
            f"{MOST_VARYING[kind]} to 'both', or write leave-one-out",
        )


def _number_of_acting(factors: tuple[Factor, ...], acts: Acts, source: Source) -> Iterable[Fault]:
    """A half of three or fewer mixes main effects up with pairs; the whole is small then."""
    acting = [f for f in factors if f.setting == "both" and acts(f, "compiled")]
    fewest = FEWEST_VARYING["fraction"]
    if len(acting) < fewest:
        yield Fault(
            position=source.at_value(("design",)),
            text=f"a fraction needs at least {fewest} optimizations that act in compiled cells on this device, here "
            f"{len(acting)} do; write factorial, it has {2 ** len(acting)} compiled cells",
        )


def arm_names(factors: Iterable[Factor], acts: Acts) -> list[str]:
    """The names that a spec may use for cells of a study."""
    varying = [factor for factor in factors if factor.setting == "both"]
    eager = [f"eager-with-{f.name}" for f in varying if acts(f, "eager")]
    singles = [f"{word}-{f.name}" for word in ("without", "with") for f in varying]
    ladder = [f"ladder-{k}" for k in range(1, len(varying) + 1)]
    return ["eager", "naive", "full", *singles, *ladder, *eager, "eager-again", "full-again"]


@dataclass(kw_only=True)
class _Cells:
    factors: tuple[Factor, ...]
    acts: Acts
    source: Source
    faults: list[Fault] = field(default_factory=list)

    def read(self, entries: list[Any]) -> Layout:
        if not 1 <= len(entries) <= MOST_CELLS:
            self._fault(("design",), f"a design has 1 to {MOST_CELLS} cells, this list has {len(entries)}")
            return Layout(kind="cells", faults=self.faults)
        cells: list[ExplicitCell] = []
        for i, entry in enumerate(entries):
            cell = self._cell(entry, ("design", i))
            if cell is None:
                continue
            if cell in cells:
                self._fault(("design", i), "this cell is in the list already; remove one")
            cells.append(cell)
        return Layout(kind="cells", cells=tuple(cells), faults=self.faults)

    def _cell(self, entry: Any, path: Path) -> ExplicitCell | None:
        if isinstance(entry, str):
            arms = arm_names(self.factors, self.acts)
            if entry in arms:
                return ExplicitCell(arm=entry, execution="eager" if entry.startswith("eager") else "compiled")
            self._fault(path, f"unknown arm '{clean(entry)}'{did_you_mean(entry, arms)}")
        elif isinstance(entry, dict):
            return self._written_cell(entry, path)
        else:
            self._fault(path, "expected an arm such as naive, or a cell such as {execution: compiled, x: on}")
        return None

    def _written_cell(self, entry: dict[str, Any], path: Path) -> ExplicitCell | None:
        before = len(self.faults)
        execution = entry.get("execution", "compiled")
        if execution not in ("eager", "compiled"):
            self._fault((*path, "execution"), "expected eager or compiled")
        known = {factor.name: factor for factor in self.factors}
        for name, level in entry.items():
            if name == "execution":
                continue
            if name not in known:
                text = f"unknown optimization '{clean(name)}' in a cell{did_you_mean(name, ['execution', *known])}"
                self.faults.append(Fault(position=self.source.at_key((*path, name)), text=text))
            elif sentence := self._wrong_level(known[name], level, execution):
                self._fault((*path, name), sentence)
        if len(self.faults) > before:
            return None
        levels = {name: level for name, level in entry.items() if name != "execution"}
        return ExplicitCell(execution=cast(Literal["eager", "compiled"], execution), levels=levels)

    def _wrong_level(self, factor: Factor, level: Any, execution: Any) -> str:
        choices = ["on", "off", *factor.info.levels]
        if not isinstance(level, str) or level not in choices:
            if isinstance(level, bool):
                return f"write {factor.name}: {'on' if level else 'off'}"
            return f"{factor.name} has no level '{clean(str(level))}'{did_you_mean(level, choices)}"
        if factor.setting != "both":
            return f"{factor.name} is fixed to '{factor.setting}' in every compiled cell; set it to both to vary it"
        if execution == "eager" and level not in ("off", factor.off) and not self.acts(factor, "eager"):
            return f"{factor.name} cannot act in an eager cell; leave it out"
        return ""

    def _fault(self, path: Path, text: str) -> None:
        self.faults.append(Fault(position=self.source.at_value(path), text=text))
