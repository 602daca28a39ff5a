"""Parts of a table -> one Parquet file: the same bytes however the rows arrive, in row groups of a bounded size."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ablate.workloads.relational.lookalike.row_groups import RowGroups

TABLE = pa.table({"number": list(range(25)), "word": [None if i == 7 else f"w{i}" for i in range(25)]})


def write(folder, cuts, rows_per_group):
    with RowGroups(folder, rows_per_group) as files:
        for start, end in zip([0, *cuts], [*cuts, 25], strict=True):
            files.append("db/t.parquet", TABLE.slice(start, end - start))
    return folder / "db" / "t.parquet"


def group_sizes(path):
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@pytest.mark.parametrize("cuts", [[], [3, 9, 24], [10, 20], [1, 2, 3, 4, 5, 23]])
def test_rows_are_cut_by_number_and_not_by_part(tmp_path, cuts):
    path = write(tmp_path / "parts", cuts, 10)
    assert group_sizes(path) == [10, 10, 5]
    assert pq.read_table(path).equals(TABLE)
    assert path.read_bytes() == write(tmp_path / "whole", [], 10).read_bytes()


def test_a_small_table_is_written_as_pyarrow_writes_it(tmp_path):
    pq.write_table(TABLE, tmp_path / "whole.parquet", compression="zstd")
    assert write(tmp_path, [8], 1 << 20).read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_only_an_unfinished_row_group_is_kept(tmp_path):
    with RowGroups(tmp_path, 10) as files:
        for start in range(0, 24, 4):
            files.append("a", TABLE.slice(start, 4))
            assert sum(table.num_rows for table in files._waiting.values()) == (start + 4) % 10
        files.append("b", TABLE.slice(0, 0))
        assert files.rows == {"a": 24, "b": 0}
    assert group_sizes(tmp_path / "a") == [10, 10, 4]
    assert pq.read_table(tmp_path / "b").num_rows == 0


def test_an_error_closes_the_files_and_writes_nothing_more(tmp_path):
    with pytest.raises(OSError, match="full"), RowGroups(tmp_path, 10) as files:
        files.append("a", TABLE)
        files.append("b", TABLE.slice(0, 5))
        raise OSError("full")
    assert not (tmp_path / "b").exists()
    assert group_sizes(tmp_path / "a") == [10, 10]
