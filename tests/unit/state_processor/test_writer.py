"""Savepoints created and modified without a job."""

from __future__ import annotations

import gc
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.state_processor.conftest import COUNT, MAX_PARALLELISM, NAMES, TOTALS, Snapshots

from penstock.api.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.api.windows.window import TimeWindow
from penstock.common.errors import (
    CheckpointError,
    DamagedCheckpointError,
    ProgramError,
    StateNotFoundError,
    UserFunctionError,
)
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.engine.checkpoint.manifest import with_absolute_paths
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.restore import assign, enumerator_states
from penstock.engine.checkpoint.storage import SavepointStorage, read_manifest
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.key_groups import key_group_of, key_group_range
from penstock.engine.state.snapshot.files import read_items, restore_keyed
from penstock.state_processor import SavepointReader, SavepointWriter

BUFFER = ListStateDescriptor("buffer", Types.STRING())


def restored(path: str, uid: str, descriptor: StateDescriptor, keys: Any, parallelism: int) -> dict[Any, Any]:
    """Return what the subtasks of a job restored from it receive."""
    manifest = with_absolute_paths(read_manifest(path), path)
    outline = CheckpointVertex(1, uid, parallelism, MAX_PARALLELISM, [(uid, uid)], False)
    given = assign(manifest, [outline], owns_files=False, allow_non_restored=True)
    storage = SavepointStorage(path)
    found = {}
    for subtask in range(parallelism):
        backend, groups = HashMapKeyedStateBackend(), key_group_range(subtask, MAX_PARALLELISM, parallelism)
        for chain in given[1, subtask][uid].chains:
            tables = {t.name: backend.restored_table(t.name, t.schema) for file in chain for t in file.tables}
            restore_keyed(storage, chain, groups, tables)
        state = backend.state(descriptor)
        for key in keys:
            backend.key = key
            if state.value() is not None:
                assert key not in found and key_group_of(key, MAX_PARALLELISM) in groups
                found[key] = state.value()
    return found


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_savepoint_from_nothing(tmp_path: Path, parallelism: int) -> None:
    """A job could not start with the state of its predecessor in another system."""
    entries = {f"key {n}": n for n in range(1_000)}
    path = SavepointWriter.new_savepoint().with_keyed_state("op", COUNT, entries).write(tmp_path / "sp")
    assert restored(path, "op", COUNT, entries, parallelism) == entries
    (file,) = Path(path).glob("*.parquet")
    table = pq.read_table(file)
    assert [str(field.type) for field in table.schema] == ["int32", "string", "int64"]
    assert dict(SavepointReader.read(path).entries("op", "count")) == entries


def test_keys_that_are_lists(tmp_path: Path) -> None:
    """The state of a program that is moved from PyFlink, with lists as its keys, would be lost at a restart."""
    entries = [([n, "x"], n) for n in range(20)]
    path = SavepointWriter.new_savepoint().with_keyed_state("op", COUNT, entries).write(tmp_path / "sp")
    found = restored(path, "op", COUNT, [as_key(key) for key, _ in entries], 2)
    assert sorted(found.items(), key=itemgetter(1)) == entries
    assert list(SavepointReader.read(path).entries("op", "count", key=[3, "x"])) == [([3, "x"], 3)]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_one_state_of_many_is_changed(snapshot: Path, tmp_path: Path, parallelism: int) -> None:
    """Repairing one counter would discard all other state, including source positions."""
    writer = SavepointWriter.from_existing_savepoint(snapshot)
    writer.transform("count", "count", lambda key, count: count + 1 if key % 2 else None)
    writer.transform("count", "window/seen", lambda key, window, seen: (window.end, seen))
    path = writer.write(tmp_path / "changed")
    reader, before = SavepointReader.read(path), SavepointReader.read(snapshot)
    odd = {n: n * n + 1 for n in range(1, 100, 2)}
    assert restored(path, "count", COUNT, range(100), parallelism) == odd
    assert sorted(reader.entries("count", "window/seen"))[7] == (7, TimeWindow(0, 10), (10, 7))
    for untouched in ("names", "totals", "(timers) event time"):
        assert sorted(reader.entries("count", untouched), key=lambda row: row[0]) == sorted(
            before.entries("count", untouched), key=lambda row: row[0]
        )
    assert sorted(reader.read_list_state("count", "buffer")) == sorted(before.read_list_state("count", "buffer"))
    assert enumerator_states(read_manifest(path)) == {"numbers": "rest"}
    assert read_manifest(path).commits.keys() == {"files", "numbers"}, "a sink without state has something to commit"
    assert {one.name: one.type for one in reader.operator("count").keyed_states}["names"].startswith("list of")
    assert len(list(before.entries("count", "count"))) == 100, "it is itself as it was"


