"""A table of PostgreSQL, and how psycopg reads it: its statements, and records of its rows."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from penstock.common.errors import SourceError
from penstock.common.types import Row
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.table_source import (
    Fetched,
    TableDialect,
    TableFetcher,
    TableSession,
    inexact,
    record_maker,
)
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

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

_ALIAS = "t"
_BY_PLACE = f"{_ALIAS}.tableoid, {_ALIAS}.ctid"
_BY_TEXT = f'({_ALIAS}.*)::text COLLATE "C"'
_WITHOUT_PLACES = ("v", "f")
"""Views and foreign tables, in pg_class."""
_INEXACT = {"real": ", or change its type to double precision", "interval": ""}
"""Types whose values are others in Python, to which the server compares a row: -> what else to do."""
SESSION = "penstock source"
"""The name of its connections."""
_LONG_WAIT_S = 60.0
_OPEN = (
    "SELECT held.pid::text, held.virtualxid FROM pg_locks AS held JOIN pg_stat_activity AS one ON one.pid = held.pid "
    "WHERE held.locktype = 'virtualxid' AND held.granted AND held.pid <> pg_backend_pid() "
    # Except the server's own, such as those of autovacuum.
    "AND one.usesysid IS NOT NULL "
    # Except such sources, which only read, and could otherwise wait for each other.
    f"AND one.application_name <> '{SESSION}' "
    "AND one.datid = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_log = logging.getLogger(__name__)


class PostgresTable(TableDialect[Database]):
    """A table that psycopg reads. `as_columns`: the columns of batches, which are read in place of records."""

    as_columns: RecordColumns | None = None

    def on_columns(self, columns: RecordColumns) -> PostgresTable | None:
        """Return the table as batches of these columns; None if its records have other fields."""
        has_all = self.columns is None or set(columns.names) <= set(self.columns)
        if self.record_class not in (Row, dict) or not has_all:
            return None
        table = copy(self)
        table.columns, table.as_columns = columns.names, columns
        return table

    def maker(self, names: Sequence[str]) -> Callable[[list[Any]], Any]:
        """Return a function from rows, whose first value is the key, to their records. `names`: of the others."""
        if self.as_columns is not None:
            # Programs on rows import nothing of columns.
            from penstock.connectors.postgres.source.columns import batch_maker

            return batch_maker(self.name, self.as_columns)
        make = record_maker(self.record_class, names)
        return lambda rows: [make(row[1:]) for row in rows]

    def check(self) -> None:
        """Raise PostgresError if the server is unavailable, SourceError if it refuses to read the table."""
        sql, parameters = self.rows(KeyRange(0), self.order_of(self._query))
        self._query(f"{sql} LIMIT 0", parameters)
        kinds = {kind for (kind,) in self._query(self.types_of_column())}
        for kind, remedy in _INEXACT.items():
            if kind in kinds:
                raise SourceError(inexact(self.column, self.name, kind, remedy))

    def bounds(self) -> Sequence[Any]:
        (bounds,) = self._query(self.bounds_sql(), what=f"the column '{self.column}' of {self.name}")
        return tuple(bounds)

    def session(self, fetch_size: int) -> PostgresTableSession:
        return PostgresTableSession(self, fetch_size)

    def order_of(self, query: Callable[[str, Sequence[Any]], list[Any]]) -> str:
        """Return the order of rows with the same value of the column, as SQL, by which they are counted.

        It is their place in the table. Rows of a view have no place: they are ordered by all of their values; rows with
        equal values are interchangeable. `query` returns the rows of a query.
        """
        name = quoted_table(self.name).replace("%%", "%")
        kinds = query("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", [name])
        return _BY_TEXT if kinds and kinds[0][0] in _WITHOUT_PLACES else _BY_PLACE

    def rows(self, split: KeyRange, order: str, upto: Any = None) -> tuple[str, list[Any]]:
        """Return the statement for the rows of a split from its position to `upto`, and its parameters.

        The value of the column comes first in each row. `order`: of rows with the same value, see `order_of`.
        """
        key = f"{_ALIAS}.{quoted(self.column)}"
        wanted = ", ".join(f"{_ALIAS}.{quoted(name)}" for name in self.columns or ()) or f"{_ALIAS}.*"
        bounds = [
            (split.start, f"{key} > %s" if split.skip is None else f"{key} >= %s"),
            (split.stop, f"{key} < %s"),
            (upto, f"{key} <= %s"),
        ]
        bounded = [(value, text) for value, text in bounds if value is not None]
        sql = f"SELECT {key}, {wanted} FROM {self._from([text for _, text in bounded])}"
        sql += f" ORDER BY {key}, {order} OFFSET %s"
        return sql, [*(value for value, _ in bounded), split.skip or 0]

    def bounds_sql(self) -> str:
        """Return the statement for the least and the greatest value of the column, and whether a row has NULL."""
        key = f"{_ALIAS}.{quoted(self.column)}"
        table = f"{quoted_table(self.name)} AS {_ALIAS}"
        nulls = f"EXISTS(SELECT FROM {table} WHERE {key} IS NULL)"
        return f"SELECT (SELECT min({key}) FROM {table}), (SELECT max({key}) FROM {table}), {nulls}"

    def types_of_column(self) -> str:
        """Return the statement for the names of the column's type, and of the types under it if it is a domain."""
        key = f"{_ALIAS}.{quoted(self.column)}"
        return (
            f"WITH RECURSIVE kinds AS (SELECT pg_typeof((SELECT {key} FROM {quoted_table(self.name)} AS {_ALIAS} "
            "LIMIT 0))::oid AS oid UNION SELECT typbasetype FROM kinds JOIN pg_type ON pg_type.oid = kinds.oid "
            "WHERE typbasetype <> 0) SELECT oid::regtype::text FROM kinds"
        )

    def newest(self, split: KeyRange) -> tuple[str, list[Any]]:
        """Return the statement for the greatest value after a position, and its parameters."""
        key = f"{_ALIAS}.{quoted(self.column)}"
        conditions = [] if split.start is None else [f"{key} > %s" if split.skip is None else f"{key} >= %s"]
        return f"SELECT max({key}) FROM {self._from(conditions)}", [] if split.start is None else [split.start]

    def _from(self, conditions: Sequence[str]) -> str:
        every = list(conditions)
        if self.condition is not None:
            every.append("(" + self.condition.replace("%", "%%") + ")")
        where = f" WHERE {' AND '.join(every)}" if every else ""
        return f"{quoted_table(self.name)} AS {_ALIAS}{where}"

    def _query(self, sql: str, parameters: Sequence[Any] = (), what: str | None = None) -> list[Any]:
        with self.database.connect(SESSION) as connection:
            try:
                rows: list[Any] = connection.execute(sql, parameters).fetchall()
                return rows
            except psycopg().Error as error:
                text = self.database.hide(str(error).strip())
                raise SourceError(f"cannot read {what or self.name} from {self.database}: {text}") from None


