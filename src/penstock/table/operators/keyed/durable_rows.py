"""Rows of keys that belong to snapshots: arrays where state is on the heap, else written to a store before each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.state.layers import LayeredTable


class DurableRows:
    """`table`: the name of the table, whose entries `KeyedRows` describes. `has_times`: whether entries have a time."""

    def __init__(
        self, backend: KeyedStateBackend, table: str, columns: TableColumns, *, has_times: bool = False
    ) -> None:
        make = partial(KeyedRows, columns, has_times=has_times)
        rows = backend.arrays(table, make)
        self.rows: KeyedRows = make() if rows is None else rows
        self.behind: LayeredTable | None = backend.layered(table, namespaced=True) if rows is None else None

    def load(self, now_ms: int = 0) -> None:
        """Read what was restored. `now_ms`: the time of entries that were written without one."""
        if self.behind is not None:
            entries = list(self.behind.items())
            self.rows.restore([place for place, _ in entries], [value for _, value in entries])
        self.rows.load(now_ms)

    def write_back(self) -> None:
        """Write what has changed to the store, before a snapshot."""
        if self.behind is not None:
            for place, value in self.rows.take_changes():
                if value is None:
                    self.behind.discard(place)
                else:
                    self.behind.put(place, value)
