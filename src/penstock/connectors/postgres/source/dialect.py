"""A table of PostgreSQL, and how psycopg reads it: its statements, and records of its rows."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.table_source import Fetched, TableDialect, TableFetcher, TableSession, record_maker
from penstock.connectors.postgres.connection import (
    UNREADABLE_REMEDY,
    Database,
    PostgresError,
    psycopg,
    quoted,
    quoted_table,
    translated,
    unreadable_value,
)

_HERE = "t"
_BY_PLACE = f"{_HERE}.tableoid, {_HERE}.ctid"
_BY_TEXT = f'({_HERE}.*)::text COLLATE "C"'
_WITHOUT_PLACES = ("v", "f")
"""Views and foreign tables, in pg_class."""
_SESSION = "penstock source"
_LONG_WAIT_S = 60.0
_OPEN = (
    "SELECT held.pid::text, held.virtualxid FROM pg_locks AS held JOIN pg_stat_activity AS one ON one.pid = held.pid "
    "WHERE held.locktype = 'virtualxid' AND held.granted AND held.pid <> pg_backend_pid() "
    # Not those of the server itself, such as autovacuum's.
    "AND one.usesysid IS NOT NULL "
    # Nor those of such sources, which only read, and may wait for each other to be read on.
    f"AND one.application_name <> '{_SESSION}' "
    "AND one.datid = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_log = logging.getLogger(__name__)


class PostgresTable(TableDialect):
    """`column`: by which it is read. `columns`: those of the records; None: all. `condition`: which rows, as SQL."""

    def __init__(
        self,
        *,
        database: Database,
        name: str,
        column: str,
        columns: tuple[str, ...] | None,
        condition: str | None,
        record_class: Callable[..., Any],
    ) -> None:
        self.database = database
        self.name = name
        self.column = column
        self.columns = columns
        self.condition = condition
        self.record_class = record_class

    def __str__(self) -> str:
        return f"{self.name} by {self.column}, {self.database}"

    def check(self) -> None:
        """Raise PostgresError if the server is away, SourceError if it refuses to read the table."""
        sql, parameters = self.rows(KeyRange(0), self.order_of(self._ask))
        self._ask(f"{sql} LIMIT 0", parameters)
        ((kind,),) = self._ask(self.type_of_column())
        if kind == "real":
            raise SourceError(
                f"the column '{self.column}' of {self.name} is real, whose values can't be compared exactly: rows "
                "would be missing after a restart. Take another column, or make it a double precision"
            )

    def bounds(self) -> Sequence[Any]:
        (bounds,) = self._ask(self.bounds_sql(), what=f"the column '{self.column}' of {self.name}")
        return tuple(bounds)

    def session(self, fetch_size: int) -> PostgresTableSession:
        return PostgresTableSession(self, fetch_size)

    def order_of(self, ask: Callable[[str, Sequence[Any]], list[Any]]) -> str:
        """What orders rows with the same value of the column, as SQL, so that they can be counted.

        It is their place in the table. Rows of a view have none: they are ordered by all of their values, and those
        that are equal are the same to the job. `ask` returns the rows of a query.
        """
        name = quoted_table(self.name).replace("%%", "%")
        kinds = ask("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", [name])
        return _BY_TEXT if kinds and kinds[0][0] in _WITHOUT_PLACES else _BY_PLACE

    def rows(self, split: KeyRange, order: str, upto: Any = None) -> tuple[str, list[Any]]:
        """The statement for the rows of a split from its position on, with `upto` as the last value, and parameters.

        The value of the column comes first in each row. `order`: of rows with the same value, see `order_of`.
        """
        key = f"{_HERE}.{quoted(self.column)}"
        wanted = ", ".join(f"{_HERE}.{quoted(name)}" for name in self.columns or ()) or f"{_HERE}.*"
        bounds = [
            (split.start, f"{key} > %s" if split.skip is None else f"{key} >= %s"),
            (split.stop, f"{key} < %s"),
            (upto, f"{key} <= %s"),
        ]
        given = [(value, text) for value, text in bounds if value is not None]
        sql = f"SELECT {key}, {wanted} FROM {self._from([text for _, text in given])}"
        sql += f" ORDER BY {key}, {order} OFFSET %s"
        return sql, [*(value for value, _ in given), split.skip or 0]

    def bounds_sql(self) -> str:
        """The statement for the least and the greatest value of the column, and whether a row has none."""
        key = f"{_HERE}.{quoted(self.column)}"
        table = f"{quoted_table(self.name)} AS {_HERE}"
        nulls = f"EXISTS(SELECT FROM {table} WHERE {key} IS NULL)"
        return f"SELECT (SELECT min({key}) FROM {table}), (SELECT max({key}) FROM {table}), {nulls}"

    def type_of_column(self) -> str:
        """The statement for the name of the column's type."""
        key = f"{_HERE}.{quoted(self.column)}"
        return f"SELECT pg_typeof((SELECT {key} FROM {quoted_table(self.name)} AS {_HERE} LIMIT 0))::text"

    def newest(self, split: KeyRange) -> tuple[str, list[Any]]:
        """The statement for the greatest value behind a position, and its parameters."""
        key = f"{_HERE}.{quoted(self.column)}"
        conditions = [] if split.start is None else [f"{key} > %s" if split.skip is None else f"{key} >= %s"]
        return f"SELECT max({key}) FROM {self._from(conditions)}", [] if split.start is None else [split.start]

    def _from(self, conditions: Sequence[str]) -> str:
        every = list(conditions)
        if self.condition is not None:
            every.append("(" + self.condition.replace("%", "%%") + ")")
        where = f" WHERE {' AND '.join(every)}" if every else ""
        return f"{quoted_table(self.name)} AS {_HERE}{where}"

    def _ask(self, sql: str, parameters: Sequence[Any] = (), what: str | None = None) -> list[Any]:
        with self.database.connect(_SESSION) as connection:
            try:
                rows: list[Any] = connection.execute(sql, parameters).fetchall()
                return rows
            except psycopg().Error as error:
                text = self.database.hide(str(error).strip())
                raise SourceError(f"{what or self.name} can't be read from {self.database}: {text}") from None


