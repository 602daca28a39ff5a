"""Trial records and series <-> files: `records/<slug>/record.json` and `series.parquet`, written atomically."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ablate.core.cell import Design
from ablate.core.errors import StoredDataError
from ablate.core.record import FORMAT, TrialRecord
from ablate.core.serialize import from_dict, to_dict
from ablate.core.study import Study

T = TypeVar("T")
SERIES_COLUMNS = ("step", "epoch", "loss", "lr", "step_s", "loader_wait_s")


def write_json(path: Path, value: Any) -> None:
    """Write a dataclass or plain value as JSON so that a reader sees the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(to_dict(value), indent=1, ensure_ascii=False, allow_nan=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path, cls: type[T]) -> T:
    """Read a dataclass back.

    Raises:
        StoredDataError: the file is not JSON or does not have the fields of `cls`.
    """
    try:
        return from_dict(cls, json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError, AttributeError) as error:
        raise StoredDataError(f"{path} cannot be read ({error}); move it away to start that part anew") from error


def write_series(folder: Path, series: Mapping[str, Any]) -> None:
    """Write the per-step series of a trial (`SERIES_COLUMNS`, one row per step) to `series.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / ".series.parquet.partial"
    pq.write_table(pa.table({name: series[name] for name in SERIES_COLUMNS}), partial)
    os.replace(partial, folder / "series.parquet")


def write_record(folder: Path, record: TrialRecord) -> None:
    """Write `record.json`; call it last, since its presence means that the trial has ended."""
    write_json(folder / "record.json", record)


def read_record(folder: Path) -> TrialRecord:
    """Read one trial record.

    Raises:
        StoredDataError: unreadable, or written by a newer ablate.
    """
    path = folder / "record.json"
    record = read_json(path, TrialRecord)
    if record.format > FORMAT:
        raise StoredDataError(f"{path} has format {record.format}, this ablate reads up to {FORMAT}: upgrade ablate")
    return record


def read_records(folder: Path) -> Iterator[tuple[Path, TrialRecord]]:
    """Yield (folder, record) of every ended trial under `folder`, in name order."""
    for path in sorted(folder.glob("*/record.json")):
        yield path.parent, read_record(path.parent)


def read_series(folder: Path) -> pd.DataFrame:
    """Read the per-step series of a trial; empty frame with the right columns when it has none."""
    path = folder / "series.parquet"
    if not path.exists():
        return pd.DataFrame({name: pd.Series(dtype=float) for name in SERIES_COLUMNS})
    try:
        return pq.read_table(path).to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise StoredDataError(f"{path} cannot be read ({error}); delete its folder to run that trial again") from error


def read_columns(folder: Path, *names: str) -> dict[str, Any]:
    """Read some columns of a trial's series as arrays, shape (steps,) each; empty when it has none.

    Raises:
        StoredDataError: the file is damaged.
    """
    path = folder / "series.parquet"
    if not path.exists():
        return {name: np.empty(0) for name in names}
    try:
        table = pq.ParquetFile(path).read(columns=list(names))
    except (pa.ArrowInvalid, OSError) as error:
        raise StoredDataError(f"{path} cannot be read ({error}); delete its folder to run that trial again") from error
    return {name: table.column(name).to_numpy() for name in names}


def read_study(path: Path) -> Study:
    """Read the resolved study that a run wrote."""
    return read_json(path, Study)


def read_design(path: Path) -> Design:
    """Read the design that a run wrote."""
    return read_json(path, Design)