def test_what_is_replaced_added_and_removed(snapshot: Path, tmp_path: Path) -> None:
    """State could be added to a savepoint, but not corrected."""
    writer = SavepointWriter.from_existing_savepoint(snapshot)
    writer.with_keyed_state("count", COUNT, ((key, -1) for key in range(5)))
    writer.with_keyed_state("count", "(timers) event time", [(1, 99, None)])
    writer.with_keyed_state("count", "window/seen", [(1, TimeWindow(0, 5), 8)])
    writer.remove_state("count", "names").remove_state("count", "rules")
    writer.with_list_state("count", BUFFER, ["x", "y", "z"])
    writer.with_union_list_state("new", ListStateDescriptor("all"), [1, 2])
    writer.with_broadcast_state("new", MapStateDescriptor("rules"), {"a": 1})
    writer.with_keyed_state("new", TOTALS, {"k": {"t": 1}}).with_keyed_state("new", NAMES, {"k": ["n"]})
    writer.remove_operator("numbers")
    reader = SavepointReader.read(writer.write(tmp_path / "changed"))
    assert sorted(reader.entries("count", "count")) == [(key, -1) for key in range(5)]
    assert list(reader.entries("count", "(timers) event time")) == [(1, 99, None)]
    assert list(reader.entries("count", "window/seen")) == [(1, TimeWindow(0, 5), 8)]
    count, new = reader.operators()
    assert {one.name for one in count.keyed_states} == {"count", "totals", "(timers) event time", "window/seen"}
    assert [(one.name, one.redistribution, one.items) for one in count.list_states] == [
        ("offsets", "union", 2),
        ("buffer", "split", 3),
    ]
    assert (new.uid, new.max_parallelism) == ("new", MAX_PARALLELISM)
    assert list(reader.read_union_state("new", "all")) == [1, 2]
    assert list(reader.read_broadcast_state("new", "rules")) == [("a", 1)]
    assert list(reader.entries("new", "totals")) == [("k", {"t": 1})]
    assert (read_manifest(reader.path).enumerators, list(read_manifest(reader.path).commits)) == ({}, ["files"])


def test_new_lists_are_dealt_out_like_old_ones(snapshots: Snapshots, tmp_path: Path) -> None:
    """Each subtask would receive all items of a list, or broadcast state would reach one of them only."""
    writer = SavepointWriter.from_existing_savepoint(snapshots.savepoint)
    writer.with_list_state("count", BUFFER, ["x", "y", "z"])
    writer.with_union_list_state("count", "offsets", [4, 5]).with_broadcast_state("count", "rules", [("a", 1)])
    path = writer.write(tmp_path / "changed")
    for parallelism in (1, 2, 3):
        outline = CheckpointVertex(1, "count", parallelism, MAX_PARALLELISM, [("count", "count")], False)
        given = assign(read_manifest(path), [outline], owns_files=False, allow_non_restored=True)
        found: dict[str, list[list[Any]]] = {"buffer": [], "offsets": [], "rules": []}
        for subtask in range(parallelism):
            lists = given[1, subtask]["count"].lists
            for name, of_subtasks in found.items():
                parts = [read_items(SavepointStorage(path), file, part) for file, part in lists if part.name == name]
                of_subtasks.append([item for part in parts for item in part])
        assert sorted(item for items in found["buffer"] for item in items) == ["x", "y", "z"]
        assert found["offsets"] == [[4, 5]] * parallelism
        assert found["rules"] == [[("a", 1)]] * parallelism


