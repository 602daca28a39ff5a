"""Ten short trials on the tiny look-alike -> a table of every optimization x meaning of off: evidence and verdict.

    python -m benchmarks.evidence            some ten minutes on two cores; exits 1 when a line is not as expected
    python -m benchmarks.evidence --keep DIR keep the records, or print the table of records kept before

Each line compares `full` with `full` without one optimization, so nothing else differs. What is expected is stated in
`EXPECTED` and was worked out from the table of optimizations, not from an earlier result.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from ablate.analysis.analyze import analyze
from ablate.analysis.results.speed import EvidenceVerdict
from ablate.analysis.results.study import Results
from ablate.analysis.words.speed import evidence_reason
from ablate.core.optimization import OffMeans
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.plugins.registry import make_catalog
from ablate.records.store import read_record, read_series
from ablate.run.progress import PlainProgress
from ablate.run.runner import run_study
from ablate.spec.reader import read_study

SPEC = Path(__file__).parent / "evidence.yaml"
MEANINGS: tuple[OffMeans, ...] = ("today", "guide")
SHOWN = (
    ("compiles.forward", "forward compiles"),
    ("graph_breaks", "breaks"),
    ("compiles.optimizer_step", "step compiles"),
    ("syncs_per_step", "syncs a step"),
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The records of an optimization off and on, and their largest relative difference of the loss in any step."""

    off: TrialRecord
    on: TrialRecord
    loss_difference: float

    def count(self, which: str, counter: str) -> float:
        record: TrialRecord = getattr(self, which)
        return record.evidence.counters[counter]


Check = Callable[[Pair], bool]


def fewer(counter: str, by: float = 1) -> Check:
    """On shows at least `by` less of a counter than off."""
    return lambda pair: pair.count("off", counter) - pair.count("on", counter) >= by


EXPECTED: Mapping[tuple[str, str], tuple[str, Check]] = {
    ("dynamic_shapes", "today"): ("bites", fewer("recompiles.forward")),
    ("dynamic_shapes", "guide"): (
        "bites",
        lambda p: fewer("recompiles.forward", 7)(p) and p.count("off", "limit_hits") >= 1,
    ),
    ("tensor_lr", "today"): (
        "bites",
        lambda p: p.count("off", "compiles.optimizer_step") == 2 and p.count("on", "compiles.optimizer_step") == 1,
    ),
    ("tensor_lr", "guide"): ("bites", fewer("compiles.optimizer_step", 7)),
    ("string_keys", "today"): ("vacuous", lambda p: p.count("off", "graph_breaks") == 0 and p.loss_difference == 0),
    ("string_keys", "guide"): (
        "bites",
        lambda p: (
            p.count("off", "compiles.forward") > 1 and p.count("on", "compiles.forward") == 1 and p.loss_difference == 0
        ),
    ),
    ("sync_free", "today"): ("structural", fewer("syncs_per_step", 3)),
    ("sync_free", "guide"): ("structural", fewer("syncs_per_step", 3)),
}


def main() -> int:
    """Print the table; 0 when every line is as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for the records")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as scratch:
        folder = (keep or Path(scratch)).resolve()
        passed = all([print_meaning(meaning, train(meaning, folder), folder) for meaning in MEANINGS])
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.processor() or platform.machine()}, torch {version('torch')}, "
        "backend aot_eager, look-alike tiny"
    )
    return 0 if passed else 1


def train(meaning: OffMeans, folder: Path) -> Results:
    """Train what is missing under one meaning of off, and analyze it."""
    study = read_study(
        SPEC, catalog=make_catalog(), device="cpu", overrides={"study": f"evidence-{meaning}", "off_means": meaning}
    )
    paths = paths_of(study, folder)
    run_study(study, make_design(study), paths, PlainProgress(sys.stderr))
    return analyze(paths)


def paths_of(study: Study, folder: Path) -> StudyPaths:
    """Files of one of the two studies."""
    return StudyPaths.of(study.name, runs=folder / "runs", reports=folder / "reports")


def print_meaning(meaning: OffMeans, results: Results, folder: Path) -> bool:
    """Print the lines of one meaning; whether all are as expected."""
    records = {
        arm: (read_record(path.parent), path.parent)
        for path in sorted(paths_of(results.study, folder).records.glob("*/record.json"))
        for arm in read_record(path.parent).identity.arms
    }
    print(f"\noff means {meaning} (off -> on; nothing else differs)")
    print(
        f"{'optimization':<16}{'off level':<20}{'verdict':<12}"
        + "".join(f"{title:<18}" for _, title in SHOWN)
        + f"{'loss differs by':<17}as expected"
    )
    passed = True
    for verdict in results.workloads[0].speed.evidence:
        passed = print_line(meaning, verdict, results, records) and passed
    print_remaining(records["full"][0])
    for record, _ in {id(r): (r, f) for r, f in records.values()}.values():
        for hit in record.evidence.limit_hits:
            print(
                f"  {record.identity.arms[0]}: {hit.function} eager after step {hit.step}"
                + (f", batch of {dict(hit.sizes)}" if hit.function == "forward" else "")
            )
    return passed


def print_line(
    meaning: OffMeans, verdict: EvidenceVerdict, results: Results, records: Mapping[str, tuple[TrialRecord, Path]]
) -> bool:
    """Print one optimization; whether it is as expected."""
    name = verdict.optimization
    factor = next(f for f in results.study.factors if f.name == name)
    label = f"{name:<16}{factor.off + ('*' if factor.emulation else ''):<20}{verdict.verdict:<12}"
    if verdict.verdict == "inert":
        print(f"{label}{evidence_reason(verdict)}")
        return name == "no_cuda_graphs"
    (off, off_folder), (on, on_folder) = records[f"without-{name}"], records["full"]
    losses = [read_series(folder).loss for folder in (off_folder, on_folder)]
    pair = Pair(off=off, on=on, loss_difference=float(((losses[0] - losses[1]).abs() / losses[1].abs()).max()))
    word, check = EXPECTED[name, meaning]
    passed = verdict.verdict == word and check(pair)
    counts = [f"{pair.count('off', key):.0f} -> {pair.count('on', key):.0f}" for key, _ in SHOWN]
    numbers = "".join(f"{text:<18}" for text in counts)
    print(f"{label}{numbers}{pair.loss_difference:<17.1e}{'yes' if passed else f'NO, expected {word}'}")
    return passed


def print_remaining(full: TrialRecord) -> None:
    """Print the would-be syncs that are left with everything on, by source line."""
    for title, sources in (
        ("compiled", full.evidence.sync_sources),
        ("the same step eagerly", full.evidence.eager_sync_sources),
    ):
        print(
            f"  left with sync_free on, {title}: {sum(sources.values())} a step"
            + "".join(f"\n    {number} x {line}" for line, number in sources.items())
        )


if __name__ == "__main__":
    sys.exit(main())
