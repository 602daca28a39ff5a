"""`check_dataset`: passes on a look-alike, and names what is wrong with a broken copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ablate.core.errors import UserError
from ablate.workloads.relational.check.checks import CheckResult, check_dataset
from ablate.workloads.relational.lookalike.make import make_lookalike


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_lookalike(tmp_path_factory.mktemp("data") / "tiny", "tiny")


@pytest.fixture
def copy(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "copy"))


def edit(folder: Path, path: str, change) -> None:
    """Rewrite a parquet file as `change` of its frame."""
    change(pd.read_parquet(folder / path)).to_parquet(folder / path, index=False)


def failures(folder: Path) -> dict[str, str]:
    return {result.name: result.detail for result in check_dataset(folder) if not result.passed}


def test_a_lookalike_passes_and_prints_its_numbers(sound):
    results = check_dataset(sound)
    assert all(isinstance(result, CheckResult) and result.passed for result in results)
    details = {result.name: result.detail for result in results}
    assert details["files"].startswith("rows: customer 1,500, article 400, transactions 2")
    assert "look-alike tiny, seed 0" in details["digest"]
    assert details["weeks"].startswith("55 weeks")
    assert details["seed times"] == "52 train seeds, 1 val and 1 test in every task"
    assert "customer.FN 65.27%" in details["nulls"] and "article.detail_desc 0.50%" in details["nulls"]
    assert "repeat an earlier row" in details["duplicates"]
    assert "of customer" in details["rows without transactions"]
    assert check_dataset(str(sound)) == results


def test_without_marker_there_is_no_digest_to_compare(copy):
    (copy / "lookalike.json").unlink()
    results = {result.name: result for result in check_dataset(copy)}
    assert all(result.passed for result in results.values())
    assert results["digest"].detail.startswith("not a look-alike")


@pytest.mark.parametrize(
    "path, column", [("db/transactions.parquet", "t_dat"), ("tasks/user-churn/val.parquet", "timestamp")]
)
def test_microseconds(copy, path, column):
    edit(copy, path, lambda frame: frame.astype({column: "datetime64[us]"}))
    found = failures(copy)
    assert {"datetime unit", "visible rows", "digest"} == set(found)
    assert "datetime64[us]" in found["datetime unit"]


def test_times_of_another_epoch(copy):
    shift = pd.Timestamp("2019-01-01") - pd.Timestamp("1971-01-01")
    edit(copy, "db/transactions.parquet", lambda frame: frame.assign(t_dat=frame["t_dat"] - shift))
    assert "outside 2000..2035" in failures(copy)["datetime range"]


def test_null_times(copy):
    edit(copy, "db/transactions.parquet", lambda frame: frame.assign(t_dat=frame["t_dat"].where(frame.index != 7)))
    assert failures(copy)["datetime range"] == "transactions.t_dat: 1 times are null"


@pytest.mark.parametrize("table, key", [("customer", "customer_id"), ("article", "article_id")])
def test_shuffled_primary_key(copy, table, key):
    edit(copy, f"db/{table}.parquet", lambda frame: frame.sample(frac=1, random_state=0))
    assert failures(copy)["primary keys"].startswith(f"{table}.{key} is not 0..")


def test_foreign_key_out_of_range(copy):
    edit(copy, "db/transactions.parquet", lambda frame: frame.assign(customer_id=frame["customer_id"] + 100))
    assert "are no row of customer" in failures(copy)["foreign keys"]


def test_null_foreign_keys_are_allowed(copy):
    customer = "customer_id"
    edit(
        copy, "db/transactions.parquet", lambda frame: frame.assign(customer_id=frame[customer].where(frame.index != 7))
    )
    assert "foreign keys" not in failures(copy)


@pytest.mark.parametrize("first, last", [("2020-03-10", "2020-03-16"), ("2020-09-15", "2020-09-21")])
def test_missing_week(copy, first, last):
    edit(copy, "db/transactions.parquet", lambda frame: frame[~frame["t_dat"].between(first, last)])
    assert failures(copy)["weeks"] == f"no transaction in the week that ends on {last}"


def test_missing_seed(copy):
    edit(copy, "tasks/item-sales/train.parquet", lambda frame: frame[frame["timestamp"] != "2020-01-06"])
    assert failures(copy)["seed times"].startswith(
        "item-sales/train: 1 seed times are missing or unexpected, first 2020-01-06"
    )


@pytest.mark.parametrize(
    "task, column, change",
    [
        ("user-churn", "churn", lambda values: 1 - values),
        ("item-sales", "sales", lambda values: values + 1e-4),
        ("user-item-purchase", "article_id", lambda values: values.map(lambda v: np.append(v, (v[-1] + 1) % 400))),
    ],
)
def test_wrong_labels(copy, task, column, change):
    path = f"tasks/{task}/test.parquet"
    edit(copy, path, lambda frame: frame.assign(**{column: change(frame[column])}))
    assert failures(copy)["labels"].startswith(f"{task}/test: seed 2020-09-14: ")


def test_a_row_counted_on_the_wrong_side_of_the_seed(copy):
    """Sales moved from the test stamp's day to the next one: all labels after both stamps change, 6 tables."""

    def move(frame):
        return frame.assign(t_dat=frame["t_dat"].replace(pd.Timestamp("2020-09-14"), pd.Timestamp("2020-09-15")))

    edit(copy, "db/transactions.parquet", move)
    found = failures(copy)["labels"]
    assert found.startswith("user-churn/val: seed 2020-09-07: ") and found.endswith("(and 5 more)")


def test_customers_of_the_future_are_not_asked(copy):
    edit(copy, "tasks/user-churn/val.parquet", lambda frame: frame.iloc[1:])
    assert "1 entities are missing" in failures(copy)["labels"]


@pytest.mark.parametrize(
    "path", ["db/article.parquet", "tasks/user-churn/train.parquet", "tasks/item-sales/manifest.yaml"]
)
def test_missing_or_damaged_files(copy, path):
    (copy / path).write_bytes(b"damaged")
    assert list(failures(copy)) == ["files"]
    (copy / path).unlink()
    assert list(failures(copy)) == ["files"] and len(check_dataset(copy)) == 1


def test_empty_labels_and_missing_columns(copy):
    edit(copy, "tasks/user-churn/val.parquet", lambda frame: frame.iloc[:0])
    assert failures(copy) == {"files": "user-churn/val is empty"}
    edit(copy, "tasks/user-churn/val.parquet", lambda frame: frame.drop(columns="churn"))
    assert "user-churn/val is empty (and 1 more)" in failures(copy)["files"]


def test_damaged_manifest(copy):
    (copy / "manifest.yaml").write_text("name: [")
    assert "not readable" in failures(copy)["files"]


def test_no_such_folder(tmp_path):
    with pytest.raises(UserError, match="There is no dataset"):
        check_dataset(tmp_path / "nowhere")
