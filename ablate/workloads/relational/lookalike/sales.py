"""Customers and articles with their traits -> transactions, one day at a time (so that memory stays bounded).

Shapes in comments: C customers, A articles, D departments, V visits of a day, L basket lines of a day.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ablate.workloads.relational.lookalike.tables import MAX_PRICE, NUM_DAYS, TASTE_WEIGHTS, Articles, Customers

PRICE_UNIT = 1.0 / 59_000
_INTEREST_ENDS, _INTEREST_STARTS = 1 / 9, 1 / 60  # daily probabilities of the hidden interested / idle states
_IDLE_RATE = 0.12  # visit rate while idle, relative to interested
_REPEAT_SHARE, _POPULAR_SHARE = 0.06, 0.34  # of the lines; the others follow taste
_DUPLICATE_SHARE, _COPY_STOP = 0.083, 0.8  # lines with copies; copies are 1 + geometric
_MEMORY = 4  # past purchases that a customer may repeat


@dataclass(frozen=True, kw_only=True)
class Baskets:
    """How many rows a visit makes."""

    log_lines: float = 0.75  # mean of the log number of lines, before it is rounded up
    rows_per_visit: float = 3.05  # copies included: measured, less a few percent for visits that saturate


@dataclass(frozen=True, kw_only=True)
class DaySales:
    """Transactions of one day, sorted by customer and article, duplicates included (arrays [rows])."""

    day: int  # since 2019-09-07
    customer: np.ndarray  # row numbers of the customer table
    article: np.ndarray  # row numbers of the article table
    price: np.ndarray  # rel-hm's unit, a multiple of 1/59000
    channel: np.ndarray  # 1 shop, 2 online


def simulate_sales(
    customers: Customers, articles: Articles, num_rows: int, rng: np.random.Generator, baskets: Baskets = Baskets()
) -> Iterator[DaySales]:
    """Yield the sales of every day from 2019-09-07 to 2020-09-21.

    Args:
        customers: C customers.
        articles: A articles.
        num_rows: Transactions to aim at, over all days, within a few percent.
        rng: Source of all randomness.
        baskets: Rows of a visit.
    """
    num_customers = len(customers.visit_rate)
    volume = _daily_volume()
    interested = rng.random(num_customers) < _INTEREST_STARTS / (_INTEREST_STARTS + _INTEREST_ENDS)
    memory = np.full((num_customers, _MEMORY), -1, dtype=np.int64)
    market = _Market(articles, rng)
    for day in range(NUM_DAYS):
        interested = _next_interest(interested, rng)
        market.open(day, rng)
        expected_visits = num_rows / baskets.rows_per_visit * volume[day]
        visitors = _visitors(customers, interested, day, expected_visits, rng)
        lines = np.ceil(np.exp(rng.normal(baskets.log_lines, 0.85, len(visitors))))  # heavy-tailed, 1 to 60
        yield _sell(visitors, np.minimum(lines.astype(np.int64), 60), customers, market, memory, day, rng)


def _daily_volume() -> np.ndarray:
    """Share of all visits by day [days]: weekend, season, Black Friday, a lockdown and a summer sale; sums to 1."""
    day = np.arange(NUM_DAYS)
    season = 1.0 + 0.18 * np.cos(2 * np.pi * (day - 285) / 365.25)  # day 285 is 2020-06-18
    weekend = np.where(np.isin(day % 7, (0, 6)), 1.2, 0.95)  # day 0 is a Saturday
    black_friday = 1.0 + 1.4 * np.isin(day, (81, 82, 83, 84))
    lockdown = 1.0 - 0.35 * ((day >= 190) & (day < 225))
    sale = 1.0 + 0.5 * ((day >= 288) & (day < 306))
    volume: np.ndarray = season * weekend * black_friday * lockdown * sale
    volume /= volume.sum()
    return volume


def _next_interest(interested: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One day of the two-state chain per customer [C]; it makes recency predict churn beyond frequency."""
    draw = rng.random(len(interested))
    return np.where(interested, draw >= _INTEREST_ENDS, draw < _INTEREST_STARTS)


def _visitors(
    customers: Customers, interested: np.ndarray, day: int, expected_visits: float, rng: np.random.Generator
) -> np.ndarray:
    """Row numbers of the customers who buy on this day [V], increasing; never empty."""
    rate = customers.visit_rate * np.where(interested, 1.0, _IDLE_RATE) * (customers.join_day <= day)
    buys = rng.random(len(rate)) < -np.expm1(-rate * (expected_visits / rate.sum()))
    buys[int(np.argmax(rate))] |= not buys.any()
    return np.flatnonzero(buys)


