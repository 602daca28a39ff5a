"""The look-alike of rel-hm: format, repeatability, label definitions, statistics and signal."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import relbench
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ablate.core.errors import UserError
from ablate.workloads.relational.lookalike import make as lookalike
from ablate.workloads.relational.lookalike.make import make_lookalike
from ablate.workloads.relational.lookalike.row_groups import RowGroups
from ablate.workloads.relational.lookalike.sales import simulate_sales
from ablate.workloads.relational.lookalike.tables import make_articles, make_customers, num_departments

WEEK = pd.Timedelta(days=7)
COLUMNS = {
    "customer": "customer_id FN Active club_member_status fashion_news_frequency age postal_code",
    "article": "article_id product_code prod_name product_type_no product_type_name product_group_name "
    "graphical_appearance_no graphical_appearance_name colour_group_code colour_group_name "
    "perceived_colour_value_id perceived_colour_value_name perceived_colour_master_id "
    "perceived_colour_master_name department_no department_name index_code index_name index_group_no "
    "index_group_name section_no section_name garment_group_no garment_group_name detail_desc",
    "transactions": "t_dat customer_id article_id price sales_channel_id",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_lookalike(tmp_path_factory.mktemp("data") / "tiny", "tiny")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return relbench.load_dataset(make_lookalike(tmp_path_factory.mktemp("data") / "small", "small"))


@pytest.fixture(scope="module")
def small_tables(small):
    return {name: table.df for name, table in small.get_db(upto_test_timestamp=False).table_dict.items()}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def labels(dataset, task_name: str, split: str) -> pd.DataFrame:
    return dataset.load_task(task_name).get_table(split, mask_input_cols=False).df


# ---- format -----------------------------------------------------------------------------------------


def test_relbench_loads_it_without_network(tiny, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("network access")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    dataset = relbench.load_dataset(tiny)
    database = dataset.get_db()
    assert dataset.get_task_names() == ["item-sales", "user-churn", "user-item-purchase"]
    assert (dataset.val_timestamp, dataset.test_timestamp) == (pd.Timestamp("2020-09-07"), pd.Timestamp("2020-09-14"))
    assert {name: " ".join(table.df.columns) for name, table in database.table_dict.items()} == COLUMNS
    assert database.table_dict["transactions"].fkey_col_to_pkey_table == {
        "customer_id": "customer",
        "article_id": "article",
    }
    assert database.max_timestamp == dataset.test_timestamp  # cut
    assert dataset.get_db(upto_test_timestamp=False).max_timestamp == pd.Timestamp("2020-09-21")
    assert database.min_timestamp == pd.Timestamp("2019-09-07")
    for name in dataset.get_task_names():
        task = dataset.load_task(name)
        train = task.get_table("train").df
        assert train["timestamp"].dtype == "datetime64[ns]"
        assert list(train["timestamp"].unique()) == list(pd.date_range("2019-09-09", "2020-08-31", freq="7D"))
        assert list(task.get_table("val").df["timestamp"].unique()) == [dataset.val_timestamp]
        assert list(task.get_table("test").df["timestamp"].unique()) == [dataset.test_timestamp]


def test_sizes_are_near_the_scale(tiny, small_tables):
    database = relbench.load_dataset(tiny).get_db(upto_test_timestamp=False)
    assert [len(database.table_dict[name]) for name in ("customer", "article")] == [1_500, 400]
    assert len(database.table_dict["transactions"]) == pytest.approx(25_000, rel=0.08)
    assert [len(small_tables[name]) for name in ("customer", "article")] == [20_000, 3_000]
    assert len(small_tables["transactions"]) == pytest.approx(400_000, rel=0.08)


def test_task_manifests_say_what_rel_hm_says(tiny):
    dataset = relbench.load_dataset(tiny)
    churn, sales, purchase = (dataset.load_task(n) for n in ("user-churn", "item-sales", "user-item-purchase"))
    assert (churn.kind, churn.task_type.value, churn.target_col) == ("forecast", "binary_classification", "churn")
    assert (sales.kind, sales.task_type.value, sales.target_col) == ("forecast", "regression", "sales")
    assert (purchase.task_type.value, purchase.eval_k, purchase.timedelta) == ("recommendation", 12, WEEK)


# ---- writing ----------------------------------------------------------------------------------------


def test_same_seed_same_bytes_other_seed_other_bytes(tiny, tmp_path):
    again = contents(make_lookalike(tmp_path / "again", "tiny", seed=0))
    other = contents(make_lookalike(tmp_path / "other", "tiny", seed=1))
    assert again == contents(tiny)
    assert other["db/transactions.parquet"] != again["db/transactions.parquet"]
    assert len(again) == 1 + 1 + 3 + 3 * 4  # marker, manifest, tables, tasks


def test_returns_at_once_repairs_damage_and_replaces_its_own(tmp_path, monkeypatch):
    folder = make_lookalike(tmp_path / "a" / "data", "tiny", seed=3)
    first = contents(folder)
    writes = []
    write = lookalike._write_dataset
    monkeypatch.setattr(lookalike, "_write_dataset", lambda *args: (writes.append(args), write(*args)))
    assert make_lookalike(folder, "tiny", seed=3) == folder
    assert writes == []
    (folder / "db" / "article.parquet").write_bytes(b"damaged")
    (folder / "tasks" / "item-sales" / "val.parquet").unlink()
    make_lookalike(folder, "tiny", seed=3)
    assert len(writes) == 1 and contents(folder) == first
    make_lookalike(folder, "tiny", seed=4)
    assert json.loads((folder / "lookalike.json").read_text())["seed"] == 4
    assert [p.name for p in folder.parent.iterdir()] == ["data"]  # no temporary folder is left


def test_refuses_what_is_not_its_own(tmp_path):
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "manifest.yaml").write_text("name: mine")
    with pytest.raises(UserError, match="not a look-alike"):
        make_lookalike(foreign, "tiny")
    assert contents(foreign) == {"manifest.yaml": b"name: mine"}

    folder = make_lookalike(tmp_path / "data", "tiny")
    (folder / "notes.txt").write_text("keep me")
    with pytest.raises(UserError, match=r"notes\.txt, which is not part of it"):
        make_lookalike(folder, "tiny", seed=1)
    assert (folder / "notes.txt").read_text() == "keep me"

    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(UserError, match="not a folder"):
        make_lookalike(file, "tiny")
    (tmp_path / "empty").mkdir()
    assert (make_lookalike(tmp_path / "empty", "tiny") / "manifest.yaml").exists()


@pytest.mark.parametrize("scale, seed", [("huge", 0), ("", 0), ("tiny", -1), ("tiny", True), ("tiny", 1.5)])
def test_refuses_impossible_arguments(tmp_path, scale, seed):
    with pytest.raises(UserError):
        make_lookalike(tmp_path / "data", scale, seed)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    folder = make_lookalike(tmp_path / "data", "tiny", seed=0)
    before = contents(folder)
    calls = []
    append = RowGroups.append

    def full_disk(files, path, table):
        calls.append(path)
        if len(calls) == 30:  # some weeks of sales and labels are written
            raise OSError(28, "No space left on device")
        append(files, path, table)

    monkeypatch.setattr(RowGroups, "append", full_disk)
    with pytest.raises(UserError, match="No space left"):
        make_lookalike(folder, "tiny", seed=1)
    assert contents(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_sales_come_one_day_at_a_time():
    rng = np.random.default_rng(0)
    articles = make_articles(400, rng)
    customers = make_customers(500, num_departments(400), rng)
    days = list(simulate_sales(customers, articles, 1_000, rng))  # fewer than three rows a day
    assert [day.day for day in days] == list(range(381))
    assert min(len(day.customer) for day in days) >= 1


# ---- labels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "split, seed", [("train", "2019-09-09"), ("train", "2020-03-02"), ("val", "2020-09-07"), ("test", "2020-09-14")]
)
def test_labels_are_what_the_transactions_say(tiny, split, seed):
    dataset = relbench.load_dataset(tiny)
    seed = pd.Timestamp(seed)
    before: set[int] = set()
    bought: dict[int, set[int]] = {}
    sales: dict[int, float] = dict.fromkeys(range(400), 0.0)
    for row in dataset.get_db(upto_test_timestamp=False).table_dict["transactions"].df.itertuples():
        if seed - WEEK < row.t_dat <= seed:
            before.add(row.customer_id)
        if seed < row.t_dat <= seed + WEEK:
            bought.setdefault(row.customer_id, set()).add(row.article_id)
            sales[row.article_id] += row.price
    assert len(before) > 30 and len(bought) > 30

    def at_seed(task):
        frame = labels(dataset, task, split)
        return frame[frame["timestamp"] == seed]

    churn = at_seed("user-churn")
    assert dict(zip(churn["customer_id"], churn["churn"], strict=True)) == {c: int(c not in bought) for c in before}
    sold = at_seed("item-sales")
    assert sold["article_id"].tolist() == list(range(400))
    assert sold["sales"].to_numpy() == pytest.approx(list(sales.values()), abs=1e-12)
    purchase = at_seed("user-item-purchase")
    lists = dict(zip(purchase["customer_id"], purchase["article_id"], strict=True))
    assert {c: sorted(v) for c, v in bought.items()} == {c: list(v) for c, v in lists.items()}


@pytest.mark.parametrize("task", ["user-churn", "item-sales", "user-item-purchase"])
def test_relbench_regenerates_the_same_labels(tiny, task):
    dataset = relbench.load_dataset(tiny)
    for split in ("val", "test"):
        stored = labels(dataset, task, split)
        made = dataset.load_task(task, regenerate=True).get_table(split, mask_input_cols=False).df
        assert list(made.columns) == list(stored.columns)
        for column in stored.columns:
            if column == "sales":
                assert made[column].to_numpy() == pytest.approx(stored[column].to_numpy(), abs=1e-12)
            else:
                assert [_plain(v) for v in made[column]] == [_plain(v) for v in stored[column]]


def _plain(value):
    return [int(v) for v in value] if isinstance(value, (list, np.ndarray)) else value


# ---- statistics of rel-hm ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column, share",
    [
        ("FN", 0.6524),
        ("Active", 0.6615),
        ("club_member_status", 0.0044),
        ("fashion_news_frequency", 0.012),
        ("age", 0.0116),
    ],
)
def test_customer_null_shares(small_tables, column, share):
    assert small_tables["customer"][column].isna().mean() == pytest.approx(share, abs=0.001)


def test_customer_columns(small_tables):
    customer = small_tables["customer"]
    status = customer["club_member_status"].value_counts(normalize=True, dropna=False)
    news = customer["fashion_news_frequency"].value_counts(normalize=True, dropna=False)
    assert status[["ACTIVE", "PRE-CREATE", "LEFT CLUB"]].tolist() == pytest.approx([0.927, 0.068, 0.0003], abs=0.001)
    assert news[["NONE", "Regularly", "Monthly"]].tolist() == pytest.approx([0.64, 0.348, 0.0006], abs=0.001)
    assert customer["FN"].dropna().unique().tolist() == [1.0]
    assert customer["age"].min() >= 16 and customer["age"].max() <= 99
    assert customer["age"].mean() == pytest.approx(36.4, abs=0.5)
    assert customer["postal_code"].str.fullmatch("[0-9a-f]{64}").all()
    assert customer["postal_code"].nunique() / len(customer) == pytest.approx(0.257, abs=0.002)


def test_article_columns(small_tables):
    article = small_tables["article"]
    assert article["detail_desc"].isna().mean() == pytest.approx(0.004, abs=0.002)
    assert article["detail_desc"].str.len().mean() == pytest.approx(142, abs=8)
    assert article["product_code"].nunique() / len(article) == pytest.approx(47_224 / 105_542, abs=0.002)
    distinct = {"graphical_appearance_no": 30, "colour_group_code": 50, "perceived_colour_value_id": 8}
    distinct |= {"perceived_colour_master_id": 20, "index_code": 10, "index_group_no": 5, "garment_group_no": 21}
    assert {column: article[column].nunique() for column in distinct} == distinct
    for code in ("graphical_appearance_no", "colour_group_code", "department_no", "product_code"):
        assert article[code].dtype == np.int64
    assert (article["colour_group_code"] == -1).any()
    for parent in ("department_name", "section_no", "index_code", "index_group_no", "garment_group_no"):
        assert (article.groupby("department_no")[parent].nunique() == 1).all()
    for child in ("prod_name", "product_type_no", "department_no"):
        assert (article.groupby("product_code")[child].nunique() == 1).all()


def test_transaction_columns(small_tables):
    sales = small_tables["transactions"]
    units = sales["price"] * 59_000
    assert np.abs(units - units.round()).max() < 1e-6
    assert sales["price"].min() >= 1.69e-5 and sales["price"].max() <= 0.5916
    assert sales["price"].mean() == pytest.approx(0.0278, rel=0.25)
    assert sales["sales_channel_id"].mean() == pytest.approx(1.704, abs=0.02)
    assert sales["t_dat"].is_monotonic_increasing
    assert 0.07 <= sales.duplicated().mean() <= 0.12


def test_heavy_tails_and_dangling_rows(small_tables):
    sales = small_tables["transactions"]
    by_article = sales["article_id"].value_counts().to_numpy()
    by_customer = sales["customer_id"].value_counts().to_numpy()
    assert by_article[:30].sum() / len(sales) > 0.10  # the top 1 % of 3000 articles
    assert by_customer[:2_000].sum() / len(sales) > 0.35  # the top 10 % of 20000 customers
    assert 0.10 < 1 - len(by_customer) / 20_000 < 0.40
    assert 0.05 < 1 - len(by_article) / 3_000 < 0.40


def test_every_day_is_there_and_volume_has_seasons(small_tables):
    sales = small_tables["transactions"]
    by_day = sales["t_dat"].value_counts().sort_index()
    assert len(by_day) == 381 and by_day.index[-1] == pd.Timestamp("2020-09-21")
    month = by_day.groupby(by_day.index.to_period("M")).mean()
    assert month["2020-06"] > 1.3 * month["2020-03"]
    assert by_day["2019-11-29"] > 1.8 * by_day["2019-11-22"]


def test_articles_appear_peak_and_fade(small_tables):
    sales = small_tables["transactions"]
    autumn = sales[sales["t_dat"] < "2019-11-01"]["article_id"].value_counts()
    summer = sales[sales["t_dat"] > "2020-07-25"]["article_id"].value_counts()
    assert len(set(autumn.index[:50]) & set(summer.index[:50])) < 20
    assert autumn.reindex(summer.index[:50], fill_value=0).sum() < 0.5 * summer.iloc[:50].sum()


# ---- signal -----------------------------------------------------------------------------------------


def visit_features(sales: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
    """Days since the last visit, log visits of 28 days, log visits of all time, by seed and customer."""
    visits = sales[["t_dat", "customer_id"]].drop_duplicates()
    parts = []
    for seed, group in rows.groupby("timestamp"):
        past = visits[visits["t_dat"] <= seed]
        by_customer = past.groupby("customer_id")["t_dat"].agg(["max", "size"]).reindex(group["customer_id"])
        recent = past[past["t_dat"] > seed - 4 * WEEK].groupby("customer_id").size().reindex(group["customer_id"])
        parts.append(
            np.column_stack([(seed - by_customer["max"]).dt.days, np.log(recent), np.log(by_customer["size"])])
        )
    return np.concatenate(parts)


def test_churn_follows_from_recency_and_frequency(small, small_tables):
    train, val = labels(small, "user-churn", "train"), labels(small, "user-churn", "val")
    train = train[train["timestamp"] >= "2020-07-01"]
    model = LogisticRegression().fit(visit_features(small_tables["transactions"], train), train["churn"])
    score = model.predict_proba(visit_features(small_tables["transactions"], val))[:, 1]
    assert 0.6 < val["churn"].mean() < 0.9
    assert roc_auc_score(val["churn"], score) > 0.66
    permuted = np.random.default_rng(0).permutation(val["churn"])
    assert abs(roc_auc_score(permuted, score) - 0.5) < 0.06
    recency = visit_features(small_tables["transactions"], val)[:, 0]
    assert roc_auc_score(val["churn"], recency) > 0.53  # recency alone, within the last week


def test_churn_follows_in_the_tiny_one_too(tiny):
    dataset = relbench.load_dataset(tiny)
    sales = dataset.get_db(upto_test_timestamp=False).table_dict["transactions"].df
    rows = labels(dataset, "user-churn", "train")
    late = rows[rows["timestamp"] >= "2020-06-01"]
    early = rows[(rows["timestamp"] < "2020-06-01") & (rows["timestamp"] >= "2020-01-01")]
    model = LogisticRegression().fit(visit_features(sales, early), early["churn"])
    assert roc_auc_score(late["churn"], model.predict_proba(visit_features(sales, late))[:, 1]) > 0.62


def sales_of_last_week(small_tables, seed: pd.Timestamp) -> np.ndarray:
    sales = small_tables["transactions"]
    recent = sales[(sales["t_dat"] > seed - WEEK) & (sales["t_dat"] <= seed)]
    return np.bincount(recent["article_id"], weights=recent["price"], minlength=len(small_tables["article"]))


@pytest.mark.parametrize("split", ["val", "test"])
def test_recent_sales_predict_sales(small, small_tables, split):
    task = small.load_task("item-sales")
    table = task.get_table(split, mask_input_cols=False)
    target = table.df["sales"].to_numpy()
    recent = sales_of_last_week(small_tables, table.df["timestamp"].iloc[0])
    median = labels(small, "item-sales", "train")["sales"].median()
    mae_of_median = np.abs(target - median).mean()
    assert np.abs(target - recent).mean() < 0.6 * mae_of_median
    assert np.abs(np.random.default_rng(0).permutation(target) - recent).mean() > 1.2 * mae_of_median
    assert task.evaluate(recent, table) == {"nmae": pytest.approx(np.abs(target - recent).mean() / task.nmae_std)}


def taste_ranking(small_tables, rows: pd.DataFrame, recent: pd.DataFrame, past: pd.DataFrame) -> np.ndarray:
    """Top 12 per customer by department share in the customer's past times popularity of the last two weeks."""
    department = np.unique(small_tables["article"]["department_no"], return_inverse=True)[1]
    popularity = np.bincount(recent["article_id"], minlength=len(department)).astype(float)
    by_department = np.bincount(department, weights=popularity)
    taste = np.zeros((len(small_tables["customer"]), len(by_department)))
    np.add.at(taste, (past["customer_id"], department[past["article_id"]]), 1.0)
    taste = taste[rows["customer_id"]] + by_department / by_department.sum()
    within = popularity / np.maximum(by_department[department], 1.0)
    score = (taste / taste.sum(axis=1, keepdims=True))[:, department] * within
    return np.argsort(-score, axis=1, kind="stable")[:, :12]


@pytest.mark.parametrize("split", ["val", "test"])
def test_purchases_follow_taste_and_recent_popularity(small, small_tables, split):
    task = small.load_task("user-item-purchase")
    table = task.get_table(split, mask_input_cols=False)
    seed, num_rows = table.df["timestamp"].iloc[0], len(table.df)
    past = small_tables["transactions"][small_tables["transactions"]["t_dat"] <= seed]
    recent = past[past["t_dat"] > seed - 2 * WEEK]

    def map_of_top(frame):
        return task.evaluate(np.tile(frame["article_id"].value_counts().index[:12], (num_rows, 1)), table)["map"]

    ranking = taste_ranking(small_tables, table.df, recent, past)
    personal = task.evaluate(ranking, table)["map"]
    strangers = task.evaluate(np.random.default_rng(0).permutation(ranking), table)["map"]
    assert map_of_top(recent) > map_of_top(past) > 0
    assert personal > 1.5 * map_of_top(recent)
    assert strangers < 0.5 * personal