def test_a_column_that_is_found_not_to_be_of_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing values of several types would print errors about a closed file."""
    heard: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    entries = {1: 1, 2: 2**70}
    writer = SavepointWriter.new_savepoint().with_keyed_state("op", ValueStateDescriptor("mixed"), entries)
    path = writer.write(tmp_path / "sp")
    gc.collect()
    assert dict(SavepointReader.read(path).entries("op", "mixed")) == entries
    assert not heard


def test_changes_follow_one_another(snapshots: Snapshots, tmp_path: Path) -> None:
    """The second change of a script would undo the first."""
    doubled = ValueStateDescriptor("count", Types.STRING())
    writer = SavepointWriter.from_existing_savepoint(snapshots.savepoint)
    writer.transform("count", "count", lambda key, count: count * 2 if key < 3 else None)
    writer.transform("count", "count", lambda key, count: str(count), doubled)
    path = writer.write(tmp_path / "changed")
    assert restored(path, "count", doubled, range(100), 1) == {0: "0", 1: "2", 2: "8"}
    assert SavepointReader.read(path).operator("count").keyed_states[1].type == "value of String"


def test_a_savepoint_of_a_savepoint_stands_alone(snapshots: Snapshots, tmp_path: Path) -> None:
    """It would be lost when the job removes the checkpoint it was made from."""
    path = SavepointWriter.from_existing_savepoint(snapshots.checkpoint).write(tmp_path / "kept")
    snapshots.checkpoint.parent.rename(tmp_path / "gone")
    reader = SavepointReader.read(path)
    assert sorted(reader.entries("count", "count")) == [(n, n * n) for n in range(100)]
    assert reader.is_savepoint and reader.job_name == "counting"
    assert list(reader.items("numbers", "(source) splits")) == ["split at 7"]


def fails(writer: SavepointWriter, path: Path, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        writer.write(path)
    assert not path.exists(), "nothing is left behind"


def test_entries_that_are_none(tmp_path: Path) -> None:
    """A job would start from state that its functions can't read, and fail days later."""
    path, new = tmp_path / "sp", SavepointWriter.new_savepoint

    def keyed(state: StateDescriptor | str, entries: Any) -> SavepointWriter:
        return new().with_keyed_state("op", state, entries)

    wrong_entry = r"an entry of the state 'count' must be \(key, value\), got 'ab c'"
    fails(keyed(COUNT, ["ab c"]), path, ProgramError, wrong_entry)
    fails(keyed(COUNT, [(1, None)]), path, ProgramError, "no value for 1")
    fails(keyed(COUNT, [(1, 2), (1, 3)]), path, ProgramError, "two entries for 1")
    fails(keyed(NAMES, {1: "abc"}), path, ProgramError, "holds a list for each key, got 'abc'")
    fails(keyed(TOTALS, {1: [1]}), path, ProgramError, "holds a dict for each key")
    fails(keyed("(timers) event time", [(1, 2)]), path, ProgramError, r"\(key, timestamp, namespace\)")
    fails(keyed(COUNT, [({1}, 2)]), path, TypeError, "a set cannot be a key")
    timed = ValueStateDescriptor("timed", Types.LONG())
    timed.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    fails(keyed(timed, {1: 5}), path, ProgramError, "stores .time of the last use in ms, value., got 5")
    for state, entries in ((COUNT, 5), ("window/x", {1: 2})):
        with pytest.raises(TypeError):
            keyed(state, entries)
    with pytest.raises(TypeError, match="expected a state descriptor"):
        keyed(5, {})  # type: ignore[arg-type]


def test_what_can_not_be_done(snapshots: Snapshots, tmp_path: Path) -> None:
    """A typing error would write an unchanged savepoint, or overwrite another one."""

    def writer() -> SavepointWriter:
        return SavepointWriter.from_existing_savepoint(snapshots.savepoint)

    with pytest.raises(StateNotFoundError, match=r"no operator 'x'. There is 'numbers', 'count'"):
        writer().remove_operator("x")
    with pytest.raises(StateNotFoundError, match=r"has no state 'x'. It has .*'totals'"):
        writer().remove_state("count", "x")
    with pytest.raises(StateNotFoundError, match="has no state 'buffer'"):
        writer().transform("count", "buffer", lambda key, value: value)
    with pytest.raises(ProgramError, match="timers have no value"):
        writer().transform("count", "(timers) event time", lambda key, value: value)
    with pytest.raises(ProgramError, match="states can't be renamed"):
        writer().transform("count", "count", lambda key, value: value, NAMES)
    with pytest.raises(ValueError, match="maximum parallelism"):
        SavepointWriter.new_savepoint(0)
    with pytest.raises(CheckpointError, match="is not empty"):
        writer().write(snapshots.savepoint)
    with pytest.raises(CheckpointError, match="can't be written to"):
        writer().write(snapshots.savepoint / "_metadata")
    broken = writer().transform("count", "count", lambda key, value: 1 / (value - 49))
    fails(
        broken,
        tmp_path / "new",
        UserFunctionError,
        r"state 'count' of operator 'count'\n  entry \(7, 49\)\n(.|\n)*Zero",
    )
    with pytest.raises(ProgramError, match="is already written"):
        broken.write(tmp_path / "new")
    next(snapshots.savepoint.glob("*-1.parquet")).unlink()
    fails(writer(), tmp_path / "new", CheckpointError, "is missing")


def test_state_that_is_damaged_is_not_copied(snapshots: Snapshots, tmp_path: Path) -> None:
    """The new savepoint would be kept instead of the old one, and could not be restored."""
    for path in snapshots.savepoint.glob("*-1.parquet"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    writer = SavepointWriter.from_existing_savepoint(snapshots.savepoint)
    fails(writer, tmp_path / "new", DamagedCheckpointError, "is damaged: wrong checksum at bytes 0 to")
