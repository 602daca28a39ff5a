"""Tables that arrive in parts -> one Parquet file per path, written by row groups so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_GROUP = 1 << 20  # pyarrow's own default: a table of fewer rows is one row group


class RowGroups:
    """Writes tables below a folder; use as a context manager, which writes what is left.

    Rows are kept until a row group is full, so the bytes of a file depend on its rows and not on how they were cut
    into parts.

    Args:
        folder: Where the files go; folders below it are made.
        rows_per_group: Rows of every row group but a file's last.
    """

    def __init__(self, folder: Path, rows_per_group: int = ROWS_PER_GROUP) -> None:
        self._folder, self._rows_per_group = folder, rows_per_group
        self._waiting: dict[str, pa.Table] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows: dict[str, int] = {}
        self._open = ExitStack()

    def __enter__(self) -> RowGroups:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:  # closes every file, also after an error
            if kind is None:
                for path in list(self._waiting):
                    self._write(path, self._waiting.pop(path))

    @property
    def rows(self) -> Mapping[str, int]:
        """Rows given so far, by path."""
        return self._rows

    def append(self, path: str, table: pa.Table) -> None:
        """Add rows to a file, given by its path below the folder; its first part decides the columns."""
        self._rows[path] = self._rows.get(path, 0) + table.num_rows
        if path in self._waiting:
            table = pa.concat_tables([self._waiting.pop(path), table])
        size = self._rows_per_group
        whole = table.num_rows // size * size
        for start in range(0, whole, size):
            self._write(path, table.slice(start, size))
        if whole:  # copied, so that it does not keep the written rows alive
            table = table.slice(whole).combine_chunks()
        if table.num_rows or path not in self._writers:
            self._waiting[path] = table

    def _write(self, path: str, group: pa.Table) -> None:
        if path not in self._writers:
            place = self._folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(place, group.schema, compression="zstd")
            self._writers[path] = self._open.enter_context(writer)
        self._writers[path].write_table(group.combine_chunks(), row_group_size=self._rows_per_group)
