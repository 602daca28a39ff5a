"""Results -> a PDF that answers on page one, prints texts as they are, and repeats its bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from ablate.analysis.analyze import analyze
from ablate.analysis.results.study import Results
from ablate.core.errors import StoredDataError
from ablate.core.optimization import Expectation
from ablate.core.study import Claim, ExplicitCell, Study, WorkloadChoice
from ablate.design.cells import make_design
from ablate.figures.render import render
from ablate.files.paths import StudyPaths
from ablate.report.cells import percent, seconds
from ablate.report.document import make_document
from ablate.report.pdf import make_report, printable
from builders import WORKLOADS, make_factors, make_study, make_workloads
from simulated import fail, make_records, write_study_folder

HOSTILE = "#strong[x] $a_b$ *b* @ref [ \\ <l> `raw`\n= new line // c"
ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))
CLAIM = Claim(speedup=(1.30, 1.35), alternative=(1.43, 1.54), source="a guide")


def reported(tmp_path: Path, study: Study, **simulation: Any) -> tuple[StudyPaths, Results]:
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design, **simulation))
    results = analyze(paths)
    render(paths, results)
    make_report(paths, results)
    return paths, results


def num_pages(pdf: bytes) -> int:
    return pdf.count(b"/Type /Page\n") or pdf.count(b"/Type/Page/") or pdf.count(b"/Type/Page")


def document_of(paths: StudyPaths, results: Results) -> dict[str, Any]:
    figures = json.loads((paths.report / "figures" / "figures.json").read_text(encoding="utf-8"))["figures"]
    return make_document(results, figures)


def test_pdf_has_pages_is_tagged_and_repeats_its_bytes(tmp_path: Path) -> None:
    workloads = make_workloads("hm/user-churn", "hm/item-sales")
    study = make_study(blocks=5, claim=CLAIM, workloads=workloads, factors=make_factors(["tensor_lr", "sync_free"]))
    paths, _results = reported(tmp_path, study, effects={"compile": 0.1}, noise=0.01)
    first = paths.pdf.read_bytes()
    assert first.startswith(b"%PDF-")
    assert b"/StructTreeRoot" in first
    assert num_pages(first) >= 4
    make_report(paths)
    assert paths.pdf.read_bytes() == first


def test_page_one_has_the_table_of_the_guide(tmp_path: Path) -> None:
    paths, results = reported(tmp_path, make_study(design="cells", cells=ARMS, claim=CLAIM, blocks=1))
    document = document_of(paths, results)
    table = document["answers"][0]["table"]
    assert table["headers"] == ["mode", "steady epoch", "speed-up vs eager", "horizon, cold", "speed-up vs eager",
                                "AUROC (0..1)"]  # fmt: skip
    assert [row[0]["main"] for row in table["rows"]] == ["eager", "naive", "full"]
    # steady 8 s; naive compiles four times 20 s: 160.4 s against 80.4 s, 0.50x
    naive = table["rows"][1]
    assert (naive[1]["main"], naive[2]["small"]) == ("8 s", "1 block, no interval")
    assert naive[4]["main"].startswith("0.50x")
    assert "One block: there is no interval, and nothing is claimed." in document["answer_note"]
    assert {row[2]["main"] for row in document["claim_table"]["rows"]} == {"pilot"}


def test_hostile_texts_come_out_as_typed(tmp_path: Path) -> None:
    workload = WorkloadChoice(info=replace(WORKLOADS["hm/user-churn"], name=HOSTILE, title=HOSTILE))
    study = make_study(design="cells", cells=ARMS, blocks=1, workloads=(workload,), question=HOSTILE, spec_text=HOSTILE)

    def change(record: Any, planned: Any) -> Any:
        return fail(record, HOSTILE) if planned.cell.name == "naive" else record

    paths, results = reported(tmp_path, study, change=change)
    document = document_of(paths, results)
    assert document["question"] == document["spec_text"] == document["answers"][0]["workload"] == HOSTILE
    assert document["failed"]["rows"][0][4]["main"] == HOSTILE
    text = " ".join(page.extract_text() for page in PdfReader(paths.pdf).pages)
    assert "#strong[x] $a_b$ *b* @ref [ \\ <l> `raw`" in text
    assert "= new line // c" in text


@pytest.mark.parametrize("text", ["\x1b[31mred", "emoji 😀", "\x00\x07", "right\u202eto left", "\ud800"])
def test_letters_that_no_font_has_do_not_stop_the_report(tmp_path: Path, text: str) -> None:
    study = make_study(design="cells", cells=ARMS, blocks=1)
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    results = analyze(paths)
    render(paths, results)
    odd = replace(results, study=replace(results.study, question=text))
    assert make_report(paths, odd).stat().st_size > 10_000


def test_a_letter_that_no_font_has_is_printed_as_its_escape(tmp_path: Path) -> None:
    study = make_study(design="cells", cells=ARMS, blocks=1, question="one 漢 two 😀 three \\u6f22 ж")
    paths, _ = reported(tmp_path, study)
    text = "".join(PdfReader(paths.pdf).pages[0].extract_text().split())
    assert r"one\u6f22two\U0001f600three\u6f22ж" in text
    assert b"pdfuaid" in paths.pdf.read_bytes()  # still accessible


def test_controls_are_escaped_and_other_text_is_kept() -> None:
    assert printable({"a": ["x\x1b[0m\n", 1]}) == {"a": ["x\\x1b[0m\n", 1]}
    assert printable("漢 ± é\tx") == "漢 ± é\tx"


def test_unidentified_numbers_name_the_cells_they_need(tmp_path: Path) -> None:
    factors = make_factors(["dynamic_shapes", "sync_free"])
    study = make_study(design="cells", cells=ARMS, factors=factors, blocks=1)
    paths, results = reported(tmp_path, study)
    section = document_of(paths, results)["workloads"][0]
    assert section["attribution"] is None and section["secondary"] == []
    assert any("without-sync_free" in line or "with-dynamic_shapes" in line for line in section["unidentified"])


def test_emulated_off_levels_are_labeled(tmp_path: Path) -> None:
    study = make_study(design="ladder", blocks=1, factors=make_factors(off_means="guide"))
    paths, results = reported(tmp_path, study)
    document = document_of(paths, results)
    assert "emulation" in document["answer_note"]
    ladder = next(part for part in document["workloads"][0]["secondary"] if part["title"].startswith("ladder"))
    assert "emulation" in ladder["table"]["rows"][0][0]["small"]


def test_a_counter_that_an_optimization_brings_has_its_title(tmp_path: Path) -> None:
    [factor] = make_factors(["tensor_lr"])
    own = Expectation(counter="padded_rows", direction="fewer", sentence="nothing is padded")
    info = replace(factor.info, counters={"padded_rows": "rows of padding"}, expectations=(own,))
    paths, results = reported(tmp_path, make_study(blocks=1, factors=(replace(factor, info=info),)))
    evidence = document_of(paths, results)["workloads"][0]["evidence"]
    assert evidence["rows"][0][2] == {"main": "fewer rows of padding", "small": "nothing is padded", "tone": ""}


def test_vacuous_is_greyed_and_never_colored(tmp_path: Path) -> None:
    study = make_study(blocks=5, factors=make_factors(["tensor_lr", "string_keys"]))
    paths, results = reported(tmp_path, study, effects={"string_keys": 0.2}, noise=0.001)
    rows = document_of(paths, results)["workloads"][0]["attribution"]["rows"]
    row = next(row for row in rows if row[0]["main"] == "string_keys")
    assert {cell["tone"] for cell in row} == {"grey"}


def test_missing_figures_are_named(tmp_path: Path) -> None:
    study = make_study(design="cells", cells=ARMS, blocks=1)
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    results = analyze(paths)
    with pytest.raises(StoredDataError, match=r"figures\.json does not exist"):
        make_report(paths, results)


def test_numbers_as_people_read_them() -> None:
    assert [seconds(x) for x in (0.42, 7.256, 61.0, 125.0, None)] == ["420 ms", "7.26 s", "61 s", "2 min 5 s", "-"]
    assert [percent(x) for x in (0.0, 0.0953101798, -0.1053605157)] == ["0.0\u00a0%", "+10.0\u00a0%", "-10.0\u00a0%"]
