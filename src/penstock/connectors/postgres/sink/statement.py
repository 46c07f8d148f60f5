"""The statement that writes a row, and the conversion of records to its parameters."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.common.types import Row
from penstock.common.types.record_fields import fields_of
from penstock.connectors.postgres.connection import quoted, quoted_table

# Tokens that may contain a question mark which is not a parameter: texts, quoted names, comments, texts between
# dollars; and JDBC's ??.
_TOKENS = re.compile(
    r"""(?:\bE'(?:\\.|''|[^'\\])*' | '(?:''|[^'])*' | "(?:""|[^"])*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$)
    | (?P<escaped>\?\?) | (?P<parameter>\?) | (?P<percent>%)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class InsertParts(msgspec.Struct, frozen=True):
    """An INSERT into a table: the SQL before its rows, and behind them.

    `updates`: whether it updates the row with the same values of `key_columns`.
    """

    table: str
    key_columns: tuple[str, ...]
    before_rows: str
    after_rows: str
    updates: bool


class Statement(msgspec.Struct, frozen=True):
    """`sql` with a `%s` for each value. `columns`: the fields of a record, in order; None: all, by position.

    `may_wait`: different transactions may write the same row of the table, so that the later must wait for the earlier.
    `parts`: of an INSERT that penstock has made.
    """

    sql: str
    columns: tuple[str, ...] | None = None
    may_wait: bool = True
    parts: InsertParts | None = None

    def numbered(self) -> str:
        """Return the statement with the server's placeholders `$1`, `$2`, …."""
        numbers = itertools.count(1)
        return re.sub("%[s%]", lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", self.sql)

    def rows_of(self, values: list[Any]) -> list[Sequence[Any]]:
        """Return the parameters of the statement for each record."""
        columns = self.columns
        if columns is None:
            return [value if type(value) is tuple else by_position(value) for value in values]
        count = len(columns)
        return [
            value if type(value) is tuple and len(value) == count else fields_of(value, columns) for value in values
        ]


def insert_into(table: str, columns: Sequence[str], key_columns: Sequence[str] = ()) -> Statement:
    """Return an INSERT of these columns; with `key_columns` an existing row is updated. Raise ValueError.

    `table` may begin with a schema and a dot. The key columns must have a unique index.
    """
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"columns must be at least one name, without duplicates, got {list(columns)}")
    if missing := [name for name in key_columns if name not in columns]:
        raise ValueError(f"key columns must be among the columns {list(columns)}, got {missing}")
    names = [quoted(name) for name in columns]
    insert, conflict = f"INSERT INTO {quoted_table(table)} ({', '.join(names)})", ""
    updates = [f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in columns if name not in key_columns]
    if key_columns:
        action = f"UPDATE SET {', '.join(updates)}" if updates else "NOTHING"
        conflict = f" ON CONFLICT ({', '.join(map(quoted, key_columns))}) DO {action}"
    parts = InsertParts(table, tuple(key_columns), insert, conflict, updates=bool(key_columns and updates))
    sql = f"{insert} VALUES ({', '.join(['%s'] * len(names))}){conflict}"
    return Statement(sql, tuple(columns), may_wait=bool(key_columns), parts=parts)


def with_question_marks(sql: str, columns: Sequence[str] | None = None) -> Statement:
    """Convert a statement in JDBC's form: `?` for each value, `??` for a question mark.

    Raise ValueError without values.
    """
    count = 0

    def replaced(token: re.Match[str]) -> str:
        nonlocal count
        if token["parameter"]:
            count += 1
            return "%s"
        return "?" if token["escaped"] else token[0].replace("%", "%%")

    converted = _TOKENS.sub(replaced, sql)
    if not count:
        raise ValueError(f"the statement has no ? for the values of a row: {sql}")
    if columns is not None and len(columns) != count:
        raise ValueError(f"the statement has {count} ? for values, but the type has {len(columns)} fields: {sql}")
    return Statement(converted, None if columns is None else tuple(columns))


def by_position(record: Any) -> Sequence[Any]:
    """Return the values of a record, in order: of a tuple, list, Row, dataclass or msgspec struct."""
    if isinstance(record, (tuple, list)):
        return record
    if isinstance(record, Row):
        return list(record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return [getattr(record, field.name) for field in dataclasses.fields(record)]
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.astuple(record)
    raise TypeError(f"expected a record with fields in order (a tuple, list, Row or dataclass), got {record!r}")
