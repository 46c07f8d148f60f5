"""A task's part of a checkpoint: frozen in one call, written step by step where the host chooses.

The task freezes its operators between two work items, into a `TaskSnapshot`. Its `write` is a generator that reads only
frozen state and writes only to the given storage, so it may run in another thread. An event notifies the task of the
outcome; only then does the task release the frozen layers for compaction.
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
from penstock.engine.runtime.task.restore import KeyedChain, restore_operator
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
"""Name of the list of overtaken records, in the state of the task's first operator."""


class OperatorSnapshot:
    """The frozen state of one operator."""

    def __init__(
        self,
        state_id: str,
        operator: Operator,
        chain: KeyedChain,
        *,
        options: CheckpointOptions,
        in_flight: ChannelLog | None = None,
        checkpoint_id: int = 0,
    ) -> None:
        self.state_id = state_id
        self.chain = chain
        backend = operator.keyed_backend()
        savepoint = bool(options.savepoint)
        wanted = options.full or savepoint
        self.full = wanted or chain.next_is_full or (backend is not None and backend.needs_full_snapshot())
        # A full snapshot of a checkpoint ends a gap. A savepoint takes the changes out of the tables, but is not part
        # of the chain: the next checkpoint must be full as well.
        if self.full:
            chain.has_gap = savepoint
        self.store = (
            backend.freeze_store(checkpoint_id) if backend is not None and self.full and not savepoint else None
        )
        self._failures = chain.failures
        # A snapshot under way replaces `store_files` when it completes, and the current files may be deleted then. So
        # meanwhile no file of an earlier snapshot is reused.
        self.reusable_files = {} if chain.store_snapshots_under_way else dict(chain.store_files)
        chain.store_snapshots_under_way += self.store is not None
        # Tables in the store freeze only entries in memory: the store's own files hold the rest.
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
        """Write it for a checkpoint: the store's files, if there is a store, then a file with changes or all state."""
        keyed: list[KeyedFile] = []
        if self.store is not None:
            keyed = yield from self.store.write(storage, name, self.reusable_files)
        if self.tables:
            schemas = {table: str(schema) for table, schema in self.schemas.items()}
            file_name = f"{name}-keyed"
            file = yield from write_keyed(storage, file_name, self.tables, key_groups=key_groups, schemas=schemas)
            keyed.append(file)
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
                storage,
                f"{name}-{number}.parquet",
                (table_name, table),
                key_groups=key_groups,
                schema=schema,
            )
            if file is not None:
                keyed.append(file)
        lists = yield from self._write_lists(name, storage, columns=True)
        return OperatorState(keyed, lists, self.queryable)

    def _write_lists(
        self, name: str, storage: SnapshotStorage, columns: bool
    ) -> Generator[None, None, ListsFile | None]:
        # Most tasks have no records in flight, which is known only now.
        lists = [one for one in self.lists if one.redistribution is not Redistribution.IN_FLIGHT or len(one.items)]
        return (yield from write_lists(storage, f"{name}-lists", lists, columns)) if lists else None

    def release(self) -> None:
        """Release the frozen state: it is no longer read."""
        for table in self.tables.values():
            table.release()
        if self.store is not None:
            self.store.release()
            self.chain.store_snapshots_under_way -= 1

    def written(self, keyed: list[KeyedFile]) -> list[KeyedFile] | None:
        """Add the stored files to the chain. Returns all files of the state, or None if an earlier one is missing."""
        chain = self.chain
        if not self.full and (not chain.files or chain.failures != self._failures):
            # An increment is useless without all of its predecessors: decline the checkpoint, the next one is full.
            return None
        chain.files = keyed if self.full else [*chain.files, *keyed]
        if self.store is not None:
            chain.store_files = {file.store_file: file for file in store_files_of(keyed)}
        return chain.files

    def reused_bytes(self, keyed: list[KeyedFile]) -> int:
        """Return how many bytes of these files an earlier snapshot has copied."""
        reused = {file.path for file in self.reusable_files.values()}
        return sum(file.bytes for file in keyed if file.path in reused)


