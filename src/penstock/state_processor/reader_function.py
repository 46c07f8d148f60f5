"""Reading several states of an operator together, key by key.

Source: Flink docs, "State Processor API", Keyed State.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from penstock.api.functions.function import Function
from penstock.common.errors import StateNotFoundError
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.keyed import EVENT_TIMERS_TABLE, PROCESSING_TIMERS_TABLE
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.snapshots.keyed_table import TIMERS, check_owners, place_columns, spans_of, tables_of
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.snapshots.snapshot_files import SnapshotFiles
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.snapshot.files import restore_keyed

K = TypeVar("K")
OUT = TypeVar("OUT")


class _ReaderContext(ABC):
    """The timers and other context that `read_key` can query."""

    @abstractmethod
    def registered_event_time_timers(self) -> set[int]:
        """Return the event-time timers (ms) of the key."""

    @abstractmethod
    def registered_processing_time_timers(self) -> set[int]:
        """Return the processing-time timers (ms) of the key."""


class KeyedStateReaderFunction(Function, Generic[K, OUT]):
    """Called once for each key that has a value in any of the states obtained in `open`.

    Obtain states in `open` with the descriptors of the job. The clock stands at the time of the snapshot: state expired
    by then is absent. Changes to state are discarded.
    """

    Context = _ReaderContext

    @abstractmethod
    def read_key(self, key: K, ctx: _ReaderContext) -> Iterable[OUT] | None:
        """Return the results for a key. None is the same as an empty iterable."""


class KeyReading(_ReaderContext):
    """A run of a function over an operator's state.

    Raises StateNotFoundError if the function requests a missing state, UserFunctionError if it raises or requests a
    state of another kind or type.
    """

    def __init__(
        self, files: SnapshotFiles, manifest: Manifest, part: OperatorPart, function: KeyedStateReaderFunction[Any, Any]
    ) -> None:
        self._files = files
        self._part = part
        self._function = UserFunction(function, "read_key")
        self._backend = HashMapKeyedStateBackend(lambda: manifest.triggered_ms)
        self._timers: dict[str, dict[Any, set[int]]] = {}
        info = SubtaskInfo(
            job_id=manifest.job_id,
            vertex_id=0,
            task_name=part.name,
            subtask=0,
            parallelism=1,
            max_parallelism=part.max_parallelism,
        )
        task = TaskContext(info, self._backend.now_ms, Budget(lambda: 0), KeyGroups(part.max_parallelism))
        self._context = OperatorContext(task, part.name, uid=part.state_id, counters=OperatorCounters(part.name))

    def registered_event_time_timers(self) -> set[int]:
        return set(self._timers_of(EVENT_TIMERS_TABLE).get(self._backend.key, ()))

    def registered_processing_time_timers(self) -> set[int]:
        return set(self._timers_of(PROCESSING_TIMERS_TABLE).get(self._backend.key, ()))

    def results(self) -> Iterator[Any]:
        """Yield the function's results, key by key."""
        part = self._part
        known = tables_of(part)
        for name, schema in known.items():
            self._backend.restored_table(name, schema)
        self._function.open(self._context, self._backend.store())
        try:
            asked = list(self._backend.schemas)
            for name in asked:
                if name not in known:
                    raise StateNotFoundError(
                        f"operator '{part.state_id}' ({part.name}) has no keyed state '{name}'. It has "
                        f"{', '.join(map(repr, known)) or 'none'}"
                    )
            for subtask in part.subtasks:
                groups = key_group_range(subtask.subtask, part.max_parallelism, part.parallelism)
                check_owners(self._files.read, subtask.state.keyed, groups)
                for span in spans_of(self._files.read, subtask.state.keyed, groups):
                    yield from self._of_span(subtask.state.keyed, span, asked or list(known))
        finally:
            self._function.close(self._context)

    def _of_span(self, chain: list[KeyedFile], span: range, tables: list[str]) -> Iterator[Any]:
        backend = self._backend
        backend.clear()
        self._timers.clear()
        requested = {name: table for name, table in backend.tables.items() if name in tables or name in TIMERS}
        with classes_found(False):
            restore_keyed(
                self._files, chain=chain, groups=span, tables=requested, store_reader=self._files.store_reader
            )
        keys: dict[Any, None] = {}
        for name in tables:
            namespaced = len(place_columns(name)) > 1
            keys.update((entry_key[0] if namespaced else entry_key, None) for entry_key, _ in self._table(name).items())
        for key in keys:
            backend.key = key
            try:
                yield from emitted(self._function.call(key, self))
            except Exception as error:
                raise self._context.user_error(error, self._function.method, key=key) from error

    def _timers_of(self, table: str) -> dict[Any, set[int]]:
        found = self._timers.get(table)
        if found is None:
            found = self._timers[table] = {}
            entry_keys = (
                [entry_key for entry_key, _ in self._table(table).items()] if table in self._backend.tables else []
            )
            for key, timestamp, _ in entry_keys:
                found.setdefault(key, set()).add(timestamp)
        return found

    def _table(self, name: str) -> LayeredTable:
        table = self._backend.tables[name]
        assert isinstance(table, LayeredTable)
        return table