class _Market:
    """Popularity of articles over time: appear, peak, fade, with a season per department and weekly noise.

    Articles are drawn from sums of popularity, cumulated over the articles in department order.
    """

    def __init__(self, articles: Articles, rng: np.random.Generator) -> None:
        self.articles, departments = articles, articles.num_departments
        self._order = np.argsort(articles.department, kind="stable")  # [A]
        # position of each department's first article, and A at the end [D + 1]
        self._first = np.searchsorted(articles.department[self._order], np.arange(departments + 1))
        self._season_strength = rng.uniform(0.0, 0.9, departments)
        self._season_phase = rng.uniform(0.0, 2 * np.pi, departments)
        self._noise = rng.normal(0.0, 0.5, len(self._order))

    def open(self, day: int, rng: np.random.Generator) -> None:
        """Set what is popular on a day; from the whole shop, what is new is drawn more often than an evergreen."""
        if day % 7 == 0:
            self._noise = 0.8 * self._noise + rng.normal(0.0, 0.3, len(self._noise))
        age = (day + 1.0 - self.articles.launch_day) / self.articles.peak_days  # in peaks; 0 for an evergreen
        is_evergreen = np.isinf(self.articles.peak_days)
        curve = np.where(is_evergreen, 0.3, age * np.exp(1.0 - np.maximum(age, 0.0)))
        season = np.exp(self._season_strength * np.cos(2 * np.pi * day / 365.25 - self._season_phase))
        popularity = self.articles.appeal * np.clip(curve, 0.0, None) * np.exp(self._noise)
        novelty = np.where(is_evergreen, 0.3, 1.0) * season[self.articles.department]
        self._ends = np.cumsum(popularity[self._order])
        self._shop_ends = np.cumsum(((popularity * novelty) ** 1.2)[self._order])
        self.department_weight = season  # [D]
        self.discount = np.select([age > 5.0, age > 3.0], [0.5, 0.7], 1.0)  # share of the list price that is asked [A]

    def draw_in(self, department: np.ndarray, draw: np.ndarray) -> np.ndarray:
        """An article of the given department for every line [L], by popularity; `draw` is uniform in [0, 1)."""
        low, high = self._first[department], self._first[department + 1]
        cumulated = np.concatenate([[0.0], self._ends])
        target = cumulated[low] + draw * (cumulated[high] - cumulated[low])
        article: np.ndarray = self._order[np.clip(np.searchsorted(self._ends, target, side="right"), low, high - 1)]
        return article

    def draw_anywhere(self, draw: np.ndarray) -> np.ndarray:
        """An article of the whole shop for every line [L], by popularity; `draw` is uniform in [0, 1)."""
        place = np.searchsorted(self._shop_ends, draw * self._shop_ends[-1], side="right")
        article: np.ndarray = self._order[np.minimum(place, len(self._order) - 1)]
        return article


def _sell(
    visitors: np.ndarray,
    basket_lines: np.ndarray,
    customers: Customers,
    market: _Market,
    memory: np.ndarray,
    day: int,
    rng: np.random.Generator,
) -> DaySales:
    """Fill `basket_lines` [V] lines for the visitors [V]; writes their purchases into `memory` [C, _MEMORY]."""
    articles = market.articles
    online = rng.random(len(visitors)) < customers.online_share[visitors]
    rebate = np.where(rng.random(len(visitors)) < 0.05, 0.9, 1.0)
    buyer = visitors[np.repeat(np.arange(len(visitors)), basket_lines)]
    bought = _choose_articles(buyer, customers, market, memory, rng)
    lines = np.unique(buyer * len(articles.appeal) + bought)  # equal lines are one; copies are drawn below
    buyer, bought = np.divmod(lines, len(articles.appeal))
    memory[buyer, rng.integers(0, _MEMORY, len(buyer))] = bought
    visit = np.searchsorted(visitors, buyer)
    units = np.round(articles.list_price[bought] * market.discount[bought] * rebate[visit])
    copies = rng.geometric(_COPY_STOP, len(lines)) * (rng.random(len(lines)) < _DUPLICATE_SHARE)
    row = np.repeat(np.arange(len(lines)), 1 + copies)
    return DaySales(
        day=day,
        customer=buyer[row],
        article=bought[row],
        price=np.clip(units, 1, MAX_PRICE)[row] * PRICE_UNIT,
        channel=1 + online[visit][row].astype(np.int64),
    )


def _choose_articles(
    buyer: np.ndarray, customers: Customers, market: _Market, memory: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """An article for every line [L]: one bought before, one popular anywhere, or one of the buyer's departments."""
    kind = rng.random(len(buyer))
    taste = customers.taste[buyer]  # [L, T]
    weights = (np.array(TASTE_WEIGHTS) * market.department_weight[taste]).cumsum(axis=1)
    slot = (rng.random(len(buyer))[:, None] * weights[:, -1:] >= weights).sum(axis=1)
    department = taste[np.arange(len(buyer)), np.minimum(slot, taste.shape[1] - 1)]
    draw = rng.random(len(buyer))
    is_popular = kind < _REPEAT_SHARE + _POPULAR_SHARE
    article = np.where(is_popular, market.draw_anywhere(draw), market.draw_in(department, draw))
    remembered = memory[buyer, rng.integers(0, _MEMORY, len(buyer))]
    return np.where((kind < _REPEAT_SHARE) & (remembered >= 0), remembered, article)
