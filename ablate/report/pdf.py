"""Results and figures of a study -> `report.pdf`, a tagged PDF whose bytes depend on nothing but them."""

import json
import os
import re
import shutil
import tempfile
import unicodedata
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import typst

from ablate.analysis.analyze import read_results
from ablate.analysis.results.study import Results
from ablate.core.errors import AblateError, StoredDataError
from ablate.files.paths import StudyPaths
from ablate.report.document import make_document

MOST_LAYOUTS = 3
BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def make_report(paths: StudyPaths, results: Results | None = None) -> Path:
    """Lay out the report.

    Args:
        paths: `figures/figures.json` and the SVGs beside it must have been rendered.
        results: What to print; read from `results.json` when absent.

    Returns:
        The PDF.

    Raises:
        StoredDataError: results or figures are missing or cannot be read.
    """
    results = read_results(paths) if results is None else results
    figures = _read_figures(paths)
    document = make_document(results, figures)
    with tempfile.TemporaryDirectory(prefix="ablate-report-") as name:
        folder = Path(name)
        (folder / "figures").mkdir()
        for figure in figures:
            shutil.copyfile(paths.report / figure["file"], folder / figure["file"])
        (folder / "data.json").write_text(json.dumps(printable(document), ensure_ascii=False), encoding="utf-8")
        template = folder / "template.typ"
        template.write_bytes(files("ablate.report").joinpath("template.typ").read_bytes())
        content = _compile(template)
    paths.pdf.parent.mkdir(parents=True, exist_ok=True)
    partial = paths.pdf.with_name(f".{paths.pdf.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, paths.pdf)
    return paths.pdf


def _read_figures(paths: StudyPaths) -> list[dict[str, str]]:
    index = paths.report / "figures" / "figures.json"
    try:
        figures: list[dict[str, str]] = json.loads(index.read_text(encoding="utf-8"))["figures"]
    except FileNotFoundError as error:
        raise StoredDataError(f"{index} does not exist; run `ablate report` to draw the figures") from error
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise StoredDataError(f"{index} cannot be read ({error}); run `ablate report` to draw it anew") from error
    return figures


def printable(value: Any) -> Any:
    """Replace characters that no font has and that could rearrange a line (controls) by their escapes, `\\x1b`."""
    if isinstance(value, str):
        return "".join(map(_escape, value))
    if isinstance(value, dict):
        return {key: printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [printable(item) for item in value]
    return value


def _escape(letter: str) -> str:
    if letter in "\n\t":
        return letter
    hidden = unicodedata.category(letter) in ("Cc", "Cs", "Cn") or letter in BIDI_CONTROLS
    return letter.encode("unicode_escape").decode("ascii") if hidden else letter


def _compile(template: Path) -> bytes:
    """Run typst on the template; its data lie beside it as JSON and are printed, never evaluated.

    PDF/UA-1 refuses letters that no bundled font has (an emoji in a name) and lists them: they become their escapes.
    Where it still refuses, the same pages are made without that standard.
    """
    data = template.with_name("data.json")
    for _ in range(MOST_LAYOUTS):
        try:
            return _typst(template, "ua-1")
        except typst.TypstError as error:
            text = data.read_text(encoding="utf-8")
            hidden = {letter for letter in _undisplayable(error) if letter in text}
            if not hidden:
                break
            data.write_text(text.translate({ord(x): _escaped_in_json(x) for x in hidden}), encoding="utf-8")
    try:
        return _typst(template, None)
    except typst.TypstError as error:
        raise AblateError(f"the report cannot be laid out: {error}") from error


def _undisplayable(error: typst.TypstError) -> set[str]:
    """The letters, ASCII apart, that typst could not display."""
    texts = re.findall(r'the text `"(.+?)"` could not be displayed', str(error.diagnostic))
    return {letter for text in texts for letter in text if not letter.isascii()}


def _escaped_in_json(letter: str) -> str:
    """The escape of a letter (`\\u6f22`), as it is written inside a JSON text."""
    return json.dumps(letter.encode("unicode_escape").decode("ascii"))[1:-1]


def _typst(template: Path, standard: Literal["ua-1"] | None) -> bytes:
    return typst.compile(
        template, None, root=template.parent, ignore_system_fonts=True, format="pdf", pdf_standards=standard
    )
