"""SavepointWriter: creates savepoints without a job.

Source: Flink docs, "State Processor API", Writing and Modifying Savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyarrow import fs

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from penstock.common.errors import CheckpointError, ProgramError, StateNotFoundError
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.time.wall_clock import now_ms
from penstock.common.typeinfo import TypeInformation
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart
from penstock.engine.checkpoint.storage import absolute, file_system_of
from penstock.engine.snapshots.keyed_table import TIMERS, row_columns
from penstock.engine.snapshots.snapshot_files import SnapshotFiles, SnapshotOnDisk
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.key_groups import MAX_PARALLELISM_BOUND
from penstock.state_processor.bootstrap import Bootstrap
from penstock.state_processor.new_tables import NewTable, column_types, named
from penstock.state_processor.operator_draft import Change, NewList, OperatorDraft

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.keyed_stream import KeyedStream

_MAX_PARALLELISM = 128


class SavepointWriter:
    """Created by `from_existing_savepoint` or `new_savepoint`; ends with `write`. All other methods return the writer.

    Nothing is read or run before `write`, so iterables must not be consumed before it. State that is not changed,
    source positions and pending commits of sinks are retained.
    """

    def __init__(self, origin: SnapshotOnDisk | None, max_parallelism: int | None) -> None:
        if max_parallelism is not None and not 0 < max_parallelism <= MAX_PARALLELISM_BOUND:
            raise ValueError(f"the maximum parallelism must be 1 to {MAX_PARALLELISM_BOUND}, got {max_parallelism}")
        self._origin = origin
        self._max_parallelism = max_parallelism
        parts = origin.manifest.operators if origin is not None else []
        files = origin.files if origin is not None else None
        self._drafts = {part.state_id: OperatorDraft(part, files) for part in parts}
        self._bootstraps: dict[str, Bootstrap] = {}
        self._removed: set[str] = set()
        self._written = False

    @staticmethod
    def new_savepoint(max_parallelism: int = _MAX_PARALLELISM) -> SavepointWriter:
        """Create an empty savepoint. Jobs that start from it must have this maximum parallelism.

        The default 128 is the maximum parallelism of a job with a parallelism of 85 or less that does not set it.
        """
        return SavepointWriter(None, max_parallelism)

    @staticmethod
    def from_existing_savepoint(path: str | Path, max_parallelism: int | None = None) -> SavepointWriter:
        """Start with the contents of a savepoint or checkpoint, which is not modified.

        `max_parallelism` applies to operators that are added; default: that of the existing ones. Raises
        CheckpointError if there is nothing at `path`.
        """
        return SavepointWriter(SnapshotOnDisk(path), max_parallelism)

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Remove an operator with all its state. Raises StateNotFoundError if the uid is unknown."""
        self._existing(uid)
        del self._drafts[uid]
        self._removed.add(uid)
        self._bootstraps.pop(uid, None)
        return self

    def remove_state(self, uid: str, state: str) -> SavepointWriter:
        """Remove one state of an operator. Raises StateNotFoundError if the name is unknown."""
        self._existing(uid).remove(state)
        return self

    def with_keyed_state(
        self,
        uid: str,
        state: StateDescriptor | str,
        entries: Iterable[tuple[Any, ...]] | Mapping[Any, Any] | DataFrame,
        key_type: TypeInformation | None = None,
    ) -> SavepointWriter:
        """Set a keyed state of an operator, replacing an existing one of that name.

        `state` is the descriptor of the job, or, for timers and windows, a name as listed by SavepointReader. `entries`
        are (key, value), a dict, or a DataFrame with the columns `key` and `value`; (key, namespace, value) of windows,
        (key, timestamp in ms, namespace) of timers, or columns of these names. The value of a key is a list in a list
        state and a dict in a map state; with a time to live each value is (time of last use in ms, value).

        Columns of a DataFrame are converted by the type of the descriptor, and by `key_type`; without them, structs
        become Rows and a TIMESTAMP an Instant, as in streams of DataFrames. All entries are held in memory while they
        are written. Raises TypeError for invalid arguments.
        """
        name, schema = named(state)
        columns = row_columns(name)
        if isinstance(entries, Mapping):
            if len(columns) != 2:
                raise TypeError(f"the state '{name}' has entries of {', '.join(columns)}, which a dict can't represent")
            rows: Callable[[], Iterable[tuple[Any, ...]]] = entries.items
        elif hasattr(entries, "toArrow"):
            types = column_types(state, key_type)
            frame: Any = entries

            def rows() -> Iterator[tuple[Any, ...]]:
                from penstock.state_processor.data_frames import rows_of_data_frame

                return rows_of_data_frame(frame, columns, types)
        elif isinstance(entries, Iterable):

            def rows() -> Iterable[tuple[Any, ...]]:
                return entries
        else:
            raise TypeError(f"entries must be an iterable, a dict or a DataFrame, got {entries!r}")
        self._draft(uid).set_table(NewTable(name, schema, rows))
        return self

    def with_list_state(self, uid: str, state: ListStateDescriptor | str, items: Iterable[Any]) -> SavepointWriter:
        """Set a list state of an operator: items are distributed over the subtasks."""
        return self._with_list(uid, state, Redistribution.SPLIT, list(items))

    def with_union_list_state(
        self, uid: str, state: ListStateDescriptor | str, items: Iterable[Any]
    ) -> SavepointWriter:
        """Set a union list state of an operator: each subtask receives all items."""
        return self._with_list(uid, state, Redistribution.UNION, list(items))

    def with_broadcast_state(
        self, uid: str, state: MapStateDescriptor | str, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]
    ) -> SavepointWriter:
        """Set broadcast state of an operator: each subtask receives all of it."""
        return self._with_list(uid, state, Redistribution.BROADCAST, list(dict(entries).items()))

    def transform(
        self, uid: str, state: str, function: Callable[..., Any], descriptor: StateDescriptor | None = None
    ) -> SavepointWriter:
        """Change a keyed state: `function(key, value)` returns the new value, or None to drop the entry.

        For windows it is `function(key, namespace, value)`. If the type of the values changes, pass the `descriptor` of
        the job that will restore the savepoint: without it the declared type is retained. Raises StateNotFoundError if
        there is no such operator or state, ProgramError for timers, which have no value.
        """
        if state in TIMERS:
            raise ProgramError("timers have no value: read them, and set new ones with with_keyed_state")
        if not callable(function):
            raise TypeError(f"expected a function of an entry, got {function!r}")
        check_result_kind(function, "the function of an entry")
        schema = None
        if descriptor is not None:
            name, schema = named(descriptor)
            if name != state:
                raise ProgramError(
                    f"the state is '{state}', but the descriptor is of '{name}': states can't be renamed"
                )
        self._existing(uid).change(state, Change(function, schema))
        return self

    def bootstrap(self, uid: str, stream: KeyedStream[Any, Any] | DataStream[Any], function: Any) -> SavepointWriter:
        """Set the state of an operator by applying `function` to the records of a bounded stream.

        Use a KeyedStateBootstrapFunction for a keyed stream, a StateBootstrapFunction for lists, a
        BroadcastStateBootstrapFunction for broadcast state. `write` runs the stream's program as a batch job; workers
        write their state directly, so they must be able to access the path. Raises ProgramError if the operator already
        exists, or the stream is not keyed where a key is needed; TypeError for any other function.
        """
        if uid in self._drafts:
            raise ProgramError(f"the operator '{uid}' already has state: call remove_operator('{uid}') first")
        bootstrap = Bootstrap(stream, function)
        self._draft(uid)
        self._bootstraps[uid] = bootstrap
        return self

    def write(self, path: str | Path) -> str:
        """Write the savepoint to a new or empty directory and return its path.

        A job starts from it with `-s`, at any parallelism. Can be called once. Raises CheckpointError if the directory
        is not empty or files can't be read or written, ProgramError if entries do not match the state, JobError if a
        bootstrap job fails; in all cases nothing is left behind.
        """
        if self._written:
            raise ProgramError("this savepoint is already written, and its inputs may be consumed. Create a new writer")
        self._written = True
        directory = absolute(path)
        _check_is_empty(directory)
        storage = SnapshotFiles(directory)
        start_ms = now_ms()
        try:
            for index, (uid, bootstrap) in enumerate(self._bootstraps.items()):
                draft = self._drafts[uid]
                part = bootstrap.run(uid, draft.part.max_parallelism, directory, f"bootstrap-{index}")
                draft.found(part, storage)
            parts = [draft.write(storage, str(index)) for index, draft in enumerate(self._drafts.values())]
            return storage.publish(self._manifest([part for part in parts if part.subtasks], start_ms))
        except BaseException as error:
            storage.remove()
            if isinstance(error, OSError):
                raise CheckpointError(f"the savepoint {directory} can't be written: {error}") from error
            raise

    def _manifest(self, parts: list[OperatorPart], start_ms: int) -> Manifest:
        if self._origin is None:
            return Manifest(
                job_id="",
                job_name="",
                checkpoint_id=0,
                attempt=0,
                triggered_ms=start_ms,
                completed_ms=now_ms(),
                operators=parts,
                subtasks=[],
                savepoint=True,
            )
        before = self._origin.manifest
        return msgspec.structs.replace(
            before,
            completed_ms=now_ms(),
            operators=parts,
            subtasks=[],
            # Separate from `operators`: sinks may have pending commits without any state.
            enumerators={uid: state for uid, state in before.enumerators.items() if uid not in self._removed},
            commits={uid: commits for uid, commits in before.commits.items() if uid not in self._removed},
            savepoint=True,
        )

    def _with_list(
        self, uid: str, state: StateDescriptor | str, redistribution: Redistribution, items: list[Any]
    ) -> SavepointWriter:
        name, schema = named(state)
        self._draft(uid).set_list(name, NewList(redistribution, items, schema))
        return self

    def _existing(self, uid: str) -> OperatorDraft:
        draft = self._drafts.get(uid)
        if draft is None:
            there = ", ".join(f"'{one}'" for one in self._drafts)
            raise StateNotFoundError(f"there is no operator '{uid}'. There is {there or 'none'}")
        return draft

    def _draft(self, uid: str) -> OperatorDraft:
        """Return the operator, creating it if necessary."""
        if not uid:
            raise ValueError("the uid of an operator must not be empty")
        draft = self._drafts.get(uid)
        if draft is None:
            part = OperatorPart(uid, uid, 1, self._max_parallelism_of_new())
            draft = self._drafts[uid] = OperatorDraft(part, None)
        return draft

    def _max_parallelism_of_new(self) -> int:
        if self._max_parallelism is not None:
            return self._max_parallelism
        found = {draft.part.max_parallelism for draft in self._drafts.values()}
        if len(found) > 1:
            raise ProgramError(
                f"operators of this savepoint have maximum parallelisms of {', '.join(map(str, sorted(found)))}: "
                "set that of new operators with from_existing_savepoint(path, max_parallelism)"
            )
        return next(iter(found), _MAX_PARALLELISM)


def _check_is_empty(directory: str) -> None:
    system, inside = file_system_of(directory)
    try:
        found = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    except OSError as error:
        raise CheckpointError(f"a savepoint can't be written to {directory}: {error}") from error
    if found:
        raise CheckpointError(f"{directory} is not empty: a savepoint needs its own directory")
