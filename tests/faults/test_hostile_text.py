"""A spec, files and errors full of markup -> the same letters in PDF, MLflow and terminal, and nothing is executed."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from pypdf import PdfReader
from rich.console import Console

from ablate.cli.terminal import print_error, print_line
from ablate.core.record import Failure
from ablate.records.store import read_record, write_record
from ablate.run.progress import RichProgress
from fault_parts import SPEC, call_ablate
from run_parts import make_record, make_run

MARKUP = r"#strong[x] $a_b$ *b* @ref [bold]c[/bold] \ <b>d</b> `e` _f_ ~g {h} %i; $(touch pwned) `touch pwned`"
LETTERS = "äßñ Ω ж שלום مرحبا"
QUESTION = f"{MARKUP} {LETTERS}\n= second // line"
REASON = f"{MARKUP} 'quoted' \"twice\" ñ"

OPTIMIZATION = """\
from ablate.core.optimization import Level, OptimizationInfo

INFO = OptimizationInfo(
    name="odd_one",
    title={markup!r},
    layer="#layer [x] <i>",
    levels={{
        "on": Level({markup!r}, changes={{"torch_settings.flush_denormal": True}}),
        "off": Level("Plain.", changes={{}}),
        "old": Level("As in 2023.", changes={{}}),
    }},
    on="on",
    off={{"today": "off", "guide": "old"}},
    emulations={{"old": {emulation!r}}},
    numerics="identical",
)
"""
WORKLOAD = """\
from ablate.core.workload import WorkloadInfo

INFO = WorkloadInfo(name="odd/one", title={markup!r}, metric="roc_auc",
                    metric_unit="#u $v$ <w>", higher_is_better=True, lr=0.005)


def build(context):
    raise NotImplementedError
"""
EMULATION = "#emph[old] $x$ <s> [green]y[/green]"
SPEC_NAME = "odd $(touch pwned) & 'name' #1.yaml"


def write_hostile(folder: Path) -> Path:
    (folder / "odd.py").write_text(OPTIMIZATION.format(markup=MARKUP, emulation=EMULATION), encoding="utf-8")
    (folder / "work.py").write_text(WORKLOAD.format(markup=MARKUP), encoding="utf-8")
    spec = {
        "study": "hostile",
        "question": QUESTION,
        "claim": {"speedup": [1.3, 1.35], "source": MARKUP},
        "workloads": ["work.py"],
        "optimizations": {"odd.py": "both", "tensor_lr": "both"},
        "off_means": "guide",
        "design": ["eager", "naive", "full"],
        "blocks": 1,
        "timing": {"epochs": 3, "steps_per_epoch": 4},
        "compile_backend": "eager",
        "equivalence": {"parity": "off"},
        "device": "cpu",
        "tracking": {"uri": "sqlite:///mlflow.db"},
    }
    path = folder / SPEC_NAME
    path.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")  # JSON is YAML
    return path


def squeezed(text: str) -> str:
    """Text without white space, which a page lays out as it needs."""
    return re.sub(r"\s+", "", text)


def as_typed(text: str, page: str) -> bool:
    """Whether every run of letters is on the page; letters that run from right to left in either order."""
    return all(word in page or word[::-1] in page for word in map(squeezed, text.split()))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object]:
    """One study through the real command line to MLflow and PDF; the naive trial fails with a hostile reason."""
    folder = tmp_path_factory.mktemp("hostile")
    spec = write_hostile(folder)
    behavior = json.dumps({"naive": "say"})
    done = call_ablate(folder, "run", spec.name, tracking=True, FAKE_BEHAVIOR=behavior, FAKE_ERROR=REASON,
                       ABLATE_LOCKS=str(folder / "locks"))  # fmt: skip
    assert done.returncode == 2, done.stderr
    return folder, done


def test_the_terminal_shows_what_was_typed_and_nothing_ran(hostile) -> None:
    folder, done = hostile
    assert "failed after " in done.stderr and f"RuntimeError: {REASON}" in done.stderr
    assert f"RuntimeError: {REASON}" in done.stdout
    assert not list(folder.rglob("pwned"))
    printed = re.search(r"every trial in MLflow: (.*)", done.stdout)
    assert printed is not None and shlex.split(printed[1]) == ["ablate", "ui", SPEC_NAME]


def test_the_pdf_shows_what_was_typed(hostile) -> None:
    folder, _ = hostile
    pages = PdfReader(folder / "reports" / "hostile" / "report.pdf").pages
    text = squeezed("".join(page.extract_text() for page in pages))
    for typed in (MARKUP, "= second // line", "äßñ Ω ж", EMULATION, REASON):
        assert squeezed(typed) in text, typed
    assert as_typed(LETTERS, text)


def test_mlflow_holds_what_was_typed(hostile) -> None:
    folder, _ = hostile
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("hostile").experiment_id
    (parent,) = client.search_runs([experiment], "tags.`ablate.kind` = 'study'")
    assert parent.data.tags["ablate.question"] == QUESTION
    note = parent.data.tags["mlflow.note.content"]
    assert re.sub(r"\\(.)", r"\1", note) == QUESTION and "<b>" not in note.replace(r"\<b\>", "")
    failed = next(r for r in client.search_runs([experiment]) if r.data.tags.get("ablate.status") == "failed")
    assert failed.data.tags["ablate.reason"].endswith(f"RuntimeError: {REASON}")
    assert EMULATION in failed.data.params["emulation"]


def test_a_spec_whose_name_is_no_text(tmp_path: Path) -> None:
    spec = tmp_path / os.fsdecode(b"odd\xff.yaml")
    spec.write_text(SPEC, encoding="utf-8")
    done = call_ablate(tmp_path, "run", spec.name)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "reports" / "small" / "report.pdf").exists()


def test_half_a_letter_in_an_error_is_recorded_as_its_escape(tmp_path: Path) -> None:
    _, design, _ = make_run(tmp_path)
    record = replace(make_record(design.trials[0], status="failed"), failure=Failure(reason="no \udcff here"))
    write_record(tmp_path, record)
    assert read_record(tmp_path).failure == Failure(reason="no \\udcff here")


def test_an_error_prints_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("\x1b[2Jgone")
    print_line("\x1b[2Jgone")
    assert "".join(capsys.readouterr()).count(r"\x1b[2Jgone") == 2


def test_bars_on_a_terminal_show_markup_as_it_is(tmp_path: Path) -> None:
    _, design, _ = make_run(tmp_path)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=400, markup=False, highlight=False)
    with RichProgress(console, MARKUP) as bars:
        bars.note(f"tracking: {MARKUP}")
        bars.trial_started(1, 2, design.trials[0], "cold")
        bars.trial_event({"stage": MARKUP, "epoch": 1, "epochs": 2})
        bars.trial_ended(make_record(design.trials[0]))
    assert stream.getvalue().count(MARKUP) >= 2
