"""A task's part of a checkpoint: frozen at once, written step by step where the host chooses.

The task freezes its operators between two work items. What it froze is a `TaskSnapshot`; its `write` is a generator
that reads only frozen state and writes only to the storage it is given, so it may run in another thread. The task is
notified of the outcome by an event, and only then releases the frozen layers for compaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.errors import CheckpointError
from penstock.engine.runtime.checkpoint_options import Commits
from penstock.engine.runtime.network.channel_log import ChannelLog, LoggedBuffer
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.task.restore import KeyedChain, restore_operator
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.store_files import write_store_files
from penstock.engine.state.handles import (
    KeyedFile,
    ListsFile,
    OperatorState,
    Redistribution,
    RestoredOperator,
    SnapshotFigures,
    SubtaskState,
    store_files_of,
)
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.snapshot.files import write_columns, write_keyed, write_lists
from penstock.engine.state.snapshot.storage import SnapshotStorage
from penstock.engine.state.tables import FrozenTable

if TYPE_CHECKING:
    from penstock.engine.runtime.checkpoint_options import CheckpointOptions
    from penstock.engine.runtime.task.chain import Chain
    from penstock.engine.runtime.task.context import SubtaskInfo

_IN_FLIGHT = "(task) in flight"
"""Name of the list with what a barrier has overtaken: of the first operator of the task."""


class OperatorSnapshot:
    """What one operator froze."""

    def __init__(
        self,
        state_id: str,
        operator: Operator,
        chain: KeyedChain,
        options: CheckpointOptions,
        in_flight: ChannelLog | None = None,
        checkpoint_id: int = 0,
    ) -> None:
        self.state_id = state_id
        self.chain = chain
        backend = _with_store(operator)
        savepoint = bool(options.savepoint)
        wanted = options.full or savepoint
        self.full = wanted or chain.next_is_full or (backend is not None and backend.needs_full_snapshot())
        # A full snapshot of a checkpoint ends a gap. One of a savepoint takes the changes out of the tables, but is not
        # part of the chain: the next checkpoint must be full, too.
        if self.full:
            chain.has_gap = savepoint
        self.store = (
            backend.freeze_store(checkpoint_id) if backend is not None and self.full and not savepoint else None
        )
        self._failures = chain.failures
        # A snapshot under way replaces `store_files` when it completes, and the files known now may be deleted then. So
        # while there is one, no file of an earlier snapshot is reused.
        self.kept = {} if chain.store_snapshots_under_way else dict(chain.store_files)
        chain.store_snapshots_under_way += self.store is not None
        # Tables in the store freeze only what is in memory: the rest is in the store's own files.
        above = self.store.above if self.store is not None else {}
        self.tables: dict[str, FrozenTable] = {
            name: above[name] if name in above else table.freeze(self.full)
            for name, table in operator.keyed_tables().items()
        }
        self.schemas = operator.keyed_schemas()
        self.queryable = operator.queryable_states()
        self.lists = operator.lists()
        if in_flight is not None:
            items: Any = in_flight
            self.lists = [*self.lists, NamedList(_IN_FLIGHT, Redistribution.IN_FLIGHT, items)]

    def write(self, name: str, storage: SnapshotStorage, key_groups: KeyGroups) -> Generator[None, None, OperatorState]:
        """Write it for a checkpoint: changes, or all state, in one file, after the store's files if it has a store."""
        keyed: list[KeyedFile] = []
        if self.store is not None:
            keyed = yield from write_store_files(storage, name, self.store, self.kept)
        if self.tables:
            schemas = {table: str(schema) for table, schema in self.schemas.items()}
            keyed.append((yield from write_keyed(storage, f"{name}-keyed", self.tables, key_groups, schemas)))
        lists = yield from self._write_lists(name, storage, columns=False)
        return OperatorState(keyed, lists, self.queryable)

    def write_savepoint(
        self, name: str, storage: SnapshotStorage, key_groups: KeyGroups
    ) -> Generator[None, None, OperatorState]:
        """Write it for a savepoint: a Parquet file for each table."""
        keyed = []
        for number, (table_name, table) in enumerate(self.tables.items()):
            schema = self.schemas.get(table_name)
            file = yield from write_columns(
                storage, f"{name}-{number}.parquet", (table_name, table), key_groups, schema
            )
            if file is not None:
                keyed.append(file)
        lists = yield from self._write_lists(name, storage, columns=True)
        return OperatorState(keyed, lists, self.queryable)

    def _write_lists(
        self, name: str, storage: SnapshotStorage, columns: bool
    ) -> Generator[None, None, ListsFile | None]:
        # Of most tasks nothing is in flight; that is known only now.
        lists = [one for one in self.lists if one.redistribution is not Redistribution.IN_FLIGHT or len(one.items)]
        return (yield from write_lists(storage, f"{name}-lists", lists, columns)) if lists else None

    def release(self) -> None:
        """Release what was frozen: it is no longer read."""
        for table in self.tables.values():
            table.release()
        if self.store is not None:
            self.store.release()
            self.chain.store_snapshots_under_way -= 1

    def written(self, keyed: list[KeyedFile]) -> list[KeyedFile] | None:
        """Its files are stored. Returns all files of its state, or None if an earlier one is missing."""
        chain = self.chain
        if not self.full and (not chain.files or chain.failures != self._failures):
            # An increment is useless without all of its predecessors: the checkpoint is declined, the next one is full.
            return None
        chain.files = keyed if self.full else [*chain.files, *keyed]
        if self.store is not None:
            chain.store_files = {file.store_file: file for file in store_files_of(keyed)}
        return chain.files

    def kept_bytes(self, keyed: list[KeyedFile]) -> int:
        """How many bytes of these files an earlier snapshot has copied."""
        kept = {file.path for file in self.kept.values()}
        return sum(file.bytes for file in keyed if file.path in kept)


