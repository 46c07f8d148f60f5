"""A table as PostgreSQL describes it in the changes: converts the values of its rows to dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.pgoutput import UNSENT, Relation, Values
from penstock.connectors.postgres.changes.split import Key

Loader = Callable[[Sequence[bytes | None]], Sequence[Any]]
"""Converts the texts of a row's values to Python's values."""


class CapturedRelation:
    """`load`: converter of its columns. `is_wanted`: whether its changes are emitted."""

    def __init__(self, relation: Relation, load: Loader, is_wanted: bool) -> None:
        self.table = relation.full_name
        self.is_wanted = is_wanted
        self._load = load
        self._names = tuple(column.name for column in relation.columns)
        self._identity = tuple(column.name for column in relation.columns if column.is_key)

    def after(self, new: Values, old: Values | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return a row after a change, and its columns that were not sent. `old`: the whole row before, if known."""
        if UNSENT not in new:
            return self._loaded(new), ()
        filled = new if old is None else [b if a is UNSENT else a for a, b in zip(new, old, strict=True)]
        unsent = tuple(name for name, value in zip(self._names, filled, strict=True) if value is UNSENT)
        row = self._loaded([None if value is UNSENT else value for value in filled])
        for name in unsent:
            del row[name]
        return row, unsent

    def before(self, old: Values, is_key: bool) -> dict[str, Any]:
        """Return a row before a change. `is_key`: only the columns of the replica identity are known."""
        row = self._loaded([None if value is UNSENT else value for value in old])
        return {name: row[name] for name in self._identity} if is_key else row

    def identity(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of the replica identity."""
        return {name: row[name] for name in self._identity if name in row}

    def key(self, columns: Sequence[str], values: Values, others: Values | None) -> Key:
        """Return the texts of these columns; unsent ones are taken from `others`.

        Raise SourceError for a missing one.
        """
        texts = []
        for column in columns:
            at = self._names.index(column) if column in self._names else None
            value = None if at is None else values[at]
            if value is UNSENT and at is not None:
                value = None if others is None else others[at]
            if not isinstance(value, bytes):
                raise SourceError(
                    f"the key of {self.table}, {', '.join(columns)}, was changed while the table was read: start the "
                    "job again without its state"
                )
            texts.append(value.decode())
        return tuple(texts)

    def _loaded(self, values: Sequence[Any]) -> dict[str, Any]:
        try:
            return dict(zip(self._names, self._load(values), strict=True))
        except Exception as error:
            raise unreadable(self.table, self._unreadable_value(values) or str(error)) from error

    def _unreadable_value(self, values: Sequence[Any]) -> str | None:
        """Return the first value that Python cannot represent, and the reason.

        Errors of psycopg do not name the column.
        """
        row = {name: value.decode() for name, value in zip(self._names, values, strict=True) if value is not None}
        key = ", ".join(f"{name} = {row.get(name)!r}" for name in self._identity)
        for place, value in enumerate(values):
            single_value = [value if place == other else None for other in range(len(values))]
            try:
                self._load(single_value)
            except Exception as error:
                name = self._names[place]
                return f"the column '{name}' has {row[name]!r} in a row with {key}: {error}"
        return None


def unreadable(table: str, reason: str) -> SourceError:
    """Return the error for a row with a value that Python cannot represent."""
    return SourceError(
        f"cannot read a row of {table}: {reason}. Correct it, or omit that column from the publication "
        "(PostgreSQL 15 and later), and start the job without its state"
    )
