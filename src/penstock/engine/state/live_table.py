"""A table of keyed state as it is now, for readers from outside: between two work items of its task.

Nothing is changed: neither the current key of the backend, under which a function may be paused, nor a time of last
use. What is given away is the state itself, to be copied at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.sliced import SlicedTable

EXAMINED_MAX = 100_000
"""How many entries in memory are looked through for the windows of keys: some milliseconds of the task's time."""

Row = tuple[Any, ...]
"""(key, value), or (key, namespace, value) of a state that is kept by window."""


class LiveTable:
    """The table `name` of a backend."""

    def __init__(self, backend: KeyedStateBackend, name: str, table: LayeredTable | SlicedTable) -> None:
        self._table = table
        self._shown = backend.shown(name)

    @property
    def columns(self) -> list[str]:
        """Those of its rows."""
        return ["key", "namespace", "value"] if self._table.is_namespaced else ["key", "value"]

    def of_keys(self, keys: Sequence[Any]) -> dict[Any, list[Row]]:
        """The rows of those keys that have any. Raises ManyEntriesError if they can't be found quickly."""
        rows: dict[Any, list[Row]] = {}
        # Each place once: a key that is asked for twice has its rows, not twice as many.
        for place in dict.fromkeys(self._table.places_of(keys, EXAMINED_MAX)):
            value = self._table.get(place)
            if value is not None and (row := self._row(place, value)) is not None:
                rows.setdefault(row[0], []).append(row)
        return rows

    def first(self, limit: int) -> list[Row]:
        """The first rows, at most `limit`, in no particular order."""
        return list(islice(self._rows(), limit))

    def _rows(self) -> Iterator[Row]:
        for place, value in self._table.first_items():
            if (row := self._row(place, value)) is not None:
                yield row

    def _row(self, place: Any, stored: Any) -> Row | None:
        value = self._shown(stored)
        if value is None:
            return None
        return (*place, value) if self._table.is_namespaced else (place, value)


def live_tables(backend: KeyedStateBackend) -> dict[str, LiveTable]:
    """Those that can be read: all but timers."""
    return {
        name: LiveTable(backend, name, table)
        for name, table in backend.tables.items()
        if isinstance(table, LayeredTable | SlicedTable)
    }


def live_table(backend: KeyedStateBackend, name: str) -> LiveTable | None:
    """The one of that name; None: there is none."""
    table = backend.tables.get(name)
    return LiveTable(backend, name, table) if isinstance(table, LayeredTable | SlicedTable) else None
