"""A table of any database, and how SQLAlchemy reads it: its statements, and values of its rows."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from penstock.common.errors import ConfigurationError, SourceError
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.table_source import Fetched, TableDialect, TableSession, inexact, record_maker
from penstock.connectors.sql.database import (
    VALUE_ERRORS,
    SqlDatabase,
    SqlError,
    TransientSqlError,
    checked_column,
    sqlalchemy,
)
from penstock.connectors.sql.source.sqlite_values import Read, bound, day_of, reader_of

_SHORT_FLOATS = ("REAL", "BINARY_FLOAT")
_SHORT_FLOATS_OF = {"mysql": ("FLOAT",), "mariadb": ("FLOAT",)}
_FLOAT_BITS, _DOUBLE_BITS = 24, 53
"""Binary digits of floats of 32 and 64 bits, in SQL's FLOAT(n)."""


class SqlTable(TableDialect[SqlDatabase]):
    """A table that SQLAlchemy reads."""

    def check(self) -> None:
        """Raise SqlError or ConfigurationError if the table cannot be read."""
        loaded = self.loaded()
        self._query(loaded.select(KeyRange(0)).limit(0))
        if (kind := loaded.inexact_type(self.database.engine().dialect.name)) is not None:
            raise ConfigurationError(inexact(self.column, self.name, kind))
        if self.database.engine().dialect.name == "sqlite" and loaded.is_by_time:
            raise ConfigurationError(
                f"the column '{self.column}' of {self.name} is a time, which SQLite stores as a text of any form: rows "
                "would be missing after a restart. Choose another column"
            )

    def bounds(self) -> Sequence[Any]:
        table = self.loaded()
        (row,) = self._query(table.bounds(), f" cannot read the column '{self.column}' of {self.name}")
        return table.bound_values(row)

    def session(self, fetch_size: int) -> SqlSession:
        return SqlSession(self, fetch_size)

    def loaded(self) -> LoadedTable:
        """Return the table with the columns that the database has. Raise SqlError or ConfigurationError."""
        table = self.database.table(self.name)
        key = checked_column(table, self.column)
        wanted = [checked_column(table, name) for name in self.columns or table.columns.keys()]
        if self.database.engine().dialect.name == "sqlite":
            return LoadedSqliteTable(self, table, key, wanted)
        return LoadedTable(self, table, key, wanted)

    def _query(self, query: Any, what: str = "") -> list[Any]:
        try:
            with self.database.engine().connect() as connection:
                return list(connection.execute(query))
        except (sqlalchemy().exc.SQLAlchemyError, *VALUE_ERRORS) as error:
            raise self.database.translated(error, what) from None


class SqlSession(TableSession):
    """Read ranges of a table over one connection."""

    def __init__(self, source: SqlTable, fetch_size: int) -> None:
        self._source = source
        self._fetch_size = fetch_size
        self._connection: Any = None

    def read(self, part: KeyRange) -> Generator[Fetched, None, None]:
        table = self._source.loaded()
        make = record_maker(self._source.record_class, table.names)
        # Counted here, because some databases have no OFFSET.
        left = part.skip or 0
        rows = self._rows(table, part)
        while (batch := self._next(rows, table, part)) is not None:
            unread, left = batch[left:], max(0, left - len(batch))
            if unread:
                keys, values = zip(*table.values(unread), strict=True)
                fetched = Fetched([make(tuple(row)) for row in values], list(keys))
                part = fetched.behind(part)
                yield fetched

    def close(self, batches: Generator[Fetched, None, None] | None) -> None:
        connection, self._connection = self._connection, None
        with contextlib.suppress(sqlalchemy().exc.SQLAlchemyError):
            if batches is not None:
                batches.close()
            if connection is not None:
                connection.close()

    def _rows(self, table: LoadedTable, part: KeyRange) -> Iterator[Sequence[Any]]:
        options = {"stream_results": True, "max_row_buffer": self._fetch_size}
        self._connection = self._source.database.engine().connect()
        result = self._connection.execution_options(**options).execute(table.select(part))
        yield from result.partitions(self._fetch_size)

    def _next(self, rows: Iterator[Sequence[Any]], table: LoadedTable, part: KeyRange) -> Sequence[Any] | None:
        """Return the next batch, or None at the end. `part`: from the position of that batch on. Raise SqlError."""
        try:
            return next(rows, None)
        except (sqlalchemy().exc.SQLAlchemyError, *VALUE_ERRORS) as error:
            failed = self._source.database.translated(error, f" cannot read {self._source.name}")
            if isinstance(failed, TransientSqlError):
                raise failed from None
            with contextlib.suppress(SqlError, sqlalchemy().exc.SQLAlchemyError):
                if (place := self._unreadable(table, part)) is not None:
                    raise SourceError(f"{failed}\nIn {self._source.name}, {place}") from None
            raise failed from None

    def _unreadable(self, table: LoadedTable, part: KeyRange) -> str | None:
        """Describe the first value in a batch that the driver cannot read, or return None.

        Errors of drivers do not name the column.
        """
        package = sqlalchemy()
        query = table.select(part).limit((part.skip or 0) + self._fetch_size)
        with self._source.database.engine().connect() as connection:
            for column in table.wanted:
                row = _first_failing(connection, query.with_only_columns(column))
                if row is None:
                    continue
                texts = [package.cast(one, package.String) for one in (table.key, column)]
                with contextlib.suppress(package.exc.SQLAlchemyError, IndexError):
                    key, text = connection.execute(query.with_only_columns(*texts)).all()[row]
                    return f"the column '{column.name}' has {text!r} in a row with {table.key.name} = {key}"
                return f"the column '{column.name}' has a value that its driver cannot read"
        return None


