"""What progress prints: one line per trial in a log; text of a spec is never markup."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ablate.core.evidence import FailedStage
from ablate.run.progress import PlainProgress, RichProgress, describe_end
from ablate.run.runner import run_study
from run_parts import FAKE_COMMAND, make_record, make_run


def test_plain_progress_is_one_line_per_trial(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    stream = io.StringIO()
    run_study(study, design, paths, PlainProgress(stream), command=FAKE_COMMAND)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "graph is ready"
    assert [line[:20] for line in lines[1:]] == [f"[{n}/3] hm/user-churn " for n in (1, 2, 3)]
    assert all(line.endswith("s, steady 500 ms/epoch") for line in lines[1:])
    assert any("naive block 0 (cold cache) ... " in line for line in lines)


def test_a_stage_that_failed_after_the_training_is_named(tmp_path: Path) -> None:
    _, design, _ = make_run(tmp_path)
    record = make_record(design.trials[0])
    failed = replace(record, failed_after=(FailedStage(stage="profile", reason="ValueError: planted"),))
    more = ", profile failed after the training: ValueError: planted"
    assert describe_end(failed, 41.2) == describe_end(record, 41.2) + more


def test_a_note_inside_a_trial_starts_a_new_line(tmp_path: Path) -> None:
    _, design, _ = make_run(tmp_path)
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.trial_started(1, 6, design.trials[0], "not-compiled")
    progress.note("tracking is down")
    assert stream.getvalue().endswith(" ... \ntracking is down\n")


def test_rich_progress_prints_markup_as_text(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200)
    with RichProgress(console, "[red]name[/red]") as progress:
        progress.note("[bold]not bold[/bold]")
        run_study(study, design, paths, progress, command=FAKE_COMMAND)
    assert "[bold]not bold[/bold]" in stream.getvalue()
    assert "[3/3] hm/user-churn" in stream.getvalue()
