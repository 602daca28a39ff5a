"""A scale and a seed -> a folder in RelBench 3 format that looks like rel-hm, written whole or not at all.

from ablate.data.lookalike import make_lookalike
make_lookalike(Path("data/tiny"), "tiny")
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ablate.core.errors import UserError
from ablate.data.lookalike_sales import DaySales, simulate_sales
from ablate.data.lookalike_tables import make_articles, make_customers, num_departments
from ablate.data.lookalike_tasks import (
    SEEDS_OF_SPLIT,
    WeekSales,
    dataset_manifest,
    day_timestamp,
    label_tables,
    task_manifests,
    week_of_day,
)

MARKER = "lookalike.json"
KIND = "ablate rel-hm look-alike"
GENERATOR = 1  # raise whenever the same scale and seed would give other bytes


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a look-alike: rows of the customer and article tables, transactions to aim at."""

    num_customers: int
    num_articles: int
    num_transactions: int


SCALES: Mapping[str, Scale] = {
    "tiny": Scale(num_customers=1_500, num_articles=400, num_transactions=25_000),
    "small": Scale(num_customers=20_000, num_articles=3_000, num_transactions=400_000),
}


@dataclass(frozen=True, kw_only=True)
class Marker:
    """What a look-alike folder says about itself (`lookalike.json`).

    Attributes:
        scale, seed, generator: What the bytes depend on.
        files: SHA-256 by path below the folder.
        rows: Number of rows by table and by task split.
    """

    scale: str
    seed: int
    generator: int
    files: Mapping[str, str]
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 over the sorted paths and contents."""
        lines = "".join(f"{content}  {path}\n" for path, content in sorted(self.files.items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    def to_json(self) -> str:
        """The marker as text, the same for the same content."""
        values = {"kind": KIND, "digest": self.digest, **vars(self)}
        return json.dumps(values, indent=2, sort_keys=True) + "\n"


def make_lookalike(folder: Path, scale: str, seed: int = 0) -> Path:
    """Write a look-alike of rel-hm, or return at once if the folder holds the same one, undamaged.

    The same scale and seed give the same bytes. A folder with another look-alike is replaced.

    Args:
        folder: Where to write; the parent is created.
        scale: A key of `SCALES`.
        seed: Any whole number >= 0.

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
        _stage_and_publish(folder, scale, seed)
    except OSError as error:
        raise UserError(f"The look-alike cannot be written to {folder}: {error}.") from error
    return folder


def read_marker(folder: Path) -> Marker | None:
    """The marker of a look-alike folder, or None where there is none or it is not readable as one."""
    try:
        values = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.get("kind") != KIND:
            return None
        return Marker(**{key: values[key] for key in ("scale", "seed", "generator", "files", "rows")})
    except (OSError, ValueError, KeyError):
        return None


def damaged_files(folder: Path, marker: Marker) -> list[str]:
    """Files that the marker lists and that are missing or have other content, as sorted relative paths."""
    return sorted(path for path, content in marker.files.items() if not _has_content(folder / path, content))


def _check_arguments(scale: str, seed: int) -> None:
    if scale not in SCALES:
        raise UserError(f"There is no look-alike scale {scale!r}; choose one of: {', '.join(SCALES)}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"The seed of a look-alike is a whole number from 0 on, not {seed!r}.")


def _is_current(folder: Path, scale: str, seed: int) -> bool:
    marker = read_marker(folder)
    wanted = (scale, seed, GENERATOR)
    return (
        marker is not None
        and (marker.scale, marker.seed, marker.generator) == wanted
        and not damaged_files(folder, marker)
    )


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


def _stage_and_publish(folder: Path, scale: str, seed: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        _write_dataset(staging / "new", scale, seed)
        _publish(staging / "new", folder, staging / "old", scale, seed)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(content: Path, folder: Path, old: Path, scale: str, seed: int) -> None:
    """Put the finished content in place by renaming; the same look-alike finished first by another process is kept."""
    _refuse_foreign(folder)  # somebody may have written there meanwhile
    if folder.exists():
        folder.rename(old)
    try:
        content.rename(folder)
    except OSError:
        if _is_current(folder, scale, seed):
            return
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise


def _write_dataset(folder: Path, scale: str, seed: int) -> None:
    """Generate everything below `folder`, the marker last."""
    size = SCALES[scale]
    article_rng, customer_rng, sales_rng = (np.random.default_rng([seed, part]) for part in (1, 2, 3))
    articles = make_articles(size.num_articles, article_rng)
    customers = make_customers(size.num_customers, num_departments(size.num_articles), customer_rng)
    days = list(simulate_sales(customers, articles, size.num_transactions, sales_rng))
    tables = {
        "db/article.parquet": articles.table,
        "db/customer.parquet": customers.table,
        "db/transactions.parquet": pa.concat_tables([_transactions(day) for day in days]),
        **_task_tables(days, size.num_articles),
    }
    for path, table in tables.items():
        _write_table(table, folder / path)
    dataset_manifest(scale).save(folder / "manifest.yaml")
    for task in task_manifests():
        task.save(folder / "tasks" / task.name / "manifest.yaml")
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): _sha256(path) for path in written}
    rows = {path.removesuffix(".parquet"): table.num_rows for path, table in tables.items()}
    marker = Marker(scale=scale, seed=seed, generator=GENERATOR, files=files, rows=rows)
    (folder / MARKER).write_text(marker.to_json(), encoding="utf-8")


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


def _weeks(days: list[DaySales]) -> Iterator[WeekSales]:
    last = week_of_day(days[-1].day)
    for week in range(last + 1):
        part = [day for day in days if week_of_day(day.day) == week]
        yield WeekSales(
            week=week,
            customer=np.concatenate([day.customer for day in part]),
            article=np.concatenate([day.article for day in part]),
            price=np.concatenate([day.price for day in part]),
        )


def _task_tables(days: list[DaySales], num_articles: int) -> dict[str, pa.Table]:
    parts: dict[str, list[pa.Table]] = {}
    for seed, tables in label_tables(_weeks(days), num_articles):
        split = next(name for name, seeds in SEEDS_OF_SPLIT.items() if seed in seeds)
        for task, table in tables.items():
            parts.setdefault(f"tasks/{task}/{split}.parquet", []).append(table)
    return {path: pa.concat_tables(tables) for path, tables in parts.items()}


def _write_table(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.combine_chunks(), path, compression="zstd")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_content(path: Path, content: str) -> bool:
    try:
        return _sha256(path) == content
    except OSError:
        return False
