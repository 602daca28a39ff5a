"""A folder in rel-hm's format -> its manifests, tables and labels in memory, as stored, for the checks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from relbench.manifest import DatasetManifest, TaskManifest

TABLES = ("customer", "article", "transactions")
TASKS = ("user-churn", "item-sales", "user-item-purchase")
SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True)
class LoadedDataset:
    """Everything that the checks read."""

    folder: Path
    manifest: DatasetManifest  # keys, time columns and split stamps
    tables: Mapping[str, pd.DataFrame]  # as stored, by table name
    tasks: Mapping[str, TaskManifest]  # by name
    labels: Mapping[tuple[str, str], pd.DataFrame]  # as stored, by (task, split)

    @property
    def test_timestamp(self) -> pd.Timestamp:
        return pd.Timestamp(self.manifest.test_timestamp)

    def time_columns(self) -> Iterator[tuple[str, pd.Series]]:
        """Every declared time column, of tables and labels, as (where, values)."""
        for name, spec in self.manifest.tables.items():
            if spec.time_col is not None:
                yield f"{name}.{spec.time_col}", self.tables[name][spec.time_col]
        for (task, split), frame in self.labels.items():
            time_col = str(self.tasks[task].time_col)
            yield f"{task}/{split}.{time_col}", frame[time_col]


def read_dataset(folder: Path) -> LoadedDataset:
    """Read every table and label file of rel-hm's format.

    Raises:
        OSError, ValueError, KeyError, TypeError, yaml.YAMLError: a file is absent, damaged or not of this format.
    """
    manifest = DatasetManifest.load(folder / "manifest.yaml")
    missing = [name for name in TABLES if name not in manifest.tables]
    if missing:
        raise ValueError(f"manifest.yaml declares no table {missing[0]}")
    tasks = {name: TaskManifest.load(folder / "tasks" / name / "manifest.yaml") for name in TASKS}
    for task in tasks.values():
        task.validate()
    return LoadedDataset(
        folder=folder,
        manifest=manifest,
        tables={name: pd.read_parquet(folder / "db" / f"{name}.parquet") for name in TABLES},
        tasks=tasks,
        labels={
            (name, split): pd.read_parquet(folder / "tasks" / name / f"{split}.parquet")
            for name in TASKS
            for split in SPLITS
        },
    )


def declared_columns(data: LoadedDataset) -> Iterator[tuple[str, pd.DataFrame, tuple[str | None, ...]]]:
    """Every table and label table with the columns that its manifest declares."""
    for name, frame in data.tables.items():
        spec = data.manifest.tables[name]
        yield name, frame, (spec.pkey, spec.time_col, *spec.fkeys)
    for (task, split), frame in data.labels.items():
        m = data.tasks[task]
        yield (f"{task}/{split}", frame, (m.time_col, m.entity_col, m.src_entity_col, m.dst_entity_col, m.target_col))


def foreign_keys(data: LoadedDataset) -> Iterator[tuple[str, pd.Series, str]]:
    """Every column of row numbers, of tables and labels, as (where, values, table that they point into)."""
    for name, spec in data.manifest.tables.items():
        for column, target in spec.fkeys.items():
            yield f"{name}.{column}", data.tables[name][column], target
    for (task, split), frame in data.labels.items():
        manifest = data.tasks[task]
        source = str(manifest.entity_col or manifest.src_entity_col)
        target = str(manifest.entity_table or manifest.src_entity_table)
        yield f"{task}/{split}.{source}", frame[source], target
        if manifest.dst_entity_col and len(frame):
            lists = frame[manifest.dst_entity_col].explode().astype("int64")
            yield f"{task}/{split}.{manifest.dst_entity_col}", lists, str(manifest.dst_entity_table)


def transaction_times(data: LoadedDataset) -> pd.Series:
    """Times of the transactions in nanoseconds, whatever unit they are stored in."""
    return data.tables["transactions"]["t_dat"].astype("datetime64[ns]")


def expected_seeds(data: LoadedDataset, timedelta: pd.Timedelta) -> dict[str, pd.DatetimeIndex]:
    """Seed times by split: train goes back from the val stamp by `timedelta` while there are rows."""
    val, first = pd.Timestamp(data.manifest.val_timestamp), transaction_times(data).min()
    num_train = max(0, (val - first) // timedelta)
    return {
        "train": pd.DatetimeIndex([val - k * timedelta for k in range(num_train, 0, -1)]).as_unit("ns"),
        "val": pd.DatetimeIndex([val]).as_unit("ns"),
        "test": pd.DatetimeIndex([data.test_timestamp]).as_unit("ns"),
    }
