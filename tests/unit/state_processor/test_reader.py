"""Savepoints and checkpoints read as data."""

from __future__ import annotations

import shutil
import sys
import types
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.state_processor.conftest import COUNT, NAMES, TOTALS, Snapshots

from penstock.api.state.descriptors import StateTtlConfig, ValueStateDescriptor
from penstock.api.windows.window import TimeWindow
from penstock.common.errors import CheckpointError, StateNotFoundError, UserFunctionError
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.engine.snapshots.snapshot_files import SnapshotFiles
from penstock.state_processor import KeyedStateReaderFunction, MissingObject, SavepointReader, SavepointWriter


def test_what_is_in_it(snapshots: Snapshots) -> None:
    """The contents of a savepoint would be unknown before a job starts from it."""
    reader = SavepointReader.read(snapshots.savepoint)
    assert (reader.job_name, reader.checkpoint_id, reader.is_savepoint) == ("counting", 3, True)
    source, count = reader.operators()
    assert (source.uid, source.list_states[0][:3]) == ("numbers", ("(source) splits", "split", 1))
    assert count[:4] == ("count", "Count", 2, 128)
    states = {state.name: (state.type, state.entries) for state in count.keyed_states}
    assert states == {
        "(timers) event time": ("timers in event time", 100),
        "count": ("value of Long", 100),
        "names": ("list of ListTypeInfo<String>", 100),
        "totals": ("map of MapTypeInfo<String, Long>", 100),
        "window/seen": ("value of Long", 100),
    }
    assert all(state.bytes > 0 for state in count.keyed_states)
    assert [one[:3] for one in count.list_states] == [
        ("buffer", "split", 4),
        ("offsets", "union", 2),
        ("rules", "broadcast", 2),
    ]
    checkpoint = SavepointReader.read(snapshots.checkpoint / "_metadata")
    assert not checkpoint.is_savepoint
    assert {state.name: (state.type, state.entries) for state in checkpoint.operator("count").keyed_states} == states


def test_entries_of_each_kind(snapshot: Path) -> None:
    """State could be inspected only by a job that prints it, or removed state would still be shown."""
    reader = SavepointReader.read(snapshot)
    assert sorted(reader.entries("count", "count")) == [(n, n * n) for n in range(100)]
    assert dict(reader.entries("count", "names"))[5] == ["n0", "n1", "n2"]
    assert dict(reader.entries("count", "totals"))[5] == {"all": 5}
    assert sorted(reader.entries("count", "window/seen"))[7] == (7, TimeWindow(0, 10), 7)
    assert sorted(reader.entries("count", "(timers) event time"))[7] == (7, 7, None)


def test_operator_state(snapshot: Path) -> None:
    """Operator state of all subtasks would have to be merged by hand."""
    reader = SavepointReader.read(snapshot)
    assert sorted(reader.read_list_state("count", "buffer")) == ["b00", "b01", "b10", "b11"]
    assert sorted(reader.read_union_state("count", "offsets")) == [(0, 7), (1, 7)]
    assert dict(reader.read_broadcast_state("count", "rules")) == {"limit": 5, "on": True}
    assert list(reader.items("numbers", "(source) splits")) == ["split at 7"]