class PostgresTableSession(TableSession):
    """Read ranges of a table over one connection."""

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
            text = f"cannot read {self._table.name} from PostgreSQL at {self._table.database}: "
            raise translated(error, text + self._table.database.hide(str(error).strip())) from None

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._table.database.connect(SESSION)
        if self._order is None:
            self._order = self._table.order_of(self._query)

    def _rows(self, part: KeyRange, upto: Any) -> Generator[Fetched, None, None]:
        """Yield the rows of a range up to the value `upto`, or up to the bound of the range."""
        assert self._order is not None
        sql, parameters = self._table.rows(part, self._order, upto)
        with self._connection.transaction(), self._connection.cursor("penstock") as cursor:
            cursor.execute(sql, parameters)
            make = self._table.maker([column.name for column in cursor.description[1:]])
            while rows := self._fetched(cursor):
                yield Fetched(make(rows), [row[0] for row in rows])

    def _fetched(self, cursor: Any) -> list[Any]:
        try:
            rows: list[Any] = cursor.fetchmany(self._fetch_size)
            return rows
        except self._package.DataError as error:
            if (place := unreadable_value(cursor)) is None:
                raise
            raise SourceError(f"cannot read {self._table.name}: {place}: {error}. {UNREADABLE_REMEDY}") from None

    def _query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._connection.execute(sql, parameters).fetchall()
        return rows


class NewRowsSession(PostgresTableSession):
    """Read the rows that were added after a position, by a column whose values grow.

    `pause` waits between two checks of open transactions, `is_closing` ends the wait.
    """

    def __init__(
        self, table: PostgresTable, fetch_size: int, *, pause: Callable[[], None], is_closing: Callable[[], bool]
    ) -> None:
        super().__init__(table, fetch_size)
        self._pause = pause
        self._is_closing = is_closing

    def read(self, part: KeyRange) -> Generator[Fetched, None, None]:
        """Yield the present rows after the position."""
        with self._errors():
            self._connect()
            upto = self._settled_maximum(part)
            if upto is not None:
                yield from self._rows(part, upto)
                yield Fetched([], [upto], is_key_read=True)

    def _settled_maximum(self, part: KeyRange) -> Any:
        """Return the present greatest value, once no open transaction can add a smaller one.

        A transaction may take a value from a sequence before another one and commit after it. Until it writes it has no
        xid that a snapshot could contain: so wait for all open transactions, like CREATE INDEX CONCURRENTLY.
        """
        ((newest,),) = self._query(*self._table.newest(part))
        if newest is None or (newest == part.start and part.skip is None):
            return None
        ((running,),) = self._query("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        left, began_s, is_logged = self._open_transactions(), time.monotonic(), False
        while not self._is_closing():
            ((oldest,),) = self._query("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            left &= self._open_transactions()
            if oldest >= running and not left:
                return newest
            if not is_logged and time.monotonic() - began_s > _LONG_WAIT_S:
                is_logged = True
                _log.warning(
                    "the source of %s waits for transactions that were open when its newest row was read, and could "
                    "add a row before it: those of the server processes %s (pg_stat_activity)",
                    self._table.name,
                    ", ".join(sorted(pid for pid, _ in left)) or "that are prepared, in pg_prepared_xacts",
                )
            self._pause()
        return None

    def _open_transactions(self) -> set[tuple[str, str]]:
        """Return the other users' open transactions in this database, with the process of each."""
        return set(self._query(_OPEN))


class NewRowsFetcher(TableFetcher):
    """Fetch rows without an end: query new ones every `poll_interval_s` seconds."""

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
        """Wait until the next query."""
        self.handover.pause(self._poll_interval_s)
