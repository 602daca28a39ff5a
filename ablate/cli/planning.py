"""`ablate plan SPEC`: what a study takes, before anything is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.loading import LoadedStudy, load_study
from ablate.cli.terminal import REPORTS, RUNS, Blocks, Json, Runs, Spec, Workloads, print_json, print_line, print_table
from ablate.core.units import format_duration
from ablate.run.options import RunOptions

if TYPE_CHECKING:
    from ablate.run.plan.plan import ParityPlan, Plan, PlannedCell


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command()(plan)


def plan(
    spec: Spec,
    workload: Workloads = None,
    blocks: Blocks = None,
    runs: Runs = RUNS,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Wanted half-width, e.g. 2%: blocks, detectable effects, hours per design."),
    ] = None,
    noise: Annotated[str | None, typer.Option("--noise", help="With --target: noise of one trial, e.g. 1.5%.")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option("--price-per-hour", min=0, help="With --target: price of the machine.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print cells, aliases, number of trials and hours of a study; nothing is started."""
    from ablate.cli.targets import parse_ratio, print_target
    from ablate.run.plan.plan import make_plan

    loaded = load_study(spec, RunOptions(workloads=tuple(workload or ())), runs=runs, reports=REPORTS, blocks=blocks)
    if target is not None:
        stated = None if noise is None else parse_ratio(noise, "--noise")
        print_target(loaded, parse_ratio(target, "--target"), stated, price_per_hour, as_json=as_json)
        return
    planned = make_plan(loaded.study, loaded.design, loaded.trials, loaded.paths, loaded.parity)
    if as_json:
        print_json(planned)
        return
    print_line(f"study {planned.study}: {planned.design} design on {planned.device}{describe_profile(planned.profile)}")
    print_table(
        ("cell", "also called", "mode", "on", "measured as"),
        ((c.name, ", ".join(c.arms[1:]), c.execution, ", ".join(c.on), c.measured_as) for c in planned.cells),
    )
    num_aliased = sum(cell.measured_as is not None for cell in planned.cells)
    print_line(
        f"cells: {len(planned.cells)}, of which {num_aliased} are aliases of another; "
        f"{planned.keys_per_block} are measured"
    )
    for line in _inert_lines(planned.cells):
        print_line(line)
    print_line(
        f"trials: {planned.keys_per_block} cells x {count(len(planned.workloads), 'workload')} x "
        f"{count(planned.blocks, 'block')} = {planned.trials}; {planned.done} have ended, {planned.failed} failed"
    )
    for line in _design_lines(loaded):
        print_line(line)
    print_line(f"missing: about {format_duration(planned.estimated_s)} ({planned.assumption})")
    for line in [*_parity_lines(planned.parity), *margin_lines(planned)]:
        print_line(line)


def margin_lines(planned: Plan) -> list[str]:
    """Whether a margin was changed after trials had run, which makes it no margin fixed in advance."""
    if not planned.under_other_margins:
        return []
    return [
        f"margins: {count(planned.under_other_margins, 'trial')} ended before the spec stated these margins; what "
        "they decide is called post hoc"
    ]


def _parity_lines(parity: ParityPlan) -> list[str]:
    """What is compared with eager step by step, and what that takes beside the timed trials."""
    if parity.asked == "off":
        return ["parity trials: none (equivalence: off); whether training changed is judged by the timed trials alone"]
    if not parity.trials:
        return [f"parity trials: none in this selection (equivalence: {parity.asked})"]
    windows = ", ".join(map(str, parity.windows))
    return [
        f"parity trials (equivalence: {parity.asked}): {parity.trials} beside the timed ones, "
        f"{parity.done} have ended, {parity.failed} failed; {', '.join(parity.cells)}; windows from step {windows}",
        f"missing of parity: about {format_duration(parity.estimated_s)} more ({parity.assumption})",
    ]


def _design_lines(loaded: LoadedStudy) -> list[str]:
    """The alias table of a fraction, and when a sequential study stops."""
    from ablate.design.fraction import alias_table

    lines = []
    if loaded.design.kind == "fraction":
        lines.append("fraction, what shares a column (interactions of three or more are assumed to be 0):")
        table = alias_table([f.name for f in loaded.study.acting("compiled")])
        lines += [f"  {alias}" for alias in table]
    if (rule := loaded.study.sequential) is not None:
        lines.append(
            f"sequential: blocks are added, up to {rule.most}, until the widest simultaneous interval "
            f"({rule.response}) is within ±{100 * rule.target:g} %"
        )
    return lines


def _inert_lines(cells: Sequence[PlannedCell]) -> list[str]:
    """One line per reason: which optimizations cannot act, in how many cells of which mode."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        for name, reason in cell.inert.items():
            names.setdefault((reason, cell.execution), {})[name] = None
        counts.update({(reason, cell.execution) for reason in cell.inert.values()})
    return [
        f"inert in {count(counts[reason, mode], f'{mode} cell')}: {', '.join(found)} ({reason})"
        for (reason, mode), found in names.items()
    ]


def count(number: int, thing: str) -> str:
    """Write a number with its noun: `1 trial`, `2 trials`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def describe_profile(profile: str | None) -> str:
    """Say which profile of the spec applies, if one does, ready to append."""
    return f" (profile {profile} of the spec applies)" if profile else ""