class TaskSnapshot:
    """What one task froze for one checkpoint."""

    def __init__(
        self, checkpoint_id: int, name: str, operators: list[OperatorSnapshot], key_groups: KeyGroups, savepoint: str
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.savepoint = savepoint
        """The directory of the savepoint that it belongs to; empty: it belongs to a checkpoint."""
        self.figures = SnapshotFigures()
        self._name = name
        self._operators = operators
        # Not the task's: that one is a cache, in use in the task's thread while this is read in another.
        self._key_groups = KeyGroups(key_groups.max_parallelism)

    def write(self, storage: SnapshotStorage) -> Generator[None, None, SubtaskState]:
        """Write it, a millisecond's work at a time. Returns the files written, without those of earlier snapshots."""
        for operator in self._operators:
            if operator.store is not None:
                # All stores are linked before anything is written: until then they must not delete the frozen files.
                operator.store.link()
                yield
        states: dict[str, OperatorState] = {}
        for index, operator in enumerate(self._operators):
            write = operator.write_savepoint if self.savepoint else operator.write
            state = yield from write(f"{self._name}-{index}", storage, self._key_groups)
            if state.keyed or state.lists is not None:
                states[operator.state_id] = state
        return SubtaskState(states)

    def written(self, files: SubtaskState) -> SubtaskState | None:
        """In the task's thread: the files are stored. Returns the whole state; None if an earlier file is missing."""
        states = dict(files.operators)
        broken = False
        written = 0
        for operator in self._operators:
            operator.release()
            if (new := states.get(operator.state_id)) is None:
                continue
            written += _bytes_of(new) - operator.kept_bytes(new.keyed)
            if operator.tables and not self.savepoint:
                chain = operator.written(new.keyed)
                broken = broken or chain is None
                states[operator.state_id] = msgspec.structs.replace(new, keyed=chain or [])
        if broken:
            return None
        total = sum(map(_bytes_of, states.values()))
        return SubtaskState(states, msgspec.structs.replace(self.figures, written=written, total=total))

    def failed(self) -> None:
        """In the task's thread: the snapshot failed. What was frozen is in no file, so the next one is full."""
        for operator in self._operators:
            # `release` even now: layers stay frozen, and are not compacted, until it is called.
            operator.release()
            operator.chain.has_gap = True
            operator.chain.failures += 1


def _bytes_of(state: OperatorState) -> int:
    return sum(file.bytes for file in state.keyed) + (state.lists.bytes if state.lists is not None else 0)


def _with_store(operator: Operator) -> RocksDBKeyedStateBackend | None:
    """The operator's backend, if it keeps state in a store that has files of its own."""
    backend = operator.keyed_backend()
    return backend if isinstance(backend, RocksDBKeyedStateBackend) else None


class Snapshots:
    """The snapshots of a task: those under way, and the files that make up the last one."""

    def __init__(self, chain: Chain, info: SubtaskInfo, key_groups: KeyGroups) -> None:
        self._chain = chain
        self.info = info
        self.key_groups = key_groups
        self.files = [KeyedChain() for _ in chain.operators]
        self.in_flight: list[LoggedBuffer] = []
        """What was in flight to all subtasks when the snapshot was taken that was restored."""
        self._under_way: dict[int, tuple[TaskSnapshot, Commits]] = {}
        self._prepared: Commits = []

    def restore(self, state: dict[str, RestoredOperator], storage: SnapshotStorage) -> int:
        """Restore state, before the operators are opened. Returns how many bytes were read; raises CheckpointError."""
        info = self.info
        groups = key_group_range(info.subtask, info.max_parallelism, info.parallelism)
        read = 0
        for index, (node, files) in enumerate(zip(self._chain.nodes, self.files, strict=True)):
            if node.state_id not in state:
                continue
            in_flight: list[LoggedBuffer] = []
            read += restore_operator(
                node.operator, state[node.state_id], files, groups, info.max_parallelism, storage, in_flight
            )
            if in_flight and index:
                raise CheckpointError(
                    f"operator '{node.operator.name}' was the first of its task when this unaligned checkpoint was "
                    "taken, with records in flight to it. Now it is chained behind another one: disable chaining here, "
                    "or change the program between a savepoint and the start from it"
                )
            self.in_flight += in_flight
        return read

    def prepare(self, checkpoint_id: int, savepoint: bool) -> None:
        """The barrier is about to be sent: operators emit buffered records, sinks prepare to commit."""
        # Appended to what was prepared for a snapshot that failed: it goes with this one.
        for operator in self._chain.operators:
            committables = operator.prepare_snapshot(checkpoint_id, savepoint)
            if committables:
                assert isinstance(operator, SinkOperator)
                self._prepared.append((operator.sink_id, committables))

    def freeze(
        self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions, in_flight: ChannelLog | None = None
    ) -> TaskSnapshot:
        """Freeze all operators, now. `in_flight`: what belongs to the first one's state; it may still grow."""
        # All of them first: what they write into operator state is frozen below.
        for operator in self._chain.operators:
            for function in operator.context.functions:
                function.snapshot_state(operator.context, checkpoint_id, timestamp_ms)
        # All operators between the same two work items: their states belong to the same prefix of the input.
        frozen = [
            OperatorSnapshot(node.state_id, node.operator, files, options, None if index else in_flight, checkpoint_id)
            for index, (node, files) in enumerate(zip(self._chain.nodes, self.files, strict=True))
        ]
        info = self.info
        name = f"{checkpoint_id}-{info.vertex_id}-{info.subtask}-{info.attempt}"
        snapshot = TaskSnapshot(checkpoint_id, name, frozen, self.key_groups, options.savepoint)
        self._under_way[checkpoint_id] = snapshot, self._prepared
        self._prepared = []
        return snapshot

    def written(self, checkpoint_id: int, files: SubtaskState, took_ms: float) -> tuple[SubtaskState, Commits] | None:
        """Its files are stored. Returns the whole state and the commits, or None if an earlier part is missing."""
        snapshot, commits = self._under_way.pop(checkpoint_id)
        snapshot.figures = msgspec.structs.replace(snapshot.figures, async_ms=took_ms)
        state = snapshot.written(files)
        if state is None:
            self._carry(checkpoint_id, commits)
            return None
        return state, commits

    def failed(self, checkpoint_id: int) -> None:
        """The snapshot could not be written."""
        snapshot, commits = self._under_way.pop(checkpoint_id)
        snapshot.failed()
        self._carry(checkpoint_id, commits)

    def give_back(self) -> None:
        """The task ends: sinks get what they have prepared for snapshots that no acknowledgement was sent for."""
        left = [*itertools.chain(*(commits for _, commits in self._under_way.values())), *self._prepared]
        self._under_way, self._prepared = {}, []
        sinks = {operator.sink_id: operator for operator in self._chain.operators if isinstance(operator, SinkOperator)}
        for sink_id, committables in reversed(left):
            sinks[sink_id].take_back(committables)

    def _carry(self, checkpoint_id: int, commits: Commits) -> None:
        """Commits of a failed snapshot go with the next one, which may be frozen already and may be the last."""
        later = min((number for number in self._under_way if number > checkpoint_id), default=None)
        if later is None:
            self._prepared = [*commits, *self._prepared]
        else:
            snapshot, own = self._under_way[later]
            self._under_way[later] = snapshot, [*commits, *own]
