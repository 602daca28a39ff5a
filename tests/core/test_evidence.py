"""The table of counters -> titles and units, also for a counter that an optimization brings or nobody declares."""

from __future__ import annotations

from ablate.core.evidence import COUNTERS, Counter, counter_of


def test_a_counter_is_looked_up_in_the_table_then_guessed_from_its_name() -> None:
    assert counter_of("compiles.forward") is COUNTERS["compiles.forward"]
    assert counter_of("padded_rows") == Counter(title="padded rows", unit="padded rows")
    assert not counter_of("padded_rows").device_only


def test_what_an_optimization_brings_comes_first() -> None:
    own = Counter(title="rows that are padding", unit="row")
    assert counter_of("padded_rows", {"padded_rows": own}) is own
    assert counter_of("graphs", {"padded_rows": own}) is COUNTERS["graphs"]