class PostgresTableSession(TableSession):
    """Reads ranges of a table over one connection."""

    def __init__(self, table: PostgresTable, fetch_size: int) -> None:
        self._table = table
        self._fetch_size = fetch_size
        self._package = psycopg()
        self._connection: Any = None
        self._order: str | None = None

    def read(self, part: KeyRange) -> Generator[Fetched, None, None]:
        with self._errors():
            self._connect()
            yield from self._rows(part, None)

    def interrupt(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(self._package.Error):
                connection.cancel_safe(timeout=1.0)

    def close(self, batches: Generator[Fetched, None, None] | None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if batches is not None:
            # Its transaction has ended with the connection.
            with contextlib.suppress(PostgresError, self._package.Error):
                batches.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._package.Error as error:
            text = f"{self._table.name} can't be read from PostgreSQL at {self._table.database}: "
            raise translated(error, text + self._table.database.hide(str(error).strip())) from None

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._table.database.connect(_SESSION)
        if self._order is None:
            self._order = self._table.order_of(self._ask)

    def _rows(self, part: KeyRange, upto: Any) -> Generator[Fetched, None, None]:
        """Yield the rows of a range, with `upto` as the last value; None: the bound of the range."""
        assert self._order is not None
        sql, parameters = self._table.rows(part, self._order, upto)
        with self._connection.transaction(), self._connection.cursor("penstock") as cursor:
            cursor.execute(sql, parameters)
            make = record_maker(self._table.record_class, [column.name for column in cursor.description[1:]])
            while rows := self._fetched(cursor):
                yield Fetched([make(row[1:]) for row in rows], [row[0] for row in rows])

    def _fetched(self, cursor: Any) -> list[Any]:
        try:
            rows: list[Any] = cursor.fetchmany(self._fetch_size)
            return rows
        except self._package.DataError as error:
            if (place := unreadable_value(cursor)) is None:
                raise
            raise SourceError(f"{self._table.name} can't be read: {place}: {error}. {UNREADABLE_REMEDY}") from None

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._connection.execute(sql, parameters).fetchall()
        return rows


class NewRowsSession(PostgresTableSession):
    """Reads the rows that were added behind a position, by a column whose values grow.

    `pause` waits between two looks at open transactions, `is_closing` says that the wait is to end.
    """

    def __init__(
        self, table: PostgresTable, fetch_size: int, *, pause: Callable[[], None], is_closing: Callable[[], bool]
    ) -> None:
        super().__init__(table, fetch_size)
        self._pause = pause
        self._is_closing = is_closing

    def read(self, part: KeyRange) -> Generator[Fetched, None, None]:
        """Yield the rows from the position on that are there now."""
        with self._errors():
            self._connect()
            upto = self._settled(part)
            if upto is not None:
                yield from self._rows(part, upto)
                yield Fetched([], [upto], is_whole=True)

    def _settled(self, part: KeyRange) -> Any:
        """The greatest value at present, when all transactions that could still add a lesser one have ended.

        A value may be taken from a sequence before another and be committed after it. Who has taken it has perhaps
        written nothing yet, and has no xid that a snapshot could name: so all transactions that are open are waited
        for, as CREATE INDEX CONCURRENTLY does.
        """
        ((newest,),) = self._ask(*self._table.newest(part))
        if newest is None or (newest == part.start and part.skip is None):
            return None
        ((running,),) = self._ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        left, began_s, is_told = self._open_transactions(), time.monotonic(), False
        while not self._is_closing():
            ((oldest,),) = self._ask("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            left &= self._open_transactions()
            if oldest >= running and not left:
                return newest
            if not is_told and time.monotonic() - began_s > _LONG_WAIT_S:
                is_told = True
                _log.warning(
                    "the source of %s waits for transactions that were open when its newest row was seen, and could "
                    "still add a row before it: those of the server processes %s (pg_stat_activity)",
                    self._table.name,
                    ", ".join(sorted(pid for pid, _ in left)) or "that are prepared, in pg_prepared_xacts",
                )
            self._pause()
        return None

    def _open_transactions(self) -> set[tuple[str, str]]:
        """Return the other users' open transactions in this database, with the process of each."""
        return set(self._ask(_OPEN))


class NewRowsFetcher(TableFetcher):
    """Fetches rows without an end: looks for new ones every `poll_interval_s` seconds."""

    def __init__(
        self,
        table: PostgresTable,
        part: KeyRange,
        *,
        fetch_size: int,
        max_retries: int,
        poll_interval_s: float,
        notify: Callable[[], None],
    ) -> None:
        self._poll_interval_s = poll_interval_s
        session = NewRowsSession(table, fetch_size, pause=self.range_ended, is_closing=lambda: self.handover.is_closing)
        super().__init__(session, part, max_retries, notify)

    def range_ended(self) -> None:
        """Wait until the next look."""
        self.handover.pause(self._poll_interval_s)
