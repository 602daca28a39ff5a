"""`python -m benchmarks.fraction RUNS/STUDY [--blocks 5-9] [--output FOLDER]` -> both reports as text, and whether they
agree.

STUDY is the folder of a factorial study. The fraction is taken from a subset of the same records; nothing is trained.
Exit code 1 when an effect of the fraction disagrees with the full one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ablate.analysis.results.effects import Effect
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import Results, WorkloadResults
from ablate.analysis.trials.comparable import Trial
from ablate.analysis.words.speed import why_not_reported
from ablate.core.errors import AblateError
from ablate.core.study import Study
from ablate.files.paths import StudyPaths
from ablate.records.store import read_design, read_records, read_study
from benchmarks.fraction.agreement import KINDS, Agreement, agreements, analyze_both

OTHERS = ("interaction", "lack-of-fit")


def main() -> int:
    """Read the records, print both reports and the comparison, write them to files when asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fraction", description=__doc__)
    parser.add_argument("study", type=Path, help="folder of a factorial study, e.g. runs/hm-full")
    parser.add_argument("--output", type=Path, help="folder for full.txt, fraction.txt, agreement.txt")
    parser.add_argument("--blocks", type=block_range, help="only these blocks, first-last: a repetition with new seeds")
    options = parser.parse_args()
    paths = StudyPaths(root=options.study, report=options.study)
    try:
        study, design = read_study(paths.study_json), read_design(paths.design_json)
        trials = [
            Trial(record=record, folder=folder)
            for folder, record in read_records(paths.records)
            if record.identity.purpose == "timed"
            and (options.blocks is None or record.identity.block in options.blocks)
        ]
        study = only_what_ran(study, trials)
        full, fraction = analyze_both(study, design, trials)
        rows = list(agreements(study, design, trials))
        when = trained_when(trials)
    except (AblateError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    texts = {
        "full.txt": "\n".join(report_lines(full, f"full factorial, {when}")),
        "fraction.txt": "\n".join(
            report_lines(fraction, f"half fraction, from a subset of the same records, {when}", noise=full)
        ),
        "agreement.txt": "\n".join(agreement_lines(rows)),
    }
    for name, text in texts.items():
        print(text + "\n")
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
            (options.output / name).write_text(text + "\n", encoding="utf-8")
    return 1 if any(row.agrees is False for row in rows) else 0


def block_range(text: str) -> range:
    """Read `first-last`, both included."""
    first, last = (int(part) for part in text.split("-"))
    return range(first, last + 1)


def only_what_ran(study: Study, trials: Sequence[Trial]) -> Study:
    """The study without the workloads that have no trial here."""
    ran = {trial.record.identity.workload for trial in trials}
    return replace(study, workloads=tuple(choice for choice in study.workloads if choice.name in ran))


def trained_when(trials: Sequence[Trial]) -> str:
    """When the trials were trained, to the minute (UTC)."""
    first = min(trial.record.started_at for trial in trials)
    last = max(trial.record.ended_at for trial in trials)
    return f"trained {first[:16]} to {last[:16]} UTC"


def report_lines(results: Results, title: str, *, noise: Results | None = None) -> Iterator[str]:
    """One report as text: what each optimization did, the A/A interval, the rule for the fraction.

    Args:
        noise: Results that have the A/A pair, when the design itself has none.
    """
    study = results.study
    options = study.workloads[0].options
    trials = [trial for result in results.workloads for trial in result.quality.trials]
    done = sum(trial.completed for trial in trials)
    blocks = sorted({trial.block for trial in trials if not trial.not_run})
    yield f"{study.name}: {title}"
    yield (
        f"{results.num_keys} trials a block, blocks {blocks[0]} to {blocks[-1]}, {done} trials completed; "
        f"off means {', '.join(dict.fromkeys(f.off_means for f in study.factors))}; device {study.device} "
        f"({results.environment.get('device_name', 'unknown')}); data {options['dataset']} {options['scale'] or ''}"
    )
    for result in results.workloads:
        yield ""
        yield from workload_lines(result, (noise or results).workload(result.name).speed)


def workload_lines(result: WorkloadResults, noise: Speed) -> Iterator[str]:
    """The numbers of one workload, then its words."""
    speed = result.speed
    verdicts = {v.optimization: v.verdict for v in speed.evidence}
    for response in dict.fromkeys(e.response for e in speed.effects):
        yield f"{result.name}, {response}"
        for effect in (e for kind in (*KINDS, *OTHERS) for e in speed.of_kind(kind, response)):
            bite = f"  [{verdicts[effect.subject]}]" if effect.kind == "optimization" and verdicts else ""
            claim = "  CLAIMED" if effect.claimed else ""
            yield f"  {effect.kind:13} {effect.subject:38} {number(effect)}{bite}{claim}"
        for effect in noise.of_kind("a/a", response):
            yield f"  A/A           {effect.subject:38} {number(effect)}{covers_one(effect)}"
        for fold in (f for f in speed.fold_over if f.response == response):
            yield f"  fold-over rule: {fold.verdict}" + (f" ({'; '.join(fold.reasons)})" if fold.reasons else "")
    for identity in (i for i in speed.identities if i.over == "optimization"):
        yield f"  identity, {identity.response}: {identity.residual:.1e} in {identity.num_blocks} blocks"
    for finding in result.quality.findings:
        yield f"  {finding.kind}: {finding.text}"
    yield from (f"  {sentence}" for sentence in result.headline)


def agreement_lines(rows: Sequence[Agreement]) -> Iterator[str]:
    """One line per effect that both designs have, and the last word."""
    yield "fraction against full: the ratio of the two speed-ups, with the interval that holds for all of a kind"
    for row in rows:
        word = {True: "agree", False: "DISAGREE", None: "no interval"}[row.agrees]
        ratio = number(row.difference) if row.difference is not None else "not in the fraction"
        word = "the same" if row.difference is not None and row.difference.inert else word
        yield f"  {row.workload}, {row.response:12} {row.kind:13} {row.subject:18} {ratio}  {word}"
    judged = [row for row in rows if row.agrees is not None]
    apart = sum(row.agrees is False for row in judged)
    others = len(rows) - len(judged)
    yield f"{len(judged) - apart} of {len(judged)} effects agree; {others} are the same or have no interval"


def covers_one(effect: Effect) -> str:
    """Whether the interval of an A/A pair covers 1, as it must but for 5 % of the studies."""
    if effect.estimate is None or effect.estimate.interval is None:
        return ""
    return ", does NOT cover 1" if effect.estimate.excludes_one else ", covers 1"


def number(effect: Effect) -> str:
    """Speed-up with its intervals, or why there is none."""
    est = effect.estimate
    if est is None:
        return f"0 by construction ({effect.cause})" if effect.inert else f"not reported ({why_not_reported(effect)})"
    text = f"{est.speedup:.4f}x ({100 * (est.speedup - 1):+.2f} %)"
    if est.interval is None or est.simultaneous is None:
        return f"{text}, one block"
    fine = [f"{low:.4f} to {high:.4f}" for low, high in (est.interval, est.simultaneous)]
    blocks = f"{len(est.blocks)} blocks" + (", pilot" if est.grade == "pilot" else "")
    return f"{text}, 95 % {fine[0]}, together {fine[1]}, {blocks}"


if __name__ == "__main__":
    sys.exit(main())
