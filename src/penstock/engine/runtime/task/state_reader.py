"""Live queries of keyed state: a task answers them at once, between two work items.

They do not wait behind the chain, which may be paused by back pressure for long, and a function of it in the middle of
a key. So what is read may be what a function has done so far: it is not committed. Rows are pickled before anything
else happens to them. Source: Flink docs, "Queryable State".
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
"""Of the rows of one answer, pickled: more would hold up the job master, by which it passes."""

QUESTIONS = (ListStates, ReadState)
"""Not in the journal of a task: they would displace all else."""


class StateReader:
    """Of one task. `ask` takes its effects."""

    def __init__(self, id: SubtaskId, chain: Chain, ask: Callable[[Effect], None]) -> None:
        self._id = id
        self._chain = chain
        self._ask = ask

    @property
    def handlers(self) -> dict[type[Event], Callable[[Any], None]]:
        """By the events that it answers."""
        return {ListStates: self._list, ReadState: self._read}

    def _list(self, event: ListStates) -> None:
        self._ask(StatesListed(*self._id, event.read, [*self._shapes()]))

    def _shapes(self) -> Iterator[StateShape]:
        for node in self._chain.nodes:
            operator = node.operator
            backend = operator.keyed_backend()
            if backend is None:
                continue
            schemas, queryable = backend.schemas_in_snapshot(), operator.queryable_states()
            for name, table in live_tables(backend).items():
                type_ = str(schemas[name]) if name in schemas else ""
                names = sorted(one for one, own in queryable.items() if own == name)
                yield StateShape(node.state_id, operator.name, name, type_, table.columns, names)

    def _read(self, event: ReadState) -> None:
        try:
            entries, rows = _rows_of(self._table(event), event)
            error = _why_not(entries)
        except ManyEntriesError as many:
            entries, rows, error = [], 0, f"the windows of a key would have to be found among {many} entries"
        except PASSED_ON:
            raise
        except RAISED as failure:
            # A value that can't be pickled, for example: the task itself goes on.
            entries, rows, error = [], 0, f"{type(failure).__name__}: {failure}"
        self._ask(StateRead(*self._id, event.read, [] if error else entries, 0 if error else rows, error))

    def _table(self, event: ReadState) -> LiveTable | None:
        for node in self._chain.nodes:
            backend = node.operator.keyed_backend() if node.state_id == event.operator else None
            if backend is not None:
                return live_table(backend, event.state)
        return None


def _rows_of(table: LiveTable | None, event: ReadState) -> tuple[list[Opaque], int]:
    """`table` None: no function of this subtask has asked for the state yet, so it is empty here."""
    if event.keys is None:
        found = table.first(event.limit) if table is not None else []
        return [Opaque.pickled(found)], len(found)
    keys = event.keys.value
    rows = table.of_keys(keys) if table is not None else {}
    of_each = [rows.get(key, []) for key in keys]
    return [Opaque.pickled(of_key) for of_key in of_each], sum(map(len, of_each))


def _why_not(entries: list[Opaque]) -> str:
    size = sum(len(entry.to_bytes()) for entry in entries)
    return f"the answer would have {size:,} bytes" if size > ANSWER_BYTES_MAX else ""