def test_one_key_is_found_without_reading_the_rest(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading one customer would take as long as reading the state of all."""
    reader = SavepointReader.read(snapshot)
    assert list(reader.entries("count", "count", key=7)) == [(7, 49)]
    assert list(reader.entries("count", "window/seen", key=7)) == [(7, TimeWindow(0, 10), 7)]
    assert list(reader.entries("count", "count", key="nobody")) == []
    read: list[int] = []
    whole = SnapshotFiles.read
    monkeypatch.setattr(
        SnapshotFiles, "read", lambda files, p, o, length: read.append(length) or whole(files, p, o, length)
    )
    list(reader.entries("count", "count"))
    all_bytes = sum(read)
    read.clear()
    list(reader.entries("count", "count", key=7))
    assert sum(read) < all_bytes


class Joined(KeyedStateReaderFunction[int, Any]):
    """Collects the state of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.names = runtime_context.get_list_state(NAMES)
        self.totals = runtime_context.get_map_state(TOTALS)

    def read_key(self, key: int, ctx: KeyedStateReaderFunction.Context) -> Iterator[Any]:
        yield key, self.count.value(), list(self.names), self.totals["all"], ctx.registered_event_time_timers()
        assert ctx.registered_processing_time_timers() == set()


def test_states_of_a_key_together(snapshot: Path) -> None:
    """A report on customers would have to join states that the job keeps together."""
    rows = sorted(SavepointReader.read(snapshot).read_keyed_state("count", Joined()))
    assert rows == [(n, n * n, [f"n{i}" for i in range(n % 3 + 1)], n, {n}) for n in range(100)]


def test_state_is_read_in_parts(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State that is larger than the memory of one machine could not be read."""
    monkeypatch.setattr("penstock.engine.snapshots.keyed_table.SPAN_BYTES", 200)
    reader = SavepointReader.read(snapshot)
    assert sorted(reader.entries("count", "count")) == [(n, n * n) for n in range(100)]
    assert len(list(reader.read_keyed_state("count", Joined()))) == 100
    assert next(one for one in reader.operator("count").keyed_states if one.name == "count").entries == 100


class Asks(KeyedStateReaderFunction[int, Any]):
    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(self.descriptor)

    def read_key(self, key: int, ctx: Any) -> Any:
        return [1 / (self.state.value() - 49)]


def test_what_is_not_there_is_answered_with_what_is(snapshots: Snapshots, tmp_path: Path) -> None:
    """A typing error would look like a job without state."""
    reader = SavepointReader.read(snapshots.savepoint)
    with pytest.raises(
        StateNotFoundError, match=r"no operator 'cuont'. It has 'numbers' \(Numbers\), 'count' \(Count\)"
    ):
        reader.entries("cuont", "count")
    with pytest.raises(StateNotFoundError, match=r"no keyed state 'counts'. It has .*'count', 'names'"):
        reader.entries("count", "counts")
    with pytest.raises(StateNotFoundError, match=r"no union 'buffer'. It has 'buffer' \(a list state\)"):
        reader.read_union_state("count", "buffer")
    with pytest.raises(StateNotFoundError, match=r"no keyed state 'x'. It has"):
        list(reader.read_keyed_state("count", Asks(ValueStateDescriptor("x"))))
    with pytest.raises(
        UserFunctionError, match="was written as value of Long, the program declares it as value of Str"
    ):
        list(reader.read_keyed_state("count", Asks(ValueStateDescriptor("count", Types.STRING()))))
    with pytest.raises(UserFunctionError, match=r"Asks.read_key\n  key 7\n(.|\n)*ZeroDivisionError"):
        list(reader.read_keyed_state("count", Asks(COUNT)))
    with pytest.raises(TypeError, match="KeyedStateReaderFunction"):
        reader.read_keyed_state("count", Asks)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        SavepointReader.read(tmp_path / "nowhere")


def test_it_can_be_moved(snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A savepoint copied from production, or opened by a relative path, could not be read."""
    shutil.move(snapshots.savepoint, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert len(list(SavepointReader.read("elsewhere").entries("count", "count"))) == 100


THE_JOB = """
import dataclasses, enum

@dataclasses.dataclass(frozen=True)
class Account:
    owner: str
    cents: int

class Color(enum.Enum):
    RED = 1

class Bag(list):
    pass
"""


@pytest.fixture
def of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A savepoint with values, keys and records of classes that exist only in the job's own module."""
    module = types.ModuleType("the_job")
    monkeypatch.setitem(sys.modules, "the_job", module)
    exec(THE_JOB, vars(module))
    module.Point = namedtuple("Point", "x y", module="the_job")  # type: ignore[attr-defined]
    account = module.Account("Ann", 5)  # type: ignore[attr-defined]
    bag = module.Bag([1])  # type: ignore[attr-defined]
    writer = SavepointWriter.new_savepoint()
    writer.with_keyed_state("op", ValueStateDescriptor("by account"), {account: [account, module.Color.RED]})  # type: ignore[attr-defined]
    writer.with_keyed_state("op", ValueStateDescriptor("mixed"), {"a": {module.Point(1, 2)}, "b": bag})  # type: ignore[attr-defined]
    writer.with_list_state("op", "list", [account])
    path = writer.write(tmp_path / "of the job")
    monkeypatch.delitem(sys.modules, "the_job")
    return Path(path)


def test_values_of_classes_that_are_not_here(of_the_job: Path) -> None:
    """During an incident, the reader would raise an import error instead of showing the state."""
    with pytest.raises(CheckpointError, match=r"values of the_job.Account, which can't be imported here"):
        list(SavepointReader.read(of_the_job).entries("op", "by account"))
    reader = SavepointReader.read(of_the_job, allow_missing_classes=True)
    ((key, value),) = reader.entries("op", "by account")
    assert isinstance(key, MissingObject)
    assert repr(key) == "Account(owner='Ann', cents=5)"
    assert repr(value) == "[Account(owner='Ann', cents=5), Color('RED')]"
    assert key == value[0] and hash(key) == hash(value[0])
    mixed = dict(reader.entries("op", "mixed"))
    assert (repr(mixed["a"]), repr(mixed["b"])) == ("{Point(x=1, y=2)}", "Bag() [1]")
    assert repr(list(reader.read_list_state("op", "list"))) == "[Account(owner='Ann', cents=5)]"
    assert reader.operators()[0].keyed_states[0].entries == 1


def test_time_to_live_is_that_of_the_snapshot(tmp_path: Path) -> None:
    """State that expired long before the savepoint would be reported as present."""
    config = StateTtlConfig.new_builder(Time.hours(1)).build()
    timed = ValueStateDescriptor("timed", Types.LONG())
    timed.enable_time_to_live(config)
    now_ms = 4_102_444_800_000
    writer = SavepointWriter.new_savepoint()
    path = writer.with_keyed_state("op", timed, {"old": (0, 1), "new": (now_ms, 2)}).write(tmp_path / "sp")

    class Timed(KeyedStateReaderFunction[str, Any]):
        def open(self, runtime_context: Any) -> None:
            self.timed = runtime_context.get_state(timed)

        def read_key(self, key: str, ctx: Any) -> Any:
            return [(key, self.timed.value())]

    reader = SavepointReader.read(path)
    assert sorted(reader.read_keyed_state("op", Timed())) == [("new", 2), ("old", None)]
    assert dict(reader.entries("op", "timed")) == {"old": (0, 1), "new": (now_ms, 2)}
