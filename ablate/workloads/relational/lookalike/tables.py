"""Row counts and a random generator -> the look-alike's customer and article tables, with the traits that drive sales.

Shapes in comments: C customers, A articles, P products (colour variants share one), D departments, T taste slots.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ablate.workloads.relational.lookalike import words

NUM_DAYS = 381  # 2019-09-07 .. 2020-09-21
TASTE_WEIGHTS = (0.60, 0.25, 0.15)  # share of a customer's taste-driven lines by taste slot
MAX_PRICE = 34_899  # rel-hm prices are whole numbers of 1/59000, at most 34899/59000 = 0.5915
_NUM_PERSONAS = 8


@dataclass(frozen=True, kw_only=True)
class Customers:
    """The customer table and what drives each customer's purchases."""

    table: pa.Table  # columns of rel-hm's `customer`, C rows
    visit_rate: np.ndarray  # relative visits per day while interested [C]; 0 for customers who never buy
    join_day: np.ndarray  # first day on which the customer can buy [C]
    taste: np.ndarray  # preferred departments, most preferred first [C, T]
    online_share: np.ndarray  # probability that a visit is online, channel 2 [C]


@dataclass(frozen=True, kw_only=True)
class Articles:
    """The article table and what drives each article's sales."""

    table: pa.Table  # columns of rel-hm's `article`, A rows
    department: np.ndarray  # department index 0..D-1 [A]
    num_departments: int  # D
    launch_day: np.ndarray  # first day of sale, can lie before day 0 [A]
    peak_days: np.ndarray  # days from launch to the peak [A]; infinite for an evergreen
    appeal: np.ndarray  # relative sales at the peak, heavy-tailed [A]
    list_price: np.ndarray  # in units of 1/59000 [A]