def _first_failing(connection: Any, query: Any) -> int | None:
    row = 0
    try:
        options = {"stream_results": True, "max_row_buffer": 1}
        for _ in connection.execution_options(**options).execute(query):
            row += 1
    except (sqlalchemy().exc.SQLAlchemyError, *VALUE_ERRORS):
        connection.rollback()
        return row
    connection.rollback()
    return None


class LoadedTable:
    """Make statements, and read their results."""

    def __init__(self, source: SqlTable, table: Any, key: Any, wanted: list[Any]) -> None:
        self._source = source
        self._table = table
        self.key = key
        self.wanted = wanted
        """The columns of records."""

    def values(self, rows: Sequence[Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
        """Yield the value of the column and those of the record, for rows of `select`. Raise SqlError."""
        for row in rows:
            yield row[0], row[1:]

    def bound_values(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the row of `bounds`. Raise SqlError."""
        return row

    @property
    def names(self) -> list[str]:
        """Return the names of the columns of records."""
        return [column.name for column in self.wanted]

    @property
    def is_by_time(self) -> bool:
        """Return whether the column by which it is read has timestamps, or times of day."""
        return isinstance(self.key.type, (sqlalchemy().DateTime, sqlalchemy().Time))

    def inexact_type(self, dialect: str) -> str | None:
        """Return the type of the column by which it is read, if Python has no equal values; else None.

        `dialect` determines which floats have 32 bits.
        """
        # The type under a domain of PostgreSQL.
        kind = getattr(self.key.type, "data_type", self.key.type)
        name = kind.__visit_name__.upper()
        if name == "INTERVAL":
            return "an interval"
        if isinstance(kind, sqlalchemy().types.Float) and dialect != "sqlite":
            is_short = name in _SHORT_FLOATS or name in _SHORT_FLOATS_OF.get(dialect, ())
            if is_short or (kind.precision or _DOUBLE_BITS) <= _FLOAT_BITS:
                return "a float of 32 bits"
        return None

    def select(self, part: KeyRange) -> Any:
        """Return the statement for the rows of a range from its position on.

        The value of the column comes first in each.

        Rows with the same value are ordered by the primary key, so that they can be counted. Without one, all read
        columns order them; rows with equal values are interchangeable.
        """
        key = self._selected(self.key)
        start, stop = self._bound(part.start), self._bound(part.stop)
        wanted = map(self._selected, self.wanted)
        query = sqlalchemy().select(key.label("penstock_key"), *wanted).select_from(self._table)
        if start is not None:
            query = query.where(key > start if part.skip is None else key >= start)
        if stop is not None:
            query = query.where(key < stop)
        ties = list(self._table.primary_key.columns) or self.wanted
        query = query.order_by(self.key, *(column for column in ties if column is not self.key))
        return self._where(query)

    def bounds(self) -> Any:
        """Return the statement for the least and greatest value, and the number of NULLs (NULL without rows)."""
        package = sqlalchemy()
        key = self._selected(self.key)
        nulls = package.func.sum(package.case((key.is_(None), 1), else_=0))
        query = package.select(package.func.min(key), package.func.max(key), nulls).select_from(self._table)
        return self._where(query)

    def _selected(self, column: Any) -> Any:
        return column

    def _bound(self, value: Any) -> Any:
        return value

    def _where(self, query: Any) -> Any:
        if self._source.condition is None:
            return query
        # A colon in it is not a parameter.
        text = self._source.condition.replace(":", "\\:")
        return query.where(sqlalchemy().text(f"({text})"))


class LoadedSqliteTable(LoadedTable):
    """Let SQLite's driver return values as they are stored."""

    def __init__(self, source: SqlTable, table: Any, key: Any, wanted: list[Any]) -> None:
        super().__init__(source, table, key, wanted)
        found = [(place, column.name, reader_of(column.type)) for place, column in enumerate(wanted)]
        self._readers = [(place, name, read) for place, name, read in found if read is not None]
        self._key_reader = day_of if isinstance(key.type, sqlalchemy().Date) else None

    def values(self, rows: Sequence[Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
        readers, column = self._readers, self._source.column
        for row in rows:
            key, values = row[0], row[1:]
            if readers:
                values = list(values)
                for place, name, read in readers:
                    if values[place] is not None:
                        values[place] = self._read(read, name, values[place], f", in a row with {column} = {key!r}")
            yield self._key_value(key), values

    def bound_values(self, row: Sequence[Any]) -> Sequence[Any]:
        return (self._key_value(row[0]), self._key_value(row[1]), *row[2:])

    def _selected(self, column: Any) -> Any:
        package = sqlalchemy()
        return package.type_coerce(column, package.types.NullType())

    def _bound(self, value: Any) -> Any:
        return bound(value)

    def _key_value(self, key: Any) -> Any:
        reader = self._key_reader
        return key if reader is None or key is None else self._read(reader, self._source.column, key)

    def _read(self, read: Read, name: str, value: Any, place: str = "") -> Any:
        try:
            return read(value)
        except (ValueError, ArithmeticError) as error:
            raise SqlError(
                f"{self._source.name} has {value!r} in the column '{name}'{place}: {error}. Correct it, omit the "
                "column from `columns`, or read a view that casts it to TEXT"
            ) from None
