"""SavepointReader: reads savepoints and checkpoints. Source: Flink docs, "State Processor API", Reading State."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.engine.snapshots.keyed_table import KeyedTable, tables_of
from penstock.engine.snapshots.operator_lists import list_of, lists_of
from penstock.engine.snapshots.snapshot_files import SnapshotOnDisk
from penstock.engine.state.handles import Redistribution
from penstock.state_processor.operator_info import OperatorInfo, info_of
from penstock.state_processor.reader_function import KeyedStateReaderFunction, KeyReading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SavepointReader:
    """Created by `SavepointReader.read(path)`. Only the manifest is read before data is requested.

    State with a time to live is returned as stored: each value, list element and map value is a pair (time of last use
    in ms, value). Only a KeyedStateReaderFunction sees the state as the job would.
    """

    def __init__(self, snapshot: SnapshotOnDisk, allow_missing_classes: bool) -> None:
        self._snapshot = snapshot
        self._allow_missing = allow_missing_classes

    @staticmethod
    def read(path: str | Path, *, allow_missing_classes: bool = False) -> SavepointReader:
        """Open the savepoint or checkpoint at `path`, a directory or URL. Raises CheckpointError if there is none.

        Values of classes that can't be imported here raise an error; with `allow_missing_classes` they are returned as
        MissingObject, which shows class name and fields.
        """
        return SavepointReader(SnapshotOnDisk(path), allow_missing_classes)

    @property
    def path(self) -> str:
        """The absolute path or URL."""
        return self._snapshot.path

    @property
    def is_savepoint(self) -> bool:
        """Whether it is a savepoint; a checkpoint may be removed by its job."""
        return self._snapshot.manifest.savepoint

    @property
    def job_id(self) -> str:
        """Id of the job that wrote the snapshot; "" if a program without a job did."""
        return self._snapshot.manifest.job_id

    @property
    def job_name(self) -> str:
        """Name of the job that wrote the snapshot; "" if a program without a job did."""
        return self._snapshot.manifest.job_name

    @property
    def checkpoint_id(self) -> int:
        """Id of the snapshot among the checkpoints of the job."""
        return self._snapshot.manifest.checkpoint_id

    @property
    def completed_ms(self) -> int:
        """Completion time in milliseconds since the epoch."""
        return self._snapshot.manifest.completed_ms

    def operators(self) -> list[OperatorInfo]:
        """Return all operators with state, and its size. For a checkpoint this reads all keyed state."""
        snapshot = self._snapshot
        return [info_of(snapshot.files, part) for part in snapshot.manifest.operators]

    def operator(self, uid: str) -> OperatorInfo:
        """Return the operator with this uid. Raises StateNotFoundError if the uid is unknown."""
        return info_of(self._snapshot.files, self._snapshot.part(uid))

    def keyed_states(self, uid: str) -> list[str]:
        """Return the names of an operator's keyed states. Raises StateNotFoundError if there is no such operator."""
        return list(tables_of(self._snapshot.part(uid)))

    def list_states(self, uid: str) -> list[str]:
        """Return the names of an operator's operator states. Raises StateNotFoundError if there is no such operator."""
        return list(lists_of(self._snapshot.part(uid)))

    def entries(self, uid: str, state: str, *, key: Any = msgspec.UNSET) -> Iterator[tuple[Any, ...]]:
        """Yield the entries of a keyed state: (key, value), or (key, namespace, value) of windows.

        Entries of timers are (key, timestamp in ms, namespace). With `key`, yield entries of that key only, reading
        little more. Raises StateNotFoundError if there is no such operator or state, KeyTypeError if `key` is not a
        valid key, and during iteration CheckpointError if files are damaged or a class is missing.
        """
        table = self._table(uid, state)
        return table.rows() if key is msgspec.UNSET else table.rows_of_key(key)

    def read_keyed_state(self, uid: str, function: KeyedStateReaderFunction[Any, Any]) -> Iterator[Any]:
        """Yield the results of `function` for each key of an operator: several states, and timers, together.

        Raises TypeError if it is not a KeyedStateReaderFunction, StateNotFoundError if there is no such operator.
        During iteration it raises StateNotFoundError for a missing state, and UserFunctionError if the function raises.
        """
        if not isinstance(function, KeyedStateReaderFunction):
            raise TypeError(f"expected a KeyedStateReaderFunction (an instance), got {function!r}")
        snapshot = self._snapshot
        return KeyReading(snapshot.files, snapshot.manifest, snapshot.part(uid), function).results()

    def read_list_state(self, uid: str, state: str) -> Iterator[Any]:
        """Yield the items of a list state of all subtasks. Raises StateNotFoundError if there is no such list."""
        return self._items(uid, state, Redistribution.SPLIT)

    def read_union_state(self, uid: str, state: str) -> Iterator[Any]:
        """Yield the items of a union list state of all subtasks. Raises StateNotFoundError if there is no such list."""
        return self._items(uid, state, Redistribution.UNION)

    def read_broadcast_state(self, uid: str, state: str) -> Iterator[tuple[Any, Any]]:
        """Yield the (key, value) pairs of a broadcast state.

        Raises StateNotFoundError if the name is unknown.
        """
        return self._items(uid, state, Redistribution.BROADCAST)

    def to_dataframe(self, spark: SparkSession, uid: str, state: str) -> DataFrame:
        """Return a state as a DataFrame: columns as in `entries`; `value` of lists; `key`, `value` of broadcast state.

        Executors read the files, one partition per subtask that wrote them. A column is typed if all subtasks have the
        same type and Spark has a lossless equivalent; unbounded numbers and decimals are text. Any other column is
        binary: pickled values, for `pickle.loads`. A column without values is text. SavepointWriter accepts such a
        DataFrame, also filtered or with changes to other columns, and recognizes pickled columns. In a checkpoint,
        types are derived from the values, so executors must be able to import their classes.

        Raises StateNotFoundError if there is no such operator or state. If an operator has keyed state and operator
        state of the same name, the keyed state is returned.
        """
        from penstock.state_processor.data_frames import data_frame_of_items, data_frame_of_table

        part = self._snapshot.part(uid)
        if state not in tables_of(part) and state in lists_of(part):
            found = list_of(part, state)
            pairs = found.redistribution is Redistribution.BROADCAST
            return data_frame_of_items(spark, found.items(self._snapshot.files, False), pairs)
        return data_frame_of_table(spark, self._snapshot.root, self._table(uid, state))

    def items(self, uid: str, state: str) -> Iterator[Any]:
        """Yield the items of an operator state of any redistribution.

        Raises StateNotFoundError if it does not exist.
        """
        return self._items(uid, state, None)

    def _items(self, uid: str, state: str, required: Redistribution | None) -> Iterator[Any]:
        found = list_of(self._snapshot.part(uid), state, required)
        return found.items(self._snapshot.files, self._allow_missing)

    def _table(self, uid: str, state: str) -> KeyedTable:
        return KeyedTable(self._snapshot.files, self._snapshot.part(uid), state, self._allow_missing)
