"""After an edit of the spec every command that is given it says so, with what changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Ablate = Callable[..., tuple[int, str, str]]
SAID = "the spec was edited since trials of small ran (changed: "
OTHER = "), which makes it another study: `run` needs another name or --runs"
SHOWN = "; this is about the study as it ran"


@pytest.fixture
def ran(ablate: Ablate, spec: Path, no_tracking: list[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec whose study has run; nothing is drawn or sent."""
    monkeypatch.setattr("ablate.track.ui.serve", lambda uri, port: 0)
    monkeypatch.setattr("ablate.figures.render.render", lambda paths, results: None)
    monkeypatch.setattr("ablate.report.pdf.make_report", lambda paths, results: None)
    assert ablate("run", spec, "--no-report")[0] == 0
    return spec


def commands(spec: Path) -> list[tuple[object, ...]]:
    return [("status", spec), ("analyze", spec), ("report", spec), ("ui", spec), ("compare", spec, spec)]


def test_nothing_is_said_of_a_spec_that_was_not_edited(ablate: Ablate, ran: Path) -> None:
    for command in [("plan", ran), ("plan", ran, "--blocks", 3), *commands(ran)]:
        assert SAID not in ablate(*command)[2], command


def test_every_command_says_that_the_spec_was_edited(ablate: Ablate, ran: Path) -> None:
    ran.write_text(ran.read_text().replace("steps_per_epoch: 4", "steps_per_epoch: 5") + "training: {channels: 16}\n")
    said = f"{SAID}timing, hm/user-churn: channels{OTHER}"
    assert f"{said}\n" in ablate("plan", ran)[2]
    for command in commands(ran):
        assert f"{said}{SHOWN}\n" in ablate(*command)[2], command
    code, _, err = ablate("run", ran, "--no-report")
    assert code == 1 and "(changed: timing, hm/user-churn: channels); rename the study in the spec" in err


def test_an_edit_that_extends_the_study_says_that(ablate: Ablate, ran: Path) -> None:
    ran.write_text(
        ran.read_text().replace("equivalence: off", "equivalence: {parity: off, margin: {hm/user-churn: 1}}")
    )
    assert f"{SAID}equivalence), which extends the study\n" in ablate("plan", ran)[2]
    assert f"{SAID}equivalence), which extends the study{SHOWN}\n" in ablate("status", ran)[2]
