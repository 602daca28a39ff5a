"""Trial records and series <-> files: `records/<slug>/record.json` and `series.parquet`, written atomically."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
FIRST_WITH_DIGEST = 3
_SURROGATE = re.compile("[\ud800-\udfff]")
DAMAGED_TABLE = (pa.ArrowException, OSError, KeyError, UnicodeDecodeError)  # what pyarrow raises, for a lost column too
AGAIN = "delete its folder to run that trial again"


@dataclass(frozen=True)
class Table:
    """A table beside a record: its file and its columns; what is written of other columns is not kept.

    Attributes:
        optional: Columns that a table has or has not.
    """

    name: str
    columns: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def write(self, folder: Path, columns: Mapping[str, Any]) -> None:
        """Write the columns, shape (rows,) each, into the folder of a trial."""
        kept = {name: columns[name] for name in (*self.columns, *(n for n in self.optional if n in columns))}
        with written_durably(folder / self.name) as stream:
            pq.write_table(pa.table(kept), stream, write_page_checksum=True)

    def read(self, folder: Path) -> pd.DataFrame:
        """Read the table of a trial; an empty frame with the right columns when it has none.

        Raises:
            StoredDataError: the file is damaged.
        """
        path = folder / self.name
        if not path.exists():
            return pd.DataFrame({column: pd.Series(dtype=float) for column in self.columns})
        try:
            present = pq.read_schema(path).names
            columns = [*self.columns, *(name for name in self.optional if name in present)]
            return pq.read_table(path, columns=columns, page_checksum_verification=True).to_pandas()
        except DAMAGED_TABLE as error:
            raise StoredDataError(f"{path} cannot be read ({error}); {AGAIN}") from error


# One row a step: `step_s` by the clock of whoever did the work (`times.step_clock`), `host_step_s` by the host's where
# that only gave the step to a device.
SERIES = Table("series.parquet", ("step", "epoch", "loss", "lr", "step_s", "loader_wait_s"), ("host_step_s",))
# One row per run (`arm`; in the eager reference `eager`, `repeat` and `ulp-1`, `ulp-2`, ...), window (its first
# step) and step (of the whole training): `grad_norm` is Euclidean over all parameters, `weights` and `mask` are int64
# checksums of all weights after the step and of its dropout masks (0 where none were seen).
PARITY = Table("parity.parquet", ("run", "window", "step", "loss", "grad_norm", "lr", "weights", "mask"))
# One row a prediction: `run` as above (`timed` for a timed trial), `row` of the validation table, `rank` (0 for one
# number a row; 0..k-1 for a ranking) and `value` (float64: the prediction, or the id ranked there).
PREDICTIONS = Table("predictions.parquet", ("run", "row", "rank", "value"))
write_series, read_series = SERIES.write, SERIES.read
write_parity, read_parity = PARITY.write, PARITY.read
write_predictions, read_predictions = PREDICTIONS.write, PREDICTIONS.read
TABLES = (SERIES.name, PARITY.name, PREDICTIONS.name)


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


def read_columns(folder: Path, *names: str) -> dict[str, Any]:
    """Read some columns of a trial's series as arrays, shape (steps,) each; empty when it has none.

    Raises:
        StoredDataError: the file is damaged.
    """
    path = folder / SERIES.name
    if not path.exists():
        return {name: np.empty(0) for name in names}
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read(columns=list(names))
        return {name: table.column(name).to_numpy() for name in names}
    except DAMAGED_TABLE as error:
        raise StoredDataError(f"{path} cannot be read ({error}); {AGAIN}") from error


def read_study(path: Path) -> Study:
    """Read the resolved study that a run wrote."""
    return read_json(path, Study)


def read_design(path: Path) -> Design:
    """Read the design that a run wrote."""
    return read_json(path, Design)
