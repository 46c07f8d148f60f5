"""Live queries of keyed state: a task answers them immediately, between two work items.

Queries do not wait for the chain, which back pressure may pause for long, with a function in the middle of a key. So
they may read uncommitted changes. Rows are pickled before the task continues. Source: Flink docs, "Queryable State".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.common.functions.user_calls import PASSED_ON, RAISED
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.events import (
    Effect,
    Event,
    ListStates,
    Opaque,
    ReadState,
    StateRead,
    StateShape,
    StatesListed,
)
from penstock.engine.state.live_table import LiveTable, live_table, live_tables
from penstock.engine.state.tables import ManyEntriesError

ANSWER_BYTES_MAX = 16 << 20
"""The largest answer (pickled): it passes through the JobMaster, which a larger one would delay."""

QUERIES = (ListStates, ReadState)
"""The task's journal leaves them out: they would displace all other events."""


class StateReader:
    """Answers the queries of one task. `request` accepts effects."""

    def __init__(self, id: SubtaskId, chain: Chain, request: Callable[[Effect], None]) -> None:
        self._id = id
        self._chain = chain
        self._request = request

    @property
    def handlers(self) -> dict[type[Event], Callable[[Any], None]]:
        """The handlers of queries, by type of event."""
        return {ListStates: self._list, ReadState: self._read}

    def _list(self, event: ListStates) -> None:
        self._request(StatesListed(*self._id, event.read, [*self._shapes()]))

    def _shapes(self) -> Iterator[StateShape]:
        for node in self._chain.nodes:
            operator = node.operator
            backend = operator.keyed_backend()
            if backend is None:
                continue
            schemas, queryable = backend.schemas_in_snapshot(), operator.queryable_states()
            for name, table in live_tables(backend).items():
                type_ = str(schemas[name]) if name in schemas else ""
                names = sorted(query_name for query_name, state in queryable.items() if state == name)
                yield StateShape(
                    node.state_id,
                    operator.name,
                    name,
                    type=type_,
                    columns=table.columns,
                    queryable_names=names,
                )

    def _read(self, event: ReadState) -> None:
        try:
            entries, rows = _rows_of(self._table(event), event)
            error = _size_error(entries)
        except ManyEntriesError as many:
            entries, rows, error = [], 0, f"the windows of a key would have to be found among {many} entries"
        except PASSED_ON:
            raise
        except RAISED as failure:
            # A value that can't be pickled, for example: the query fails, the task continues.
            entries, rows, error = [], 0, f"{type(failure).__name__}: {failure}"
        self._request(StateRead(*self._id, event.read, [] if error else entries, 0 if error else rows, error))

    def _table(self, event: ReadState) -> LiveTable | None:
        for node in self._chain.nodes:
            backend = node.operator.keyed_backend() if node.state_id == event.operator else None
            if backend is not None:
                return live_table(backend, event.state)
        return None


def _rows_of(table: LiveTable | None, event: ReadState) -> tuple[list[Opaque], int]:
    """Return the rows of an answer, and their number. `table` None: not declared here yet, so it is empty."""
    if event.keys is None:
        found = table.first(event.limit) if table is not None else []
        return [Opaque.pickled(found)], len(found)
    keys = event.keys.value
    rows = table.of_keys(keys) if table is not None else {}
    by_key = [rows.get(key, []) for key in keys]
    return [Opaque.pickled(key_rows) for key_rows in by_key], sum(map(len, by_key))


def _size_error(entries: list[Opaque]) -> str:
    size = sum(len(entry.to_bytes()) for entry in entries)
    return f"the answer would have {size:,} bytes" if size > ANSWER_BYTES_MAX else ""
