"""Trial records and series <-> files: `records/<slug>/record.json` and `series.parquet`, written atomically."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ablate.core.cell import Design
from ablate.core.errors import StoredDataError
from ablate.core.record import FORMAT, TrialRecord, content_digest
from ablate.core.serialize import from_dict, to_dict
from ablate.core.study import Study
from ablate.files.disk import file_digest, written_durably

T = TypeVar("T")
SERIES_COLUMNS = ("step", "epoch", "loss", "lr", "step_s", "loader_wait_s")
PARITY_COLUMNS = ("run", "window", "step", "loss", "grad_norm", "lr", "weights", "mask")
PREDICTION_COLUMNS = ("run", "row", "rank", "value")
TABLES = ("series.parquet", "parity.parquet", "predictions.parquet")
FIRST_WITH_DIGEST = 3
_SURROGATE = re.compile("[\ud800-\udfff]")
DAMAGED_TABLE = (pa.ArrowException, OSError, KeyError, UnicodeDecodeError)  # what pyarrow raises, for a lost column too


def write_json(path: Path, value: Any) -> None:
    """Write a dataclass or plain value as JSON so that a reader sees the old file or the new one, never half.

    Half of a letter (a byte of a file name that is not UTF-8) is written, and read back, as its escape: `\\udcff`.
    """
    text = json.dumps(to_dict(value), indent=1, ensure_ascii=False, allow_nan=True)
    text = _SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)
    with written_durably(path) as stream:
        stream.write(f"{text}\n".encode())


def read_json(path: Path, cls: type[T]) -> T:
    """Read a dataclass back.

    Raises:
        StoredDataError: the file is not JSON or does not have the fields of `cls`.
    """
    return _read_content(path, cls)[1]


def _read_content(path: Path, cls: type[T]) -> tuple[dict[str, Any], T]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content, from_dict(cls, content)
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # of JSON, of UTF-8, of numbers too long
        raise StoredDataError(f"{path} cannot be read ({error}); move it away to start that part anew") from error


def write_series(folder: Path, series: Mapping[str, Any]) -> None:
    """Write the per-step series of a trial (`SERIES_COLUMNS`, one row per step) to `series.parquet`."""
    _write_table(folder, "series.parquet", {name: series[name] for name in SERIES_COLUMNS})


def write_parity(folder: Path, series: Mapping[str, Any]) -> None:
    """Write the series of a parity trial (`PARITY_COLUMNS`, one row per run, window and step) to `parity.parquet`.

    Columns: `run` (`arm`; in the eager reference `eager`, `repeat` and `ulp-1`, `ulp-2`, ...), `window` (its first
    step), `step` (of the whole training), `loss`, `grad_norm` (Euclidean norm over all parameters), `lr`, `weights`
    (int64 checksum of the bytes of all weights after the step), `mask` (int64 checksum of the dropout masks of the
    step, 0 where none were seen).
    """
    _write_table(folder, "parity.parquet", {name: series[name] for name in PARITY_COLUMNS})


def write_predictions(folder: Path, series: Mapping[str, Any]) -> None:
    """Write validation predictions (`PREDICTION_COLUMNS`) to `predictions.parquet`.

    One row per prediction: `run` as in `write_parity` (`timed` for a timed trial), `row` of the validation table,
    `rank` (0 for one number a row; 0..k-1 for a ranking) and `value` (float64: the prediction, or the id ranked there).
    """
    _write_table(folder, "predictions.parquet", {name: series[name] for name in PREDICTION_COLUMNS})


def read_parity(folder: Path) -> pd.DataFrame:
    """Read the series of a parity trial; an empty frame with the right columns when it has none.

    Raises:
        StoredDataError: the file is damaged.
    """
    return _read_table(folder, "parity.parquet", PARITY_COLUMNS)


def read_predictions(folder: Path) -> pd.DataFrame:
    """Read the validation predictions of a trial; an empty frame with the right columns when it has none.

    Raises:
        StoredDataError: the file is damaged.
    """
    return _read_table(folder, "predictions.parquet", PREDICTION_COLUMNS)


def write_record(folder: Path, record: TrialRecord) -> None:
    """Write `record.json`; call it last, since its presence means that the trial has ended."""
    files = {name: file_digest(folder / name) for name in TABLES if (folder / name).exists()}
    write_json(folder / "record.json", record.seal(files))


def read_record(folder: Path) -> TrialRecord:
    """Read one trial record.

    Raises:
        StoredDataError: unreadable, written by a newer ablate, changed since it was written, or without its tables.
    """
    record, altered = inspect_record(folder)
    if altered:
        raise StoredDataError(f"{altered}; delete its folder to run that trial again")
    return record


def inspect_record(folder: Path, *, tables: bool = False) -> tuple[TrialRecord, str]:
    """Read one trial record, and say what of it is not as the trial left it (empty: nothing; old records do not tell).

    Args:
        folder: The record's folder.
        tables: Look into the tables too, not only whether they are there.

    Raises:
        StoredDataError: unreadable, or written by a newer ablate.
    """
    path = folder / "record.json"
    content, record = _read_content(path, TrialRecord)
    if record.format > FORMAT:
        raise StoredDataError(f"{path} has format {record.format}, this ablate reads up to {FORMAT}: upgrade ablate")
    if record.format < FIRST_WITH_DIGEST:
        return record, ""
    if record.digest != content_digest(content):
        return record, f"{path} was changed after the trial had ended"
    for table in (folder / name for name in TABLES):
        if table.exists() != (table.name in record.files):
            return record, f"{table} {'came after the trial had ended' if table.exists() else 'is missing'}"
        if tables and table.exists() and file_digest(table) != record.files[table.name]:
            return record, f"{table} was changed after the trial had ended"
    return record, ""


def read_records(folder: Path) -> Iterator[tuple[Path, TrialRecord]]:
    """Yield (folder, record) of every ended trial under `folder`, in name order."""
    for path in sorted(folder.glob("*/record.json")):
        yield path.parent, read_record(path.parent)


def read_series(folder: Path) -> pd.DataFrame:
    """Read the per-step series of a trial; empty frame with the right columns when it has none."""
    return _read_table(folder, "series.parquet", SERIES_COLUMNS)


def read_columns(folder: Path, *names: str) -> dict[str, Any]:
    """Read some columns of a trial's series as arrays, shape (steps,) each; empty when it has none.

    Raises:
        StoredDataError: the file is damaged.
    """
    path = folder / "series.parquet"
    if not path.exists():
        return {name: np.empty(0) for name in names}
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read(columns=list(names))
        return {name: table.column(name).to_numpy() for name in names}
    except DAMAGED_TABLE as error:
        raise StoredDataError(f"{path} cannot be read ({error}); delete its folder to run that trial again") from error


def read_study(path: Path) -> Study:
    """Read the resolved study that a run wrote."""
    return read_json(path, Study)


def read_design(path: Path) -> Design:
    """Read the design that a run wrote."""
    return read_json(path, Design)


def _write_table(folder: Path, name: str, columns: Mapping[str, Any]) -> None:
    with written_durably(folder / name) as stream:
        pq.write_table(pa.table(dict(columns)), stream, write_page_checksum=True)


def _read_table(folder: Path, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    path = folder / name
    if not path.exists():
        return pd.DataFrame({column: pd.Series(dtype=float) for column in columns})
    try:
        return pq.read_table(path, columns=list(columns), page_checksum_verification=True).to_pandas()
    except DAMAGED_TABLE as error:
        raise StoredDataError(f"{path} cannot be read ({error}); delete its folder to run that trial again") from error
