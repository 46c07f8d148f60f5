"""Snapshot files: each subtask restores its own state, and errors name damaged files."""

from __future__ import annotations

from random import Random

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import Types
from penstock.engine.state.handles import KeyedFile, Redistribution
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import schema_of
from penstock.engine.state.snapshot.files import read_items, read_keyed, restore_keyed, write_keyed, write_lists
from penstock.hosts.simulator.storage import MemoryStorage

GROUPS = KeyGroups(128)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE())


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(Random(0), 0)


def finish(writing):
    steps = 0
    try:
        while True:
            next(writing)
            steps += 1
    except StopIteration as end:
        return end.value, steps


def written(storage, name: str, full: bool = True, **tables: LayeredTable) -> KeyedFile:
    frozen = {name: table.freeze(full) for name, table in tables.items()}
    file, _ = finish(write_keyed(storage, name, frozen, GROUPS))
    return file


def counts(size: int) -> LayeredTable:
    table = LayeredTable()
    for n in range(size):
        table.put(n, n * n)
    return table


def test_it_is_written_in_small_steps(storage) -> None:
    """The slot would not get the interpreter back while a million keys are pickled."""
    _, steps = finish(write_keyed(storage, "f", {"t": counts(20_000).freeze(True)}, GROUPS))
    assert steps > 100


def content_bytes(file: KeyedFile) -> int:
    """Without the list of sections at its end."""
    assert file.footer is not None
    return file.footer.offset


@pytest.mark.parametrize("parallelism", [1, 2, 3, 128])
def test_subtasks_get_the_key_groups_they_own_and_read_no_more(storage, parallelism) -> None:
    """A key would have two owners or no owner, or each subtask would read all state of the job."""
    file = written(storage, "f", t=counts(5_000))
    seen: dict = {}
    read = 0
    for subtask in range(parallelism):
        groups = key_group_range(subtask, 128, parallelism)
        table = LayeredTable()
        read += restore_keyed(storage, [file], groups, {"t": table})
        for key, value in table.items():
            assert GROUPS[key] in groups
            assert key not in seen
            seen[key] = value
    assert seen == {n: n * n for n in range(5_000)}
    assert read == content_bytes(file)


def test_a_table_that_is_whole_in_a_later_file_is_not_added_to_an_earlier_one(storage) -> None:
    """Timers that had fired would fire again."""
    timers, state = LayeredTable(), counts(3)
    timers.put("old", True)
    first = written(storage, "1", timers=timers, state=state)
    timers.remove("old")
    timers.put("new", True)
    state.put(1, 100)
    tables = {"timers": timers.freeze(True), "state": state.freeze(False)}
    second, _ = finish(write_keyed(storage, "2", tables, GROUPS))
    restored = {"timers": LayeredTable(), "state": LayeredTable()}
    restore_keyed(storage, [first, second], range(128), restored)
    assert dict(restored["timers"].items()) == {"new": True}
    assert dict(restored["state"].items()) == {0: 0, 1: 100, 2: 4}


def test_lists_are_read_item_by_item(storage) -> None:
    """The splits of a source could not be redistributed when the job is rescaled."""
    lists = [NamedList("splits", Redistribution.SPLIT, ["a", {"b": 1}]), NamedList("empty", Redistribution.UNION, [])]
    file, _ = finish(write_lists(storage, "f", lists))
    assert [read_items(storage, file.path, part) for part in file.lists] == [["a", {"b": 1}], []]
    none, _ = finish(write_lists(storage, "g", [NamedList("empty", Redistribution.SPLIT, [])]))
    assert none.path == "" and "g" not in storage.files


