"""What is read of a table: its statements, and records of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.common.types import Row
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.record_maker import record_maker
from penstock.connectors.postgres.connection import quoted, quoted_table

_HERE = "t"
_BY_PLACE = f"{_HERE}.tableoid, {_HERE}.ctid"
_BY_TEXT = f'({_HERE}.*)::text COLLATE "C"'
_WITHOUT_PLACES = ("v", "f")
"""Views and foreign tables, in pg_class."""


class Table(msgspec.Struct, frozen=True):
    """`column`: by which it is read. `columns`: those of the records; None: all. `condition`: which rows, as SQL."""

    name: str
    column: str
    columns: tuple[str, ...] | None = None
    condition: str | None = None
    record_class: type[Any] = Row

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

    def bounds(self) -> str:
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

    def maker(self, names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
        """Makes a record of a row's values. `names`: of the columns."""
        return record_maker(self.record_class, names)

    def _from(self, conditions: Sequence[str]) -> str:
        every = list(conditions)
        if self.condition is not None:
            every.append("(" + self.condition.replace("%", "%%") + ")")
        where = f" WHERE {' AND '.join(every)}" if every else ""
        return f"{quoted_table(self.name)} AS {_HERE}{where}"
