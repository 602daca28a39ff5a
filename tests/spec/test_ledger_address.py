"""`ledger:` in a spec: an address of PostgreSQL without a password, which no screen ever shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.study import Study
from ablate.spec.errors import SpecError
from ablate.spec.reader import read_study
from builders import make_catalog_of_builtins

SPEC = """\
study: mine
workloads: [hm/user-churn]
data: {dataset: look-alike, scale: tiny}
optimizations: {dynamic_shapes: both}
ledger: LEDGER
"""


def read(folder: Path, ledger: str) -> Study:
    path = folder / "spec.yaml"
    path.write_text(SPEC.replace("LEDGER", ledger), encoding="utf-8")
    return read_study(path, catalog=make_catalog_of_builtins())


def test_the_address_is_read_and_makes_no_other_study(tmp_path: Path) -> None:
    here, there = read(tmp_path, "postgresql://me@host/one"), read(tmp_path, "postgresql://host:5433/two")
    assert here.ledger == "postgresql://me@host/one"
    assert here.hash == there.hash == read(tmp_path, "null").hash


@pytest.mark.parametrize(
    "ledger", ["postgresql://me:hunter2@host/one", "postgresql://host/one?user=me&password=hunter2"]
)
def test_a_password_is_refused_and_not_repeated(ledger: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, ledger)
    (fault,) = caught.value.faults
    assert (fault.position.line, fault.position.column) == (5, 9)
    assert "leave the password out; put it in ~/.pgpass, PGPASSWORD or ABLATE_LEDGER" in fault.text
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).splitlines()[-1].index("^") == 4 + 8


def test_another_kind_of_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match="expected the address of a PostgreSQL database, such as postgresql://user@host"
    ):
        read(tmp_path, "sqlite:///ledger.db")