class TaskSnapshot:
    """The frozen state of one task for one checkpoint."""

    def __init__(
        self,
        checkpoint_id: int,
        name: str,
        operators: list[OperatorSnapshot],
        *,
        key_groups: KeyGroups,
        savepoint: str,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.savepoint = savepoint
        """The directory of its savepoint; empty for a checkpoint."""
        self.figures = SnapshotFigures()
        self._name = name
        self._operators = operators
        # A copy: the task's object has a cache, which the task's thread changes while another thread writes this.
        self._key_groups = KeyGroups(key_groups.max_parallelism)

    def write(self, storage: SnapshotStorage) -> Generator[None, None, SubtaskState]:
        """Write it, about a millisecond per step. Returns the files written, without files of earlier snapshots."""
        for operator in self._operators:
            if operator.store is not None:
                # Link all stores before anything is written: until then they must not delete the frozen files.
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
        """Return the whole state, or None if an earlier file is missing. Called in the task's thread."""
        states = dict(files.operators)
        broken = False
        written = 0
        for operator in self._operators:
            operator.release()
            if (new := states.get(operator.state_id)) is None:
                continue
            written += _bytes_of(new) - operator.reused_bytes(new.keyed)
            if operator.tables and not self.savepoint:
                chain = operator.written(new.keyed)
                broken = broken or chain is None
                states[operator.state_id] = msgspec.structs.replace(new, keyed=chain or [])
        if broken:
            return None
        total = sum(map(_bytes_of, states.values()))
        return SubtaskState(states, msgspec.structs.replace(self.figures, written=written, total=total))

    def failed(self) -> None:
        """Release a snapshot that failed, and make the next one full. Called in the task's thread."""
        for operator in self._operators:
            # Release even now: layers stay frozen, and are not compacted, until then.
            operator.release()
            operator.chain.has_gap = True
            operator.chain.failures += 1


def _bytes_of(state: OperatorState) -> int:
    return sum(file.bytes for file in state.keyed) + (state.lists.bytes if state.lists is not None else 0)


class Snapshots:
    """The snapshots of a task that are under way, and the files of the last one."""

    def __init__(self, chain: Chain, info: SubtaskInfo, key_groups: KeyGroups) -> None:
        self._chain = chain
        self.info = info
        self.key_groups = key_groups
        self.files = [KeyedChain() for _ in chain.operators]
        self.in_flight: list[LoggedBuffer] = []
        """The restored records in flight, of all subtasks."""
        self._under_way: dict[int, tuple[TaskSnapshot, Commits]] = {}
        self._prepared: Commits = []

    def restore(self, state: dict[str, RestoredOperator], storage: SnapshotStorage) -> int:
        """Restore state, before the operators are opened. Returns the number of bytes read; raises CheckpointError."""
        info = self.info
        groups = key_group_range(info.subtask, info.max_parallelism, info.parallelism)
        read = 0
        for index, (node, files) in enumerate(zip(self._chain.nodes, self.files, strict=True)):
            if node.state_id not in state:
                continue
            in_flight: list[LoggedBuffer] = []
            read += restore_operator(
                node.operator,
                state[node.state_id],
                files,
                groups=groups,
                max_parallelism=info.max_parallelism,
                storage=storage,
                in_flight=in_flight,
            )
            if in_flight and index:
                raise CheckpointError(
                    f"operator '{node.operator.name}' was the first of its task when this unaligned checkpoint was "
                    "taken, which holds records in flight to it. Now it is chained behind another operator. Disable "
                    "chaining here, or stop the former program with a savepoint and start this one from it"
                )
            self.in_flight += in_flight
        return read

    def prepare(self, checkpoint_id: int, savepoint: bool) -> None:
        """Let operators emit buffered records, and sinks prepare to commit. The barrier is sent next."""
        # Appended: committables of a failed snapshot go with this one.
        for operator in self._chain.operators:
            committables = operator.prepare_snapshot(checkpoint_id, savepoint)
            if committables:
                assert operator.sink_id is not None
                self._prepared.append((operator.sink_id, committables))
            # Operators behind it may have paused on what it has emitted, and have to be at rest when they prepare.
            while self._chain.paused and not self._chain.waiting:
                self._chain.resume()

    def freeze(
        self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions, in_flight: ChannelLog | None = None
    ) -> TaskSnapshot:
        """Freeze all operators. `in_flight`: a log that belongs to the first operator's state; it may still grow."""
        # All functions first: they write operator state, which is frozen below.
        for operator in self._chain.operators:
            for function in operator.context.functions:
                function.snapshot_state(operator.context, checkpoint_id, timestamp_ms)
        # All operators between the same two work items: their states belong to the same prefix of the input.
        frozen = [
            OperatorSnapshot(
                node.state_id,
                node.operator,
                files,
                options=options,
                in_flight=None if index else in_flight,
                checkpoint_id=checkpoint_id,
            )
            for index, (node, files) in enumerate(zip(self._chain.nodes, self.files, strict=True))
        ]
        info = self.info
        name = f"{checkpoint_id}-{info.vertex_id}-{info.subtask}-{info.attempt}"
        snapshot = TaskSnapshot(checkpoint_id, name, frozen, key_groups=self.key_groups, savepoint=options.savepoint)
        self._under_way[checkpoint_id] = snapshot, self._prepared
        self._prepared = []
        return snapshot

    def written(self, checkpoint_id: int, files: SubtaskState, took_ms: float) -> tuple[SubtaskState, Commits] | None:
        """Return the whole state and the commits of a stored snapshot, or None if an earlier part is missing."""
        snapshot, commits = self._under_way.pop(checkpoint_id)
        snapshot.figures = msgspec.structs.replace(snapshot.figures, async_ms=took_ms)
        state = snapshot.written(files)
        if state is None:
            self._carry_over(checkpoint_id, commits)
            return None
        return state, commits

    def failed(self, checkpoint_id: int) -> None:
        """Release a snapshot that could not be written."""
        snapshot, commits = self._under_way.pop(checkpoint_id)
        snapshot.failed()
        self._carry_over(checkpoint_id, commits)

    def return_committables(self) -> None:
        """Return unacknowledged committables to their sinks, because the task ends."""
        left = [*itertools.chain(*(commits for _, commits in self._under_way.values())), *self._prepared]
        self._under_way, self._prepared = {}, []
        sinks = {operator.sink_id: operator for operator in self._chain.operators if operator.is_sink}
        for sink_id, committables in reversed(left):
            sinks[sink_id].return_committables(committables)

    def _carry_over(self, checkpoint_id: int, commits: Commits) -> None:
        """Add the commits of a failed snapshot to the next one, which may be frozen already and may be the last."""
        later = min((number for number in self._under_way if number > checkpoint_id), default=None)
        if later is None:
            self._prepared = [*commits, *self._prepared]
        else:
            snapshot, later_commits = self._under_way[later]
            self._under_way[later] = snapshot, [*commits, *later_commits]
