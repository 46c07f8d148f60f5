"""Snapshots created without Spark, as a job's subtasks and the coordinator write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.api.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.windows.window import TimeWindow
from penstock.common.typeinfo import Types
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, packed
from penstock.engine.checkpoint.storage import DirectoryStorage, SavepointStorage, StateFiles
from penstock.engine.runtime.operators.keyed import EVENT_TIMERS_TABLE
from penstock.engine.runtime.time.timers import HeapTimerQueue
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.handles import KeyedFile, OperatorState, Redistribution
from penstock.engine.state.key_groups import KeyGroups, subtask_of
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import schema_of
from penstock.engine.state.snapshot.files import write_columns, write_keyed, write_lists
from penstock.state_processor.new_tables import finished

MAX_PARALLELISM = 128
GROUPS = KeyGroups(MAX_PARALLELISM)
COUNT = ValueStateDescriptor("count", Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())
TOTALS = MapStateDescriptor("totals", Types.STRING(), Types.LONG())
BUFFER = ListStateDescriptor("buffer", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING())
PER_WINDOW = ValueStateDescriptor("seen", Types.LONG())
STATES: tuple[StateDescriptor, ...] = (COUNT, NAMES, TOTALS)
COMPLETED_MS = 1_700_000_000_000


@dataclasses.dataclass(frozen=True)
class Backend:
    """The keyed state of one subtask."""

    backend: KeyedStateBackend
    timers: HeapTimerQueue


def backend_of(keys: Iterable[Any]) -> Backend:
    """For key n: count n², names "n0".., totals, state of a window, and a timer at n ms."""
    backend, timers = HashMapKeyedStateBackend(), HeapTimerQueue()
    backend.tables[EVENT_TIMERS_TABLE] = timers
    count, names, totals = map(backend.state, STATES)
    seen = backend.state(PER_WINDOW, namespaced=True)
    for key in keys:
        backend.key = key
        count.update(key * key)
        names.update([f"n{i}" for i in range(key % 3 + 1)])
        totals.put("all", key)
        backend.namespace = TimeWindow(0, 10)
        seen.update(key)
        timers.register(key, key)
    return Backend(backend, timers)


def keyed_files(storage: StateFiles, name: str, of: Backend, savepoint: bool, full: bool = True) -> list[KeyedFile]:
    backend = of.backend
    frozen = {table_name: table.freeze(full or savepoint) for table_name, table in backend.tables.items()}
    if not savepoint:
        schemas = {table_name: str(schema) for table_name, schema in backend.schemas.items()}
        return [finished(write_keyed(storage, f"{name}-keyed", frozen, GROUPS, schemas))]
    written = [
        finished(write_columns(storage, f"{name}-{n}.parquet", table, GROUPS, backend.schemas.get(table[0])))
        for n, table in enumerate(frozen.items())
    ]
    return [file for file in written if file is not None]


def lists_of(subtask: int) -> list[NamedList]:
    return [
        NamedList("buffer", Redistribution.SPLIT, [f"b{subtask}0", f"b{subtask}1"], schema_of(BUFFER)),
        NamedList("offsets", Redistribution.UNION, [(subtask, 7)], schema_of(ListStateDescriptor("offsets"))),
        NamedList("rules", Redistribution.BROADCAST, [("limit", 5), ("on", True)], schema_of(RULES)),
    ]


@dataclasses.dataclass(frozen=True)
class Snapshots:
    """Paths of a savepoint and a checkpoint of the same state: keys 0 to 99, two subtasks."""

    savepoint: Path
    checkpoint: Path


def write_snapshot(directory: Path, savepoint: bool) -> Path:
    storage: Any = SavepointStorage(str(directory)) if savepoint else DirectoryStorage(str(directory))
    subtasks = []
    for subtask in range(2):
        keys = [key for key in range(100) if subtask_of(GROUPS[key], MAX_PARALLELISM, 2) == subtask]
        if savepoint:
            keyed = keyed_files(storage, f"3-0-{subtask}-0", backend_of(keys), True)
        else:
            # A full file, and what has changed since.
            of = backend_of(keys)
            of.backend.key = keys[0]
            of.backend.state(COUNT).update(-1)
            gone = (f"gone {number}" for number in range(100))
            of.backend.key = next(key for key in gone if subtask_of(GROUPS[key], MAX_PARALLELISM, 2) == subtask)
            of.backend.state(COUNT).update(1)
            keyed = keyed_files(storage, f"2-0-{subtask}-0", of, False)
            of.backend.state(COUNT).clear()
            of.backend.key = keys[0]
            of.backend.state(COUNT).update(keys[0] ** 2)
            keyed += keyed_files(storage, f"3-0-{subtask}-0", of, False, full=False)
        lists = finished(write_lists(storage, f"3-0-{subtask}-0-lists", lists_of(subtask), savepoint))
        subtasks.append(SubtaskPart(subtask, OperatorState(keyed, lists)))
    sources = finished(
        write_lists(storage, "3-1-0-0-lists", [NamedList("(source) splits", Redistribution.SPLIT, ["split at 7"])])
    )
    operators = [
        OperatorPart("numbers", "Numbers", 1, MAX_PARALLELISM, [SubtaskPart(0, OperatorState([], sources))]),
        OperatorPart("count", "Count", 2, MAX_PARALLELISM, subtasks),
    ]
    manifest = Manifest(
        "0123456789abcdef",
        "counting",
        3,
        0,
        COMPLETED_MS - 5,
        COMPLETED_MS,
        operators,
        [],
        enumerators={"numbers": packed("rest")},
        commits={"files": [packed((0, ["a file"]))], "numbers": []},
        savepoint=savepoint,
    )
    return Path(storage.publish(manifest))


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(write_snapshot(tmp_path / "sp", True), write_snapshot(tmp_path / "job", False))


@pytest.fixture(params=["savepoint", "checkpoint"])
def snapshot(snapshots: Snapshots, request: pytest.FixtureRequest) -> Path:
    return getattr(snapshots, request.param)  # type: ignore[no-any-return]
