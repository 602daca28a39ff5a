"""One setting of every factor -> `Cell`, its stable key, and the designed cells and trials of a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Execution = Literal["eager", "compiled"]
Purpose = Literal["timed", "parity"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting of execution mode and every optimization.

    Attributes:
        execution: `eager` or `compiled`.
        levels: Level of each optimization of the study, by name, in spec order.
        repeat: 0, or 1 for the second measurement of an A/A pair.
    """

    execution: Execution
    levels: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0

    @property
    def key(self) -> str:
        """Stable text that names the cell, e.g. `compiled[dynamic_shapes=dynamic,sync_free=off]#1`."""
        inside = ",".join(f"{name}={level}" for name, level in self.levels.items())
        return f"{self.execution}[{inside}]" + (f"#{self.repeat}" if self.repeat else "")


@dataclass(frozen=True, kw_only=True)
class DesignedCell:
    """A cell of the design.

    Attributes:
        cell: The setting as written.
        effective_key: The key with inert optimizations removed; cells that train the same share it, they are aliases,
            measured once a block.
        arms: Names people compare: `eager`, `naive`, `full`, `without-<optimization>`, `with-<optimization>`,
            `ladder-<k>`, `eager-with-<optimization>`, `eager-again`, `full-again`.
        on: The optimizations of the study that are at their on level here (empty for eager).
        inert: The varying optimizations that cannot act here, with the reason.
        execution: How its recipe executes: an optimization may stop a compiled cell from compiling. None in designs
            of older versions, where it is what the cell says.
    """

    cell: Cell
    effective_key: str
    arms: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    inert: Mapping[str, str] = field(default_factory=dict)
    execution: Execution | None = None

    @property
    def compiles(self) -> bool:
        """Whether anything is compiled when it trains."""
        return (self.execution or self.cell.execution) == "compiled"

    @property
    def name(self) -> str:
        """First arm, or a short form listing what is on: `compiled +dynamic_shapes +sync_free`."""
        if self.arms:
            return self.arms[0]
        return " ".join([self.cell.execution, *(f"+{name}" for name in self.on)])


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One execution of one effective key for one workload and block.

    Attributes:
        key: Stable identity inside the study: `<workload>/b<block>/<effective key>`; safe to compare, not a file name.
        slug: File-system-safe form of the key.
        workload: Workload name.
        block: Block number from 0.
        seed: Seed of the block.
        order: Position inside the block (random, drawn from the block's seed).
        cell: The designed cell that runs for this key (first one that has it).
        purpose: `timed` trials are measured; `parity` trials train the same steps as eager with everything aligned,
            and their times mean nothing. The key of a parity trial is
            `<workload>/b<block>/parity(<windows>)/<effective key>`.
        windows: First steps of the windows of a parity trial.
        reference: Key of the eager parity trial whose checkpoints this one restarts from; None for that trial itself.
    """

    key: str
    slug: str
    workload: str
    block: int
    seed: int
    order: int
    cell: DesignedCell
    purpose: Purpose = "timed"
    windows: tuple[int, ...] = ()
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class Design:
    """Cells (aliases included) and trials (one per effective key, workload and block) of a study.

    `parity` holds the parity trials, each eager one before those that restart from it.
    """

    kind: str
    cells: tuple[DesignedCell, ...]
    trials: tuple[PlannedTrial, ...]
    parity: tuple[PlannedTrial, ...] = ()

    @property
    def effective_keys(self) -> tuple[str, ...]:
        """The distinct effective keys, in order of first appearance."""
        return tuple(dict.fromkeys(cell.effective_key for cell in self.cells))

    def aliases(self) -> dict[str, tuple[str, ...]]:
        """Effective keys that more than one cell shares -> names of those cells."""
        groups: dict[str, list[str]] = {}
        for cell in self.cells:
            groups.setdefault(cell.effective_key, []).append(cell.name)
        return {key: tuple(names) for key, names in groups.items() if len(names) > 1}
