"""Windows of columns restored from files, by columns and by rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.aggregates_of_fields import READING
from tests.unit.engine.state.written_state import ALL_GROUPS, GROUPS, files_in_memory

from penstock.common import Time, Types
from penstock.common.errors import CheckpointError
from penstock.common.types import Row
from penstock.datastream.window import (
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.snapshot.files import restore_keyed, write_columns, write_keyed
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished
from penstock.testing import OperatorHarness

TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
Snapshot = tuple[MemoryStorage, list[KeyedFile]]


def windows(on_columns: bool, assigner: Any, aggregates: Any, lateness_ms: int = 0) -> OperatorHarness:
    """Return a harness of windows by key."""

    def program(stream: Any) -> Any:
        typed = stream.as_columns(READING) if on_columns else stream
        return typed.key_by("key").window(assigner).allowed_lateness(lateness_ms).aggregate(aggregates)

    return OperatorHarness(program)


def snapshot(harness: OperatorHarness, savepoint: bool) -> Snapshot:
    """Write the keyed state."""
    operator, storage = harness.operator, files_in_memory()
    operator.prepare_snapshot(1, savepoint)
    tables = {name: table.freeze(True) for name, table in operator.keyed_tables().items()}
    schemas = operator.keyed_schemas()
    if savepoint:
        written = [
            finished(write_columns(storage, name, (name, table), GROUPS, schemas.get(name)))
            for name, table in tables.items()
        ]
        files = [file for file in written if file is not None]
    else:
        texts = {name: str(schema) for name, schema in schemas.items()}
        files = [finished(write_keyed(storage, "file", tables, GROUPS, texts))]
    for table in tables.values():
        table.release()
    return storage, files


def restore(found: Snapshot, harness: OperatorHarness) -> None:
    """Let an operator continue from a snapshot."""
    storage, files = found
    schemas = {table.name: table.schema for file in files for table in file.tables}
    tables = {name: harness.operator.restored_table(name, schema) for name, schema in schemas.items()}
    restore_keyed(storage, files, ALL_GROUPS, tables)
    harness.operator.open()


@pytest.mark.parametrize("assigner", [TUMBLING, SESSIONS])
@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_bounds_without_aggregates(before: bool, after: bool, savepoint: bool, assigner: Any) -> None:
    """The distinct keys of each window have accumulators of no parts, which could not be stored or merged."""
    bounds = {"start": "window_start", "end": "window_end"}
    with windows(before, assigner, bounds) as first, windows(after, assigner, bounds) as second:
        for key in "aba":
            first.push(Row(key=key, n=1, f=0.5), 10)
        restore(snapshot(first, savepoint), second)
        second.push(Row(key="c", n=1, f=0.5), 10)
        second.finish()
        assert sorted(map(tuple, second.outputs())) == [(key, 10, 20) for key in "abc"]


@pytest.mark.parametrize(("on_columns", "lateness_ms"), [(True, 0), (True, 5), (False, 0), (False, 5)])
def test_keys_that_come_between_a_savepoint_and_a_checkpoint(on_columns: bool, lateness_ms: int) -> None:
    """Those that the savepoint noted as waiting would be the only ones to fire."""
    count = {"n_": "count"}
    with windows(True, TUMBLING, count) as first, windows(on_columns, TUMBLING, count, lateness_ms) as second:
        first.push(Row(key="a", n=1, f=0.5), 5)
        snapshot(first, savepoint=True)
        first.push(Row(key="b", n=1, f=0.5), 5)
        restore(snapshot(first, savepoint=False), second)
        second.finish()
        assert sorted(map(tuple, second.outputs())) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("again", "abcdefgh")
def test_a_window_that_was_there_again_has_no_keys_of_before(again: str) -> None:
    """A clock that goes back lets a window come again that has fired: what was in it would fire twice."""
    windows_of_time = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    count = {"n_": "count"}
    with windows(True, windows_of_time, count) as first, windows(True, windows_of_time, count) as second:
        storage, files = files_in_memory(), []
        for number, keys in enumerate(("abcdefgh", again)):
            for key in keys:
                first.push(Row(key=key, n=1, f=0.5))
            first.operator.prepare_snapshot(number, False)
            tables = {name: table.freeze(not number) for name, table in first.operator.keyed_tables().items()}
            files.append(finished(write_keyed(storage, str(number), tables, GROUPS)))
            for table in tables.values():
                table.release()
            first.advance_ms(10)
            first.now_ms = 0
        restore((storage, files), second)
        second.advance_ms(10)
        assert [tuple(row) for row in second.outputs()] == [(again, 1)]


NUMBERED = Types.ROW_NAMED(["key", "n", "f"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
PAIR = Types.ROW_NAMED(["key", "n", "f"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
PROGRAMS: dict[str, Any] = {
    "windows": lambda stream, *key: stream.key_by(*key).window(TUMBLING).aggregate({"c": "count"}),
    "cumulative windows": lambda stream, *key: (
        stream.key_by(*key).window(CumulativeEventTimeWindows.of(30, 10)).aggregate({"c": "count"})
    ),
    "running": lambda stream, *key: stream.key_by(*key).aggregate({"c": "count"}),
}


@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("on_columns", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("before", "after", "keys", "words"),
    [
        (READING, NUMBERED, ("key",), r"keys of type str, such as 'a'; the program .* \(key: int64\)\. Give"),
        (NUMBERED, READING, ("key",), r"keys of type int, such as 7; the program .* \(key: string\)\. Give"),
        (NUMBERED, PAIR, ("key", "n"), r"keys of type int, such as 1; .* \(key: int64, n: string\)\. Give"),
    ],
)
def test_keys_of_another_type_are_refused(
    before: Any, after: Any, keys: tuple[str, ...], words: str, name: str, on_columns: bool, savepoint: bool
) -> None:
    """Keys would be integers in the state and texts in the records, so that a key has two results, or a raw error."""

    def harness(kind: Any, converts: bool) -> OperatorHarness:
        return OperatorHarness(lambda stream: PROGRAMS[name](stream.as_columns(kind) if converts else stream, *keys))

    with harness(before, on_columns) as first, harness(after, True) as second:
        first.push(Row(key="a" if before is READING else 7, n=1, f=0.5), 10)
        with pytest.raises(CheckpointError, match=f"operator '.*': the state has {words}"):
            restore(snapshot(first, savepoint), second)
