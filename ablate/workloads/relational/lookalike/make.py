"""A scale and a seed -> a folder in RelBench 3 format that looks like rel-hm, written whole or not at all.

from ablate.workloads.relational.lookalike.make import make_lookalike
make_lookalike(Path("data/tiny"), "tiny")
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from ablate.core.errors import UserError
from ablate.files.locks import folder_lock
from ablate.workloads.relational.lookalike.marker import (
    GENERATOR,
    MARKER,
    Marker,
    damaged_files,
    file_sha256,
    is_marked,
    read_marker,
)
from ablate.workloads.relational.lookalike.row_groups import ROWS_PER_GROUP, RowGroups
from ablate.workloads.relational.lookalike.sales import Baskets, DaySales, simulate_sales
from ablate.workloads.relational.lookalike.tables import NUM_DAYS, make_articles, make_customers, num_departments
from ablate.workloads.relational.lookalike.tasks import (
    SEEDS_OF_SPLIT,
    TASKS,
    dataset_manifest,
    day_timestamp,
    label_tables,
    week_of_day,
)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a look-alike."""

    num_customers: int  # rows of the table
    num_articles: int  # rows of the table
    num_transactions: int  # to aim at, over all days
    baskets: Baskets = Baskets()  # noqa: RUF009 -- frozen
    rows_per_group: int = ROWS_PER_GROUP  # rows kept in memory before they are written


SCALES: Mapping[str, Scale] = {
    "tiny": Scale(num_customers=1_500, num_articles=400, num_transactions=25_000),
    "small": Scale(num_customers=20_000, num_articles=3_000, num_transactions=400_000),
    # rel-hm's own row counts: 15,187,287 transactions up to the test stamp and a week more, and as many customers a
    # week as its label tables have, which takes somewhat smaller baskets.
    "real": Scale(
        num_customers=1_371_980,
        num_articles=105_542,
        num_transactions=15_471_500,
        baskets=Baskets(log_lines=0.552, rows_per_visit=3.0336),
    ),
}
OnWeek = Callable[[int, int], None]


def make_lookalike(
    folder: Path,
    scale: str,
    seed: int = 0,
    on_week: OnWeek = lambda week, weeks: None,
    on_wait: Callable[[], None] = lambda: None,
) -> Path:
    """Write a look-alike of rel-hm, or return at once if the folder holds the same one, undamaged.

    The same scale and seed give the same bytes. A folder with another look-alike is replaced. Of several processes that
    are to write the same one, one does.

    Args:
        folder: Where to write; the parent is created.
        scale: A key of `SCALES`.
        seed: Any whole number >= 0.
        on_week: Called with (weeks of sales written, weeks in all) while it works; never when nothing is to be done.
        on_wait: Called before waiting for another process that writes to the folder.

    Returns:
        The folder, absolute.

    Raises:
        UserError: the scale or seed is not valid, the folder holds anything but a look-alike, or it cannot be written.
    """
    folder = Path(os.path.abspath(Path(folder).expanduser()))
    _check_arguments(scale, seed)
    if _is_current(folder, scale, seed):
        return folder
    _refuse_foreign(folder)
    try:
        with folder_lock(folder, on_wait):
            if not _is_current(folder, scale, seed):
                _stage_and_publish(folder, scale, seed, on_week)
    except OSError as error:
        raise UserError(f"The look-alike cannot be written to {folder}: {error}.") from error
    return folder


def _check_arguments(scale: str, seed: int) -> None:
    if scale not in SCALES:
        raise UserError(f"There is no look-alike scale {scale!r}; choose one of: {', '.join(SCALES)}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"The seed of a look-alike is a whole number from 0 on, not {seed!r}.")


def _is_current(folder: Path, scale: str, seed: int) -> bool:
    marker = read_marker(folder)
    return marker is not None and is_marked(marker, scale, seed) and not damaged_files(folder, marker)


def _refuse_foreign(folder: Path) -> None:
    """Raise unless the folder is absent, empty, or a look-alike without files that somebody else put there."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; choose another place for the look-alike.")
    inside = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    found = {path.relative_to(folder).as_posix() for path in inside}
    if not found:
        return
    marker = read_marker(folder)
    if marker is None:
        raise UserError(
            f"{folder} holds files that are not a look-alike (no readable {MARKER}) and is left as it is; "
            "choose an empty folder."
        )
    strangers = sorted(found - set(marker.files) - {MARKER})
    if strangers:
        raise UserError(
            f"{folder} holds a look-alike and {strangers[0]}, which is not part of it; "
            "move that file away or choose another folder."
        )


def _stage_and_publish(folder: Path, scale: str, seed: int, on_week: OnWeek) -> None:
    """Write beside the folder and rename the finished content; if that fails, what was there is put back."""
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    new, old = staging / "new", staging / "old"
    try:
        _write_dataset(new, scale, seed, on_week)
        _refuse_foreign(folder)  # somebody may have written there meanwhile
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write_dataset(folder: Path, scale: str, seed: int, on_week: OnWeek) -> None:
    """Generate everything below `folder`, the marker last."""
    with RowGroups(folder, SCALES[scale].rows_per_group) as files:
        _write_tables(files, SCALES[scale], seed, on_week)
    dataset_manifest(scale).save(folder / "manifest.yaml")
    for task in TASKS:
        manifest = resources.files(__package__) / "manifests" / f"{task}.yaml"
        (folder / "tasks" / task / "manifest.yaml").write_bytes(manifest.read_bytes())
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {path.relative_to(folder).as_posix(): file_sha256(path) for path in written}
    rows = {path.removesuffix(".parquet"): count for path, count in files.rows.items()}
    marker = Marker(scale=scale, seed=seed, generator=GENERATOR, files=digests, rows=rows)
    (folder / MARKER).write_text(marker.to_json(), encoding="utf-8")


def _write_tables(files: RowGroups, size: Scale, seed: int, on_week: OnWeek) -> None:
    """Write tables and labels as the weeks of sales are simulated: two weeks and a row group per file are kept."""
    article_rng, customer_rng, sales_rng = (np.random.default_rng([seed, part]) for part in (1, 2, 3))
    articles = make_articles(size.num_articles, article_rng)
    customers = make_customers(size.num_customers, num_departments(size.num_articles), customer_rng)
    files.append("db/article.parquet", articles.table)
    files.append("db/customer.parquet", customers.table)
    days = simulate_sales(customers, articles, size.num_transactions, sales_rng, size.baskets)
    for seed_number, tables in label_tables(_write_weeks(files, days, on_week), size.num_articles):
        split = next(name for name, seeds in SEEDS_OF_SPLIT.items() if seed_number in seeds)
        for task, table in tables.items():
            files.append(f"tasks/{task}/{split}.parquet", table)


def _write_weeks(files: RowGroups, days: Iterable[DaySales], on_week: OnWeek) -> Iterator[pa.Table]:
    """Write the transactions of each week and pass the week on."""
    num_weeks = week_of_day(NUM_DAYS - 1) + 1
    for week, group in groupby(days, key=lambda day: week_of_day(day.day)):
        table = pa.concat_tables([_transactions(day) for day in group])
        files.append("db/transactions.parquet", table)
        on_week(week + 1, num_weeks)
        yield table


def _transactions(day: DaySales) -> pa.Table:
    return pa.table(
        {
            "t_dat": np.full(len(day.customer), day_timestamp(day.day)),
            "customer_id": day.customer,
            "article_id": day.article,
            "price": day.price,
            "sales_channel_id": day.channel,
        }
    )
