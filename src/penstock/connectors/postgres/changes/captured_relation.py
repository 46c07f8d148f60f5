"""A table as PostgreSQL describes it in the changes: from the values of its rows to dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.pgoutput import UNSENT, Relation, Values
from penstock.connectors.postgres.changes.split import Key

Loader = Callable[[Sequence[bytes | None]], Sequence[Any]]
"""From the texts of a row's values to Python's values."""


class CapturedRelation:
    """`load`: for its columns. `is_wanted`: whether its changes are emitted."""

    def __init__(self, relation: Relation, load: Loader, is_wanted: bool) -> None:
        self.table = relation.full_name
        self.is_wanted = is_wanted
        self._load = load
        self._names = tuple(column.name for column in relation.columns)
        self._identity = tuple(column.name for column in relation.columns if column.is_key)

    def after(self, new: Values, old: Values | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A row as it is now, and its columns that were not sent. `old`: all of the row before, if it is known."""
        if UNSENT not in new:
            return self._loaded(new), ()
        filled = new if old is None else [b if a is UNSENT else a for a, b in zip(new, old, strict=True)]
        unsent = tuple(name for name, value in zip(self._names, filled, strict=True) if value is UNSENT)
        row = self._loaded([None if value is UNSENT else value for value in filled])
        for name in unsent:
            del row[name]
        return row, unsent

    def before(self, old: Values, is_key: bool) -> dict[str, Any]:
        """A row as it was. `is_key`: only the columns of the replica identity are there."""
        row = self._loaded([None if value is UNSENT else value for value in old])
        return {name: row[name] for name in self._identity} if is_key else row

    def identity(self, row: dict[str, Any]) -> dict[str, Any]:
        """The columns of the replica identity."""
        return {name: row[name] for name in self._identity if name in row}

    def key(self, columns: Sequence[str], values: Values, others: Values | None) -> Key:
        """The texts of these columns; `others`: where those are that were not sent. Raises SourceError without one."""
        texts = []
        for column in columns:
            at = self._names.index(column) if column in self._names else None
            value = None if at is None else values[at]
            if value is UNSENT and at is not None:
                value = None if others is None else others[at]
            if not isinstance(value, bytes):
                raise SourceError(
                    f"the key of {self.table}, {', '.join(columns)}, was changed while the table was read: start the "
                    "job anew, without its state"
                )
            texts.append(value.decode())
        return tuple(texts)

    def _loaded(self, values: Sequence[Any]) -> dict[str, Any]:
        try:
            return dict(zip(self._names, self._load(values), strict=True))
        except Exception as error:
            raise unreadable(self.table, self._unreadable_value(values) or str(error)) from error

    def _unreadable_value(self, values: Sequence[Any]) -> str | None:
        """Return the first value that Python cannot hold, and why. Errors of psycopg name no column."""
        row = {name: value.decode() for name, value in zip(self._names, values, strict=True) if value is not None}
        key = ", ".join(f"{name} = {row.get(name)!r}" for name in self._identity)
        for place, value in enumerate(values):
            alone = [value if place == other else None for other in range(len(values))]
            try:
                self._load(alone)
            except Exception as error:
                name = self._names[place]
                return f"the column '{name}' has {row[name]!r} in a row with {key}: {error}"
        return None


def unreadable(table: str, reason: str) -> SourceError:
    """The error for a row that has no values in Python."""
    return SourceError(
        f"a row of {table} can't be read: {reason}. Correct it, or have a publication without that column "
        "(PostgreSQL 15 and later), and start the job without its state"
    )
