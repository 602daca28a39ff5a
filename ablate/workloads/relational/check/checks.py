"""A dataset in rel-hm's format (folder or hub name) -> named checks, each passed or failed, with numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import relbench
import yaml

from ablate.core.errors import UserError
from ablate.workloads.relational.check.labels import label_problem
from ablate.workloads.relational.check.read_input import (
    SPLITS,
    TASKS,
    LoadedDataset,
    declared_columns,
    expected_seeds,
    foreign_keys,
    read_dataset,
    transaction_times,
)
from ablate.workloads.relational.data.source import NEWEST, OLDEST
from ablate.workloads.relational.lookalike.marker import damaged_files, read_marker

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """Outcome of one check: `detail` has the numbers, and on failure the first thing that is wrong."""

    name: str
    passed: bool
    detail: str


Check = Callable[[LoadedDataset], tuple[list[str], str]]  # -> problems, and the detail where there is none


def check_dataset(folder_or_name: Path | str) -> list[CheckResult]:
    """Check that a dataset is a sound rel-hm: keys, times, weeks, seeds and labels.

    Reads every table and label file once; labels are recomputed at up to two random seed times per split.

    Args:
        folder_or_name: A folder in RelBench 3 format, or a name that `relbench.load_dataset` knows.

    Returns:
        One result per check; only `files` where the files cannot be read.

    Raises:
        UserError: there is no such folder or name.
    """
    loaded = _load(folder_or_name)
    if isinstance(loaded, CheckResult):
        return [loaded]
    files = _check_files(loaded)
    if not files.passed:
        return [files]
    return [files, *(_run(name, check, loaded) for name, check in _CHECKS.items())]


def _run(name: str, check: Check, data: LoadedDataset) -> CheckResult:
    try:
        problems, detail = check(data)
    except (KeyError, ValueError, TypeError) as error:  # values so wrong that the check cannot be worked out
        problems, detail = [f"cannot be worked out: {type(error).__name__}: {error}"], ""
    return _result(name, problems, detail)


def _load(folder_or_name: Path | str) -> LoadedDataset | CheckResult:
    try:
        folder = relbench.load_dataset(folder_or_name).dataset_dir
    except (KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        return CheckResult(name="files", passed=False, detail=f"manifest.yaml is not readable: {error!r}")
    except (OSError, ValueError) as error:
        raise UserError(f"There is no dataset {str(folder_or_name)!r}: {error}") from error
    try:
        return read_dataset(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        return CheckResult(name="files", passed=False, detail=f"{type(error).__name__}: {error}")


def _result(name: str, problems: list[str], detail: str) -> CheckResult:
    """Passed without problems; else the detail is the first problem and how many more there are."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return CheckResult(name=name, passed=not problems, detail=problems[0] + more if problems else detail)


def _check_files(data: LoadedDataset) -> CheckResult:
    problems = [f"{where} is empty" for where, frame, _ in declared_columns(data) if frame.empty]
    problems += [
        f"{where} has no column {column}"
        for where, frame, columns in declared_columns(data)
        for column in columns
        if column and column not in frame
    ]
    rows = ", ".join(f"{name} {len(frame):,}" for name, frame in data.tables.items())
    return _result("files", problems, f"rows: {rows}")


def _check_digest(data: LoadedDataset) -> tuple[list[str], str]:
    marker = read_marker(data.folder)
    if marker is None:
        return [], "not a look-alike: nothing to compare with"
    problems = [f"{path} is missing or changed" for path in damaged_files(data.folder, marker)]
    return problems, f"look-alike {marker.scale}, seed {marker.seed}, {marker.digest[:12]}"


def _check_primary_keys(data: LoadedDataset) -> tuple[list[str], str]:
    keys = {name: spec.pkey for name, spec in data.manifest.tables.items() if spec.pkey}
    problems = [
        f"{name}.{key} is not 0..{len(data.tables[name]) - 1:,} in row order"
        for name, key in keys.items()
        if not np.array_equal(data.tables[name][key].to_numpy(), np.arange(len(data.tables[name])))
    ]
    return problems, "0..n-1 in row order: " + ", ".join(keys)


def _check_foreign_keys(data: LoadedDataset) -> tuple[list[str], str]:
    problems: list[str] = []
    num_keys = 0
    for where, values, target in foreign_keys(data):
        known = values.dropna().to_numpy()
        outside = int(((known < 0) | (known >= len(data.tables[target]))).sum())
        num_keys += len(known)
        if outside:
            problems.append(f"{where}: {outside:,} of {len(known):,} values are no row of {target}")
    return problems, f"{num_keys:,} values, all in range"


def _check_datetime_unit(data: LoadedDataset) -> tuple[list[str], str]:
    columns = dict(data.time_columns())
    problems = [
        f"{where} is {values.dtype}, not datetime64[ns]: RelBench would read it as another time"
        for where, values in columns.items()
        if str(values.dtype) != "datetime64[ns]"
    ]
    return problems, f"{len(columns)} columns are datetime64[ns]"


