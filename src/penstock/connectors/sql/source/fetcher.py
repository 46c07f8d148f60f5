"""Reads rows on a thread of its own, a batch at a time. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.key_range_reader import Fetched
from penstock.connectors.base.record_maker import record_maker
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.sql.database import OF_VALUES, SqlDatabase, SqlError, TransientSqlError, sqlalchemy
from penstock.connectors.sql.source.table_rows import LoadedTable, TableRows
from penstock.connectors.sql.source.unreadable import place_of_unreadable

_BATCHES_MAX = 3
"""How many wait for the reader at most."""


class SqlFetcher(SplitFetcher[Fetched]):
    """Fetches one range. A connection that is lost is made again, and reading goes on at the row where it was."""

    def __init__(
        self,
        database: SqlDatabase,
        rows: TableRows,
        part: KeyRange,
        fetch_size: int,
        max_retries: int,
        notify: Callable[[], None],
    ) -> None:
        super().__init__("penstock-sql", _BATCHES_MAX, notify, max_retries)
        self._database = database
        self._rows = rows
        self._part = part
        self._fetch_size = fetch_size
        self._connection: Any = None
        self._batches: Generator[Fetched, None, None] | None = None
        """Of the query that runs."""
        self._is_read = False
        self.start()

    def fetch(self) -> None:
        if self._is_read:
            self.hold()
            return
        if self._batches is None:
            self._batches = self._read()
        self.handover.put(next(self._batches))

    def disconnect(self) -> None:
        batches, self._batches = self._batches, None
        connection, self._connection = self._connection, None
        with contextlib.suppress(sqlalchemy().exc.SQLAlchemyError):
            if batches is not None:
                batches.close()
            if connection is not None:
                connection.close()

    def _read(self) -> Generator[Fetched, None, None]:
        table = self._rows.loaded(self._database)
        make = record_maker(self._rows.record_class, table.names)
        left = self._part.skip or 0
        # Counted here: not every database has an OFFSET.
        for rows in self._partitions(table):
            kept, left = rows[left:], max(0, left - len(rows))
            if kept:
                keys, values = zip(*table.values(kept), strict=True)
                self._part = self._part.after(keys)
                yield Fetched([make(tuple(row)) for row in values], list(keys))
        self._is_read = True
        yield Fetched([], [], is_last=True)

    def _partitions(self, table: LoadedTable) -> Generator[Sequence[Any], None, None]:
        """Rows of the range, a batch at a time. Raises SqlError."""
        options = {"stream_results": True, "max_row_buffer": self._fetch_size}
        try:
            self._connection = self._database.engine().connect()
            result = self._connection.execution_options(**options).execute(table.select(self._part))
            yield from result.partitions(self._fetch_size)
        except (sqlalchemy().exc.SQLAlchemyError, *OF_VALUES) as error:
            failed = self._database.translated(error, f" can't read {self._rows.name}")
            if isinstance(failed, TransientSqlError):
                raise failed from None
            with contextlib.suppress(SqlError, sqlalchemy().exc.SQLAlchemyError):
                if (place := place_of_unreadable(self._database, table, self._part, self._fetch_size)) is not None:
                    raise SourceError(f"{failed}\nIn {self._rows.name}, {place}") from None
            raise failed from None