def num_departments(num_articles: int) -> int:
    """Departments of a look-alike with `num_articles` articles: one for 25 articles, at most rel-hm's 299."""
    return int(min(299, max(12, num_articles // 25)))


def make_articles(num_articles: int, rng: np.random.Generator) -> Articles:
    """Draw the article table."""
    types = words.TypeBook.build()
    product = _products_of_articles(num_articles, rng)  # [A], non-decreasing
    num_products = int(product[-1]) + 1
    departments = num_departments(num_articles)
    department = _departments_of_products(num_products, departments, rng)
    product_type = _product_types(department, departments, types, rng)
    launch = np.sort(rng.uniform(-300.0, NUM_DAYS - 3.0, num_products))  # product codes grow with time
    peak = np.exp(rng.normal(np.log(18.0), 0.5, num_products))
    evergreen = rng.random(num_products) < 0.04
    evergreen[np.unique(department, return_index=True)[1]] = True  # no department is ever empty
    price = np.exp(rng.normal(np.log(1_500.0), 0.6, num_products))
    table = pa.table(
        {
            "article_id": np.arange(num_articles, dtype=np.int64),
            **_product_columns(product, product_type, types, rng),
            **_appearance_columns(num_articles, rng),
            **_department_columns(department[product], departments),
            "detail_desc": _descriptions(product, types.name[product_type], rng),
        }
    )
    return Articles(
        table=table,
        department=department[product],
        num_departments=departments,
        launch_day=np.where(evergreen, -300.0, launch)[product] + rng.uniform(0.0, 5.0, num_articles),
        peak_days=np.where(evergreen, np.inf, peak)[product],
        appeal=np.exp(rng.normal(0.0, 0.9, num_products)[product] + rng.normal(0.0, 0.7, num_articles)),
        list_price=np.clip(np.round(price / 100.0) * 100 - 1, 99, MAX_PRICE).astype(np.int64)[product],
    )


def _products_of_articles(num_articles: int, rng: np.random.Generator) -> np.ndarray:
    """Product index per article [A]: 47224 products for 105542 articles, each with at least one."""
    num_products = max(1, round(num_articles * 47_224 / 105_542))
    extra = rng.integers(0, num_products, num_articles - num_products)
    return np.sort(np.concatenate([np.arange(num_products), extra]))


def _departments_of_products(num_products: int, departments: int, rng: np.random.Generator) -> np.ndarray:
    """Department index per product [P]: sizes differ by an order of magnitude, none is empty."""
    weights = np.exp(rng.normal(0.0, 0.7, departments))
    extra = rng.choice(departments, num_products - departments, p=weights / weights.sum())
    return rng.permutation(np.concatenate([np.arange(departments), extra]))


def _product_types(
    department: np.ndarray, departments: int, types: words.TypeBook, rng: np.random.Generator
) -> np.ndarray:
    """Type index per product [P]: 85 % from the department's main product group, so that groups carry taste."""
    shares = np.array(words.PRODUCT_GROUP_SHARES) / sum(words.PRODUCT_GROUP_SHARES)
    main_group = rng.choice(len(shares), departments, p=shares)
    stray = rng.choice(len(shares), len(department), p=shares)
    group = np.where(rng.random(len(department)) < 0.85, main_group[department], stray)
    first, count = np.unique(types.group, return_index=True)[1], np.bincount(types.group)
    rank = np.floor(count[group] * rng.random(len(group)) ** 1.8).astype(np.int64)  # few types dominate a group
    return first[group] + rank


def _product_columns(
    product: np.ndarray, product_type: np.ndarray, types: words.TypeBook, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    num_products = len(product_type)
    code = 108_775 + 17 * np.arange(num_products) + rng.integers(0, 17, num_products)
    choice = rng.integers(0, 1_000_000, (num_products, words.NUM_TEXT_CHOICES))
    kind = product_type[product]
    groups = np.array(list(words.PRODUCT_TYPES), dtype=object)
    return {
        "product_code": code[product],
        "prod_name": words.product_names(choice, types.name[product_type])[product],
        "product_type_no": types.number[kind],
        "product_type_name": types.name[kind],
        "product_group_name": groups[types.group[kind]],
    }


def _appearance_columns(num_articles: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Graphical appearance and the three colour columns [A]; the shade follows from the colour group."""
    columns: dict[str, np.ndarray] = {}
    colour = _skewed(len(words.COLOUR_GROUPS), num_articles, rng)
    is_unknown = colour == len(words.COLOUR_GROUPS) - 1
    value = np.where(rng.random(num_articles) < 0.6, colour // len(words.HUES) * 2, rng.integers(0, 7, num_articles))
    master = np.where(rng.random(num_articles) < 0.9, colour % len(words.HUES), rng.integers(0, 19, num_articles))
    books = (
        ("graphical_appearance", "no", words.APPEARANCES, 1_010_001, _skewed(30, num_articles, rng)),
        ("colour_group", "code", words.COLOUR_GROUPS, 1, colour),
        ("perceived_colour_value", "id", words.COLOUR_VALUES, 1, np.where(is_unknown, 7, value)),
        ("perceived_colour_master", "id", words.COLOUR_MASTERS, 1, np.where(is_unknown, 19, master)),
    )
    for stem, suffix, names, first, index in books:
        columns[f"{stem}_{suffix}"] = words.code_book(names, first)[index]
        columns[f"{stem}_name"] = np.array(names, dtype=object)[index]
    return columns


def _department_columns(department: np.ndarray, departments: int) -> dict[str, np.ndarray]:
    """Department, index, index group, section and garment group [A], all fixed by the department."""
    num_sections = 57
    section = np.arange(departments) * num_sections // departments  # [D]
    ends = np.cumsum([share for *_, share in words.INDEXES])
    index_of_section = np.searchsorted(ends, (np.arange(num_sections) + 0.5) / num_sections)
    code, name, group_no, group = (np.array(v, dtype=object) for v in list(zip(*words.INDEXES, strict=True))[:4])
    index = index_of_section[section][department]
    garment = np.arange(departments) * 8 % len(words.GARMENT_GROUPS)
    return {
        "department_no": (1_201 + 13 * np.arange(departments))[department],
        "department_name": words.department_names(departments)[department],
        "index_code": code[index],
        "index_name": name[index],
        "index_group_no": group_no[index].astype(np.int64),
        "index_group_name": group[index],
        "section_no": (2 + section)[department],
        "section_name": words.section_names(name[index_of_section])[section][department],
        "garment_group_no": (1_001 + garment)[department],
        "garment_group_name": np.array(words.GARMENT_GROUPS, dtype=object)[garment][department],
    }


def _descriptions(product: np.ndarray, type_name: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One text per product [A], some products sharing one (43405 of 47224 distinct), 0.394 % null."""
    num_products = len(type_name)
    choice = rng.integers(0, 1_000_000, (num_products, words.NUM_TEXT_CHOICES))
    text = words.describe_products(choice, type_name)
    shared = rng.permutation(num_products)[: round(num_products * (1 - 43_405 / 47_224))]
    text[shared] = text[rng.integers(0, num_products, len(shared))]
    out: np.ndarray = text[product]
    out[rng.permutation(len(out))[: round(len(out) * 416 / 105_542)]] = None
    return out


def _skewed(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Indices 0..count-1 [size] with Zipf-like frequencies, so that the last ones are rare."""
    weights = 1.0 / np.arange(1, count + 1) ** 1.1
    return rng.choice(count, size, p=weights / weights.sum())


def make_customers(num_customers: int, departments: int, rng: np.random.Generator) -> Customers:
    """Draw the customer table, with tastes of `departments`; null shares and categories hold exactly (to a row)."""
    log_rate = rng.normal(0.0, 1.15, num_customers)
    young = rng.random(num_customers) < 0.55
    age = np.clip(np.round(rng.normal(np.where(young, 25.0, 50.3), np.where(young, 5.0, 9.0))), 16.0, 99.0)
    is_new = rng.random(num_customers) < 0.2
    never_buys = rng.random(num_customers) < 0.08
    return Customers(
        table=_customer_table(log_rate, age, rng),
        visit_rate=np.where(never_buys, 0.0, np.exp(log_rate)),
        join_day=np.where(is_new, rng.integers(0, NUM_DAYS - 3, num_customers), 0),
        taste=_tastes(age, departments, rng),
        online_share=rng.beta(1.6, 0.67, num_customers),  # mean 0.704
    )


def _customer_table(log_rate: np.ndarray, age: np.ndarray, rng: np.random.Generator) -> pa.Table:
    count = len(age)
    loyalty = 0.5 * log_rate + rng.normal(size=count)  # what the club columns have in common: loyal customers buy more
    news = _shares(loyalty, (("Regularly", 0.348), ("Monthly", 0.0006), ("NONE", 0.64), (None, 0.012)))
    status = _shares(
        0.3 * log_rate + rng.normal(size=count),
        (("ACTIVE", 0.927), ("PRE-CREATE", 0.068), (None, 0.0044), ("LEFT CLUB", 0.0003)),
    )
    flags = {"FN": (loyalty, 1 - 0.6524), "Active": (loyalty + 0.2 * rng.normal(size=count), 1 - 0.6615)}
    age_is_null = np.zeros(count, dtype=bool)
    age_is_null[rng.permutation(count)[: round(0.0116 * count)]] = True
    return pa.table(
        {
            "customer_id": np.arange(count, dtype=np.int64),
            **{k: pa.array(np.ones(count), mask=~_largest(*flag)) for k, flag in flags.items()},
            "club_member_status": pa.array(status, type=pa.string()),
            "fashion_news_frequency": pa.array(news, type=pa.string()),
            "age": pa.array(age, mask=age_is_null),
            "postal_code": _postal_codes(count, rng),
        }
    )


def _largest(score: np.ndarray, share: float) -> np.ndarray:
    """Mask of the `share` of the entries with the largest score."""
    mask = np.zeros(len(score), dtype=bool)
    mask[np.argsort(-score, kind="stable")[: round(share * len(score))]] = True
    return mask


def _shares(score: np.ndarray, values: tuple[tuple[str | None, float], ...]) -> np.ndarray:
    """Give the first value to the largest scores, and so on, in exact shares; the last value takes what is left."""
    ends = np.round(np.cumsum([share for _, share in values]) * len(score)).astype(np.int64)[:-1]
    rank = np.empty(len(score), dtype=np.int64)
    rank[np.argsort(-score, kind="stable")] = np.arange(len(score))
    return np.array([value for value, _ in values], dtype=object)[np.searchsorted(ends, rank, side="right")]


def _postal_codes(count: int, rng: np.random.Generator) -> np.ndarray:
    """64 hexadecimal digits per customer; 352899 of 1371980 distinct, one code for 8.8 % of the customers."""
    num_codes = max(1, round(count * 352_899 / 1_371_980))
    codes = np.array([hashlib.sha256(f"postal code {i}".encode()).hexdigest() for i in range(num_codes)], dtype=object)
    others = np.floor(num_codes * rng.random(count - num_codes) ** 1.5).astype(np.int64)
    others[: round(0.088 * count)] = 0
    out: np.ndarray = codes[rng.permutation(np.concatenate([np.arange(num_codes), others]))]
    return out


def _tastes(age: np.ndarray, departments: int, rng: np.random.Generator) -> np.ndarray:
    """Preferred departments [C, T]; they follow a persona, which follows the age."""
    centers = np.linspace(18.0, 65.0, _NUM_PERSONAS)
    closeness = np.exp(-(((age[:, None] - centers) / 12.0) ** 2) / 2).cumsum(axis=1)
    persona = (rng.random(len(age))[:, None] * closeness[:, -1:] > closeness).sum(axis=1)
    weights = np.exp(rng.normal(0.0, 0.8, departments) + rng.normal(0.0, 1.0, (_NUM_PERSONAS, departments)))
    ends = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
    taste = np.empty((len(age), len(TASTE_WEIGHTS)), dtype=np.int64)
    for p in range(_NUM_PERSONAS):
        rows = np.flatnonzero(persona == p)
        taste[rows] = np.searchsorted(ends[p], rng.random((len(rows), taste.shape[1])) * ends[p, -1], side="right")
    return np.minimum(taste, departments - 1)