def _check_datetime_range(data: LoadedDataset) -> tuple[list[str], str]:
    problems: list[str] = []
    for where, values in data.time_columns():
        times = pd.to_datetime(values)
        if times.isna().any():
            problems.append(f"{where}: {int(times.isna().sum()):,} times are null")
        elif not times.between(OLDEST, NEWEST).all():
            span = f"{times.min()} to {times.max()}"
            problems.append(f"{where}: {span} is outside {OLDEST.year}..{NEWEST.year}")
    times = transaction_times(data)
    span = f"{times.min():%Y-%m-%d} to {times.max():%Y-%m-%d}"
    return problems, f"transactions {span}"


def _check_weeks(data: LoadedDataset) -> tuple[list[str], str]:
    """Every week (seed - 7 d, seed] from the first transaction to the end of the test window has some."""
    week = -((data.test_timestamp - transaction_times(data)) // pd.Timedelta(days=7))
    counts = week.value_counts()
    expected = np.arange(int(week.min()), max(1, int(week.max())) + 1)
    ends = [data.test_timestamp + pd.Timedelta(days=7 * int(k)) for k in expected if k not in counts.index]
    problems = [f"no transaction in the week that ends on {end:%Y-%m-%d}" for end in ends]
    detail = f"{len(expected)} weeks, {counts.min():,} to {counts.max():,} transactions"
    return problems, detail


def _check_seed_times(data: LoadedDataset) -> tuple[list[str], str]:
    problems: list[str] = []
    for (task, split), frame in data.labels.items():
        manifest = data.tasks[task]
        times = frame[str(manifest.time_col)].astype("datetime64[ns]")
        found = pd.DatetimeIndex(times.unique()).sort_values()
        expected = expected_seeds(data, pd.Timedelta(str(manifest.timedelta)))[split]
        if not found.equals(expected):
            wrong = found.symmetric_difference(expected)
            detail = f"{len(wrong)} seed times are missing or unexpected, first {wrong[0]}"
            problems.append(f"{task}/{split}: {detail}")
    num_train = len(expected_seeds(data, pd.Timedelta(days=7))["train"])
    return problems, f"{num_train} train seeds, 1 val and 1 test in every task"


def _check_visible_rows(data: LoadedDataset) -> tuple[list[str], str]:
    """Every seed sees some transactions, in seconds exactly as RelBench's `to_unix_time` reads both times."""
    row_s = data.tables["transactions"]["t_dat"].astype("int64").to_numpy() // _NS_PER_S
    shares: dict[str, float] = {}
    for (task, split), frame in data.labels.items():
        seed_s = frame[str(data.tasks[task].time_col)].astype("int64").to_numpy() // _NS_PER_S
        shares[f"{task}/{split}"] = float((row_s <= seed_s.min()).mean()) if len(seed_s) else 0.0
    wrong = {where: share for where, share in shares.items() if not 0 < share < 1}
    problems = [f"{where} sees {share:.1%} of the transactions" for where, share in wrong.items()]
    first = ", ".join(f"{split} {shares[f'{TASKS[0]}/{split}']:.1%}" for split in SPLITS)
    return problems, f"share of the transactions at the first seed: {first}"


def _check_labels(data: LoadedDataset) -> tuple[list[str], str]:
    sales = data.tables["transactions"].assign(t_dat=transaction_times(data))
    problems, num_labels = [], 0
    for (task, split), frame in data.labels.items():
        manifest = data.tasks[task]
        times = frame[str(manifest.time_col)].astype("datetime64[ns]")
        entity = frame[str(manifest.entity_col or manifest.src_entity_col)]
        target = frame[str(manifest.target_col or manifest.dst_entity_col)]
        labels = pd.DataFrame({"seed": times, "entity": entity, "target": target})
        problem, checked = label_problem(sales, task, labels, len(data.tables["article"]))
        problems += [f"{task}/{split}: {problem}"] if problem else []
        num_labels += checked
    return problems, f"{num_labels:,} labels recomputed from the transactions, all equal"


def _check_nulls(data: LoadedDataset) -> tuple[list[str], str]:
    shares = {
        f"{name}.{column}": float(share)
        for name, frame in data.tables.items()
        for column, share in frame.isna().mean().items()
        if share > 0
    }
    problems = [f"{where} has no value at all" for where, share in shares.items() if share == 1.0]
    detail = ", ".join(f"{where} {share:.2%}" for where, share in shares.items())
    return problems, detail or "none"


def _check_duplicates(data: LoadedDataset) -> tuple[list[str], str]:
    share = float(data.tables["transactions"].duplicated().mean())
    return [], f"{share:.1%} of the transactions repeat an earlier row (rel-hm: 9.4 %)"


def _check_dangling(data: LoadedDataset) -> tuple[list[str], str]:
    parts = []
    for column, target in data.manifest.tables["transactions"].fkeys.items():
        used = data.tables["transactions"][column].nunique()
        parts.append(f"{1 - used / len(data.tables[target]):.1%} of {target}")
    return [], ", ".join(parts)


_CHECKS: Mapping[str, Check] = {
    "digest": _check_digest,
    "primary keys": _check_primary_keys,
    "foreign keys": _check_foreign_keys,
    "datetime unit": _check_datetime_unit,
    "datetime range": _check_datetime_range,
    "weeks": _check_weeks,
    "seed times": _check_seed_times,
    "visible rows": _check_visible_rows,
    "labels": _check_labels,
    "nulls": _check_nulls,
    "duplicates": _check_duplicates,
    "rows without transactions": _check_dangling,
}
