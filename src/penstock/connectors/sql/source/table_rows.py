"""What is read of a table: its statements, and values of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from penstock.common.types import Row
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.sql.database import SqlDatabase, SqlError, checked_column, sqlalchemy
from penstock.connectors.sql.source.sqlite_values import Read, bound, day_of, reader_of


class TableRows(msgspec.Struct, frozen=True):
    """`column`: by which it is read. `columns`: those of the records; None: all. `condition`: which rows, as SQL."""

    name: str
    column: str
    columns: tuple[str, ...] | None = None
    condition: str | None = None
    record_class: type[Any] = Row

    def loaded(self, database: SqlDatabase) -> LoadedTable:
        """With the columns of the table. Raises SqlError or ConfigurationError."""
        table = database.table(self.name)
        key = checked_column(table, self.column)
        wanted = [checked_column(table, name) for name in self.columns or table.columns.keys()]
        if database.engine().dialect.name == "sqlite":
            return LoadedSqliteTable(self, table, key, wanted)
        return LoadedTable(self, table, key, wanted)


class LoadedTable:
    """Makes statements, and reads what they return."""

    def __init__(self, rows: TableRows, table: Any, key: Any, wanted: list[Any]) -> None:
        self._rows = rows
        self._table = table
        self.key = key
        self.wanted = wanted
        """The columns of records."""

    def values(self, rows: Sequence[Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
        """The value of the column and those of the record, for rows of `select`. Raises SqlError."""
        for row in rows:
            yield row[0], row[1:]

    def bound_values(self, row: Sequence[Any]) -> Sequence[Any]:
        """The row of `bounds`. Raises SqlError."""
        return row

    @property
    def names(self) -> list[str]:
        """Of the columns of records."""
        return [column.name for column in self.wanted]

    @property
    def is_by_time(self) -> bool:
        """Whether the column by which it is read has moments, or times of a day."""
        return isinstance(self.key.type, (sqlalchemy().DateTime, sqlalchemy().Time))

    def select(self, part: KeyRange) -> Any:
        """The rows of a range from its position on. The value of the column comes first in each.

        Rows with the same value are in the order of the primary key, or without one, of all that is read of them: then
        those that are equal are the same to the job. So they can be counted.
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
        """The least and the greatest value of the column, and how many rows have none (or None without rows)."""
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
        if self._rows.condition is None:
            return query
        # A colon in it is no parameter.
        text = self._rows.condition.replace(":", "\\:")
        return query.where(sqlalchemy().text(f"({text})"))


class LoadedSqliteTable(LoadedTable):
    """Has SQLite's driver give values as they are stored."""

    def __init__(self, rows: TableRows, table: Any, key: Any, wanted: list[Any]) -> None:
        super().__init__(rows, table, key, wanted)
        found = [(place, column.name, reader_of(column.type)) for place, column in enumerate(wanted)]
        self._readers = [(place, name, read) for place, name, read in found if read is not None]
        self._key_reader = day_of if isinstance(key.type, sqlalchemy().Date) else None

    def values(self, rows: Sequence[Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
        readers, column = self._readers, self._rows.column
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
        return key if reader is None or key is None else self._read(reader, self._rows.column, key)

    def _read(self, read: Read, name: str, value: Any, place: str = "") -> Any:
        try:
            return read(value)
        except (ValueError, ArithmeticError) as error:
            raise SqlError(
                f"{self._rows.name} has {value!r} in the column '{name}'{place}: {error}. Correct it, leave the column "
                "out with set_columns, or read a view that casts it to TEXT"
            ) from None
