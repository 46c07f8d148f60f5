"""SavepointReader: what is in a savepoint or checkpoint. Source: Flink docs, "State Processor API", Reading State."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.state.handles import Redistribution
from penstock.state_processor.keyed_table import KeyedTable, tables_of
from penstock.state_processor.operator_info import OperatorInfo, info_of
from penstock.state_processor.operator_lists import list_of, lists_of
from penstock.state_processor.reader_function import KeyedStateReaderFunction, KeyReading
from penstock.state_processor.snapshot_on_disk import SnapshotOnDisk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SavepointReader:
    """Made by `SavepointReader.read(path)`. Nothing but the manifest is read before something is asked for.

    State with a time to live is read as it is stored: a value as (time of its last use in ms, value), and so each
    element of a list and each value of a map. Only a KeyedStateReaderFunction sees what a job would see.
    """

    def __init__(self, snapshot: SnapshotOnDisk, allow_missing_classes: bool) -> None:
        self._snapshot = snapshot
        self._allow_missing = allow_missing_classes

    @staticmethod
    def read(path: str | Path, *, allow_missing_classes: bool = False) -> SavepointReader:
        """The savepoint or checkpoint at `path`, a directory or URL. Raises CheckpointError if there is none.

        Values of classes that can't be imported here are an error; with `allow_missing_classes` they come as
        MissingObject, which shows the name of the class and the fields.
        """
        return SavepointReader(SnapshotOnDisk(path), allow_missing_classes)

    @property
    def path(self) -> str:
        """Where it lies: an absolute path, or a URL."""
        return self._snapshot.path

    @property
    def is_savepoint(self) -> bool:
        """Whether it is a savepoint; else it is a checkpoint, whose job may remove it."""
        return self._snapshot.manifest.savepoint

    @property
    def job_id(self) -> str:
        """Id of the job that wrote it; "" if no job did."""
        return self._snapshot.manifest.job_id

    @property
    def job_name(self) -> str:
        """Name of the job that wrote it; "" if no job did."""
        return self._snapshot.manifest.job_name

    @property
    def checkpoint_id(self) -> int:
        """Its number among the checkpoints of the job."""
        return self._snapshot.manifest.checkpoint_id

    @property
    def completed_ms(self) -> int:
        """When it was complete, in milliseconds since the epoch."""
        return self._snapshot.manifest.completed_ms

    def operators(self) -> list[OperatorInfo]:
        """All operators with state, and how much it is. Of a checkpoint all keyed state is read for that."""
        snapshot = self._snapshot
        return [info_of(snapshot.files, part) for part in snapshot.manifest.operators]

    def operator(self, uid: str) -> OperatorInfo:
        """The operator of that uid. Raises StateNotFoundError if there is none."""
        return info_of(self._snapshot.files, self._snapshot.part(uid))

    def keyed_states(self, uid: str) -> list[str]:
        """Names of an operator's keyed states. Raises StateNotFoundError if there is no such operator."""
        return list(tables_of(self._snapshot.part(uid)))

    def list_states(self, uid: str) -> list[str]:
        """Names of an operator's states that have no key. Raises StateNotFoundError if there is no such operator."""
        return list(lists_of(self._snapshot.part(uid)))

    def entries(self, uid: str, state: str, *, key: Any = msgspec.UNSET) -> Iterator[tuple[Any, ...]]:
        """The entries of a keyed state: (key, value); of a window's (key, namespace, value).

        Of timers (key, timestamp in ms, namespace). With `key`, only those of that key: little more is read.
        Raises StateNotFoundError if there is no such operator or state, KeyTypeError if `key` can't be one, and while
        it is read CheckpointError if files are damaged or a class is missing.
        """
        table = self._table(uid, state)
        return table.rows() if key is msgspec.UNSET else table.rows_of_key(key)

    def read_keyed_state(self, uid: str, function: KeyedStateReaderFunction[Any, Any]) -> Iterator[Any]:
        """What `function` gives for each key of an operator: several states, and timers, together.

        Raises TypeError if it is no KeyedStateReaderFunction, StateNotFoundError if there is no such operator; while it
        is read also if there is no such state, and UserFunctionError if the function raises.
        """
        if not isinstance(function, KeyedStateReaderFunction):
            raise TypeError(f"expected a KeyedStateReaderFunction (an instance), got {function!r}")
        snapshot = self._snapshot
        return KeyReading(snapshot.files, snapshot.manifest, snapshot.part(uid), function).results()

    def read_list_state(self, uid: str, state: str) -> Iterator[Any]:
        """The items of a list state, of all subtasks. Raises StateNotFoundError if there is no such list."""
        return self._items(uid, state, Redistribution.SPLIT)

    def read_union_state(self, uid: str, state: str) -> Iterator[Any]:
        """The items of a union list state, of all subtasks. Raises StateNotFoundError if there is no such list."""
        return self._items(uid, state, Redistribution.UNION)

    def read_broadcast_state(self, uid: str, state: str) -> Iterator[tuple[Any, Any]]:
        """The (key, value) of a broadcast state. Raises StateNotFoundError if there is none of that name."""
        return self._items(uid, state, Redistribution.BROADCAST)

    def to_dataframe(self, spark: SparkSession, uid: str, state: str) -> DataFrame:
        """A state as a DataFrame: columns as in `entries`; `value` of lists; `key` and `value` of broadcast state.

        Executors read the files, one partition for each subtask that wrote some. A column has a type if it has the
        same one in all subtasks, in which nothing is lost; numbers without bound and decimals are text. Any other
        column is binary: pickles of the values, `pickle.loads` gives them back. A column with no value at all is text.
        SavepointWriter takes such a DataFrame, also filtered or with other columns changed, and knows what is pickled.
        Of a checkpoint, whose values have to be looked at, their classes must be importable by executors.

        Raises StateNotFoundError if there is no such operator or state. If an operator has keyed state and operator
        state of one name, the keyed one is meant.
        """
        from penstock.state_processor.data_frames import data_frame_of_items, data_frame_of_table

        part = self._snapshot.part(uid)
        if state not in tables_of(part) and state in lists_of(part):
            found = list_of(part, state)
            pairs = found.redistribution is Redistribution.BROADCAST
            return data_frame_of_items(spark, found.items(self._snapshot.files, False), pairs)
        return data_frame_of_table(spark, self._snapshot.root, self._table(uid, state))

    def items(self, uid: str, state: str) -> Iterator[Any]:
        """The items of an operator state, whatever its redistribution. Raises StateNotFoundError if there is none."""
        return self._items(uid, state, None)

    def _items(self, uid: str, state: str, wanted: Redistribution | None) -> Iterator[Any]:
        found = list_of(self._snapshot.part(uid), state, wanted)
        return found.items(self._snapshot.files, self._allow_missing)

    def _table(self, uid: str, state: str) -> KeyedTable:
        return KeyedTable(self._snapshot.files, self._snapshot.part(uid), state, self._allow_missing)
