"""Options -> RelBench dataset on disk, its digest, and tables whose times are certain to be right."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ablate.core.errors import UserError
from ablate.workloads.relational.data.graph_cache import is_known_lookalike, lookalike_folder, lookalike_scale
from ablate.workloads.relational.options import RelationalOptions, check_folder

HUB_PREFIX = "stanford-star/relbench-v1"
SAY_EVERY_S = 15.0
OLDEST, NEWEST = pd.Timestamp("2000-01-01"), pd.Timestamp("2035-01-01")


def open_dataset(source: RelationalOptions, announce: Callable[[str], None] = lambda _: None) -> Any:
    """Open the RelBench dataset of a study, making the look-alike first when it is asked for and absent.

    A look-alike whose files have the size and time of change that they had when their digest was taken is not digested
    again.

    Args:
        source: Where the tables come from.
        announce: Called with a sentence before and during slow work.

    Returns:
        `relbench.load.RelBenchDataset`.

    Raises:
        UserError: the folder is not a RelBench dataset, or the hub does not have or serve the name.
    """
    import relbench

    if source.dataset is None:
        raise UserError("the workload has no data: give the spec `data: {dataset: ...}`")
    if source.dataset == "look-alike":
        _provide_lookalike(source, announce)
        return relbench.load_dataset(lookalike_folder(source))
    if Path(source.dataset).is_absolute():
        check_folder(Path(source.dataset))
        return relbench.load_dataset(Path(source.dataset))
    name = source.dataset if "/" in source.dataset else f"{HUB_PREFIX}/{source.dataset}"
    try:
        return relbench.load_dataset(name, revision=source.revision)
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot load the hub dataset {name} (revision {source.revision or 'newest'}): {error}; "
            "download it once with network access, or give a folder in RelBench format in `data: {dataset: ...}`"
        ) from error


def _provide_lookalike(source: RelationalOptions, announce: Callable[[str], None]) -> None:
    if is_known_lookalike(source):
        return
    from ablate.workloads.relational.lookalike.make import make_lookalike

    said_at, scale = time.monotonic(), lookalike_scale(source)

    def on_week(week: int, weeks: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= SAY_EVERY_S:
            said_at = time.monotonic()
            announce(f"look-alike {scale}: {week} of {weeks} weeks of sales")

    waiting = f"waiting for another process that makes the look-alike {scale}"
    make_lookalike(lookalike_folder(source), scale, source.data_seed, on_week, lambda: announce(waiting))


def coerce_times(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the frame with every datetime column in nanoseconds, refusing times that cannot be right.

    relbench turns times into seconds by dividing integers by 1e9, which is silently wrong by a factor of a thousand
    for the microseconds that pandas 3 reads by default.

    Raises:
        UserError: a datetime column reaches outside the years 2000 to 2035.
    """
    changed = {}
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_datetime64_any_dtype(column.dtype):
            continue
        nanoseconds = column.astype("datetime64[ns]")
        low, high = nanoseconds.min(), nanoseconds.max()
        if pd.notna(low) and not (low >= OLDEST and high <= NEWEST):
            raise UserError(
                f"{where}.{name} reaches from {low} to {high}: a wrong time unit? expected times between 2000 and 2035"
            )
        changed[name] = nanoseconds
    return frame.assign(**changed) if changed else frame


def load_database(dataset: Any) -> Any:
    """Load the tables up to the test time stamp, times coerced to nanoseconds.

    Returns:
        `relbench.base.Database`.
    """
    database = dataset.get_db(upto_test_timestamp=True)
    for name, table in database.table_dict.items():
        table.df = coerce_times(table.df, name)
    return database


def to_unix_seconds(times: pd.Series, where: str) -> np.ndarray:
    """Turn times into int64 seconds since 1970, shape (rows,).

    Raises:
        UserError: integers that are not seconds (microseconds or nanoseconds), or times outside 2000 to 2035.
    """
    if pd.api.types.is_datetime64_any_dtype(times.dtype):
        seconds = coerce_times(times.to_frame("time"), where)["time"].astype("int64").to_numpy() // 1_000_000_000
    else:
        seconds = times.astype("int64").to_numpy()
    if len(seconds) and not (OLDEST.timestamp() <= seconds.min() and seconds.max() <= NEWEST.timestamp()):
        raise UserError(
            f"{where}: times from {seconds.min()} to {seconds.max()} are not seconds between the years 2000 and 2035; "
            "a wrong time unit?"
        )
    return np.ascontiguousarray(seconds, dtype=np.int64)
