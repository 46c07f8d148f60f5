"""What is read of a table: its statements."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.common.types import Row
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.sql.database import SqlDatabase, checked_column, sqlalchemy


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
        return LoadedTable(self, table, key, wanted)


class LoadedTable:
    """Makes statements."""

    def __init__(self, rows: TableRows, table: Any, key: Any, wanted: list[Any]) -> None:
        self._rows = rows
        self._table = table
        self._key = key
        self._wanted = wanted

    @property
    def names(self) -> list[str]:
        """Of the columns of records."""
        return [column.name for column in self._wanted]

    @property
    def is_by_time(self) -> bool:
        """Whether the column by which it is read has moments, or times of a day."""
        return isinstance(self._key.type, (sqlalchemy().DateTime, sqlalchemy().Time))

    def select(self, part: KeyRange) -> Any:
        """The rows of a range from its position on. The value of the column comes first in each.

        Rows with the same value are in the order of the primary key, or without one, of all that is read of them: then
        those that are equal are the same to the job. So they can be counted.
        """
        package = sqlalchemy()
        key = self._key
        query = package.select(key.label("penstock_key"), *self._wanted).select_from(self._table)
        if part.start is not None:
            query = query.where(key > part.start if part.skip is None else key >= part.start)
        if part.stop is not None:
            query = query.where(key < part.stop)
        ties = list(self._table.primary_key.columns) or self._wanted
        query = query.order_by(key, *(column for column in ties if column is not key))
        return self._where(query)

    def bounds(self) -> Any:
        """The least and the greatest value of the column, and how many rows have none (or None without rows)."""
        package = sqlalchemy()
        key = self._key
        nulls = package.func.sum(package.case((key.is_(None), 1), else_=0))
        query = package.select(package.func.min(key), package.func.max(key), nulls).select_from(self._table)
        return self._where(query)

    def _where(self, query: Any) -> Any:
        if self._rows.condition is None:
            return query
        # A colon in it is no parameter.
        text = self._rows.condition.replace(":", "\\:")
        return query.where(sqlalchemy().text(f"({text})"))
