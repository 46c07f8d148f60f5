"""The current content of a table of keyed state, for queries. Read between two work items of its task.

Reading changes nothing: neither the current key of the backend, since a function may be paused under it, nor a time of
last use. Rows contain the state's own values, which the caller must copy immediately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.tables import NewerValues, ReadableTable

EXAMINED_MAX = 100_000
"""The most entries in memory that are searched for windows of keys, which takes a few milliseconds of the task."""

Row = tuple[Any, ...]
"""(key, value), or (key, namespace, value) of a state with windows."""


class _NoneNewer:
    """The newer values of a table that is always current."""

    def places(self, keys: Sequence[Any] | None) -> Iterator[Any]:
        return iter(())

    def has(self, place: Any) -> bool:
        return False

    def get(self, place: Any) -> Any:
        return None


class LiveTable:
    """The table `name` of a backend."""

    def __init__(self, backend: KeyedStateBackend, name: str, table: ReadableTable) -> None:
        self._table = table
        self._newer: NewerValues = backend.newer_values.get(name) or _NoneNewer()
        self._visible_value = backend.visible_value_of(name)

    @property
    def columns(self) -> list[str]:
        """The columns of its rows."""
        return ["key", "namespace", "value"] if self._table.is_namespaced else ["key", "value"]

    def of_keys(self, keys: Sequence[Any]) -> dict[Any, list[Row]]:
        """Return the rows of these keys, by key. Raises ManyEntriesError if they cannot be found quickly."""
        rows: dict[Any, list[Row]] = {}
        newer = self._newer
        # Each place once: a key that a query names twice has its rows once.
        for place in dict.fromkeys([*newer.places(keys), *self._table.places_of(keys, EXAMINED_MAX)]):
            value = newer.get(place) if newer.has(place) else self._table.get(place)
            if value is not None and (row := self._row(place, value)) is not None:
                rows.setdefault(row[0], []).append(row)
        return rows

    def first(self, limit: int) -> list[Row]:
        """Return at most `limit` rows, in any order."""
        return list(islice(self._rows(), limit))

    def _rows(self) -> Iterator[Row]:
        newer = self._newer
        for place in newer.places(None):
            if (value := newer.get(place)) is not None and (row := self._row(place, value)) is not None:
                yield row
        for place, value in self._table.first_items():
            if not newer.has(place) and (row := self._row(place, value)) is not None:
                yield row

    def _row(self, place: Any, stored: Any) -> Row | None:
        value = self._visible_value(stored)
        if value is None:
            return None
        return (*place, value) if self._table.is_namespaced else (place, value)


def live_tables(backend: KeyedStateBackend) -> dict[str, LiveTable]:
    """Return the readable tables: all except timers."""
    return {
        name: LiveTable(backend, name, readable)
        for name, table in backend.tables.items()
        if (readable := table.readable()) is not None
    }


def live_table(backend: KeyedStateBackend, name: str) -> LiveTable | None:
    """Return the readable table with this name, or None."""
    table = backend.tables.get(name)
    readable = None if table is None else table.readable()
    return None if readable is None else LiveTable(backend, name, readable)