def test_named_lists_of_a_savepoint_are_tables(storage) -> None:
    """No other tool could read the lists, and None in a list would be lost."""
    lists = [
        NamedList("splits", Redistribution.SPLIT, ["a"]),
        NamedList("numbers", Redistribution.SPLIT, [3, None, 5], schema_of(ListStateDescriptor("n", Types.LONG()))),
        NamedList("rules", Redistribution.BROADCAST, [("a", 1.5), ("b", None)], schema_of(RULES)),
        NamedList("mixed", Redistribution.UNION, [1, "x"], schema_of(ListStateDescriptor("m"))),
        NamedList("none", Redistribution.UNION, [], schema_of(ListStateDescriptor("m"))),
    ]
    file, _ = finish(write_lists(storage, "f", lists, columns=True))
    read = [read_items(storage, file.path, part) for part in file.lists]
    assert read == [one.items for one in lists]
    numbers = file.lists[1]
    assert numbers.schema == "list of ListTypeInfo<Long>"
    table = pq.read_table(pa.BufferReader(storage.files[numbers.columns.path]))
    assert table.column("value").to_pylist() == [3, None, 5]
    assert table.schema.field("value").type == pa.int64()
    rules = pq.read_table(pa.BufferReader(storage.files[file.lists[2].columns.path]))
    assert rules.column("key").to_pylist() == ["a", "b"]
    assert file.bytes == sum(map(len, storage.files.values()))
    some = msgspec.structs.replace(numbers, items=numbers.items[1:])
    assert read_items(storage, file.path, some) == [None, 5]


def test_files_without_a_table_that_is_wanted_are_not_read(storage) -> None:
    """A job that has dropped a large state, or reads one of many in a savepoint, would wait for all of it."""
    first = written(storage, "1", state=counts(100), other=counts(100))
    second = written(storage, "2", other=counts(200))
    table = LayeredTable()
    assert restore_keyed(storage, [second], range(128), {"state": table}) == 0
    assert 0 < restore_keyed(storage, [first, second], range(128), {"state": table}) < first.bytes
    assert dict(table.items()) == {n: n * n for n in range(100)}
    both = {"state": LayeredTable(), "other": LayeredTable()}
    assert restore_keyed(storage, [first, second], range(128), both) < first.bytes + second.bytes
    assert (len(both["state"].as_mapping()), len(both["other"].as_mapping())) == (100, 200)
    del storage.files["1"]
    assert restore_keyed(storage, [first, second], range(128), {"other": LayeredTable()}) == content_bytes(second)


def test_large_state_is_read_and_written_piece_by_piece(storage) -> None:
    """One key group with a million keys would be a pickle that has to fit into memory twice."""
    table = LayeredTable()
    same_group = [n for n in range(300_000) if GROUPS[n] == 5][:1_500]
    for n in same_group:
        table.put(n, n)
    file = written(storage, "f", t=table)
    assert [section.group for section in file.sections] == [5]
    pieces = [len(keys) for _, keys, _, _ in read_keyed(storage, [file], range(5, 6), {"t"})]
    assert sum(pieces) == len(same_group) == 1_500 and max(pieces) <= 512


def test_many_items_are_written_in_small_steps(storage) -> None:
    """A task would stand still while a source writes thousands of splits."""
    lists = [NamedList("splits", Redistribution.SPLIT, list(range(5_000)))]
    file, steps = finish(write_lists(storage, "f", lists))
    assert steps >= 5 and read_items(storage, file.path, file.lists[0]) == list(range(5_000))


def test_damage_is_told_by_name(storage) -> None:
    """A job would continue from half its state, unnoticed."""
    file = written(storage, "f", t=counts(100))
    data = storage.files["f"]
    storage.files["f"] = data[:200] + bytes([data[200] ^ 1]) + data[201:]
    with pytest.raises(CheckpointError, match="f is damaged: wrong checksum"):
        restore_keyed(storage, [file], range(128), {"t": LayeredTable()})
    storage.files["f"] = data[:-1]
    with pytest.raises(CheckpointError, match="f is truncated"):
        restore_keyed(storage, [file], range(128), {"t": LayeredTable()})
    del storage.files["f"]
    with pytest.raises(CheckpointError, match="f is missing"):
        restore_keyed(storage, [file], range(128), {"t": LayeredTable()})


def test_a_file_that_can_not_be_written_leaves_nothing_behind() -> None:
    """The storage would fill up with pieces that no manifest names."""
    storage = MemoryStorage(Random(0), 1)
    with pytest.raises(OSError, match="storage is unavailable"):
        finish(write_keyed(storage, "f", {"t": counts(10).freeze(True)}, GROUPS))
    assert not storage.files
