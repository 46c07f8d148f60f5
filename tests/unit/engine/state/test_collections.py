"""Maps and lists by entry: costs of changes, and large contents. Their semantics: test_states_are_dicts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.state.written_state import (
    ALL_GROUPS,
    BACKENDS,
    GROUPS,
    Subtask,
    backend_of,
    entries,
    files_in_memory,
)

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.common import Row
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.backends.rocksdb.collections import RocksDBListTable
from penstock.engine.state.backends.rocksdb.store_files import contents_of
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.collections import ListChanges, MapChanges, pieces_by_size
from penstock.engine.state.handles import store_files_of
from penstock.engine.state.snapshot.files import restore_keyed
from penstock.hosts.simulator.stores import MemoryStore

MAP = MapStateDescriptor("map")
LIST = ListStateDescriptor("list")
COUNT = 3_000
both = pytest.mark.parametrize("kind", BACKENDS)


def filled(kind: str) -> Subtask:
    """A key with a large map and a large list, in a checkpoint."""
    subtask = Subtask(kind, files_in_memory())
    backend = subtask.backend
    backend.key = "a"
    backend.state(MAP).put_all({number: number for number in range(COUNT)})
    backend.state(LIST).add_all(list(range(COUNT)))
    backend.maintain(10)
    subtask.freeze(True)()
    while backend.compact(100):
        pass
    return subtask


def read(subtask: Subtask) -> tuple[dict[Any, Any], list[Any]]:
    subtask.backend.key = "a"
    return dict(subtask.backend.state(MAP).items()), list(subtask.backend.state(LIST))


@both
def test_an_increment_holds_the_entries_that_have_changed(kind: str) -> None:
    """Each checkpoint would write a map of a million entries again for the one that was put."""
    subtask = filled(kind)
    full = sum(file.bytes for file in subtask.chain)
    names, elements = subtask.backend.state(MAP), subtask.backend.state(LIST)
    for turn in range(3):
        names.put(turn, -1)
        names.remove(turn + 10)
        elements.add(turn)
        subtask.backend.maintain(1)
        subtask.freeze(False)()
        assert subtask.chain[-1].bytes < full / 50
    expected = {number: -1 if number < 3 else number for number in range(COUNT) if number not in (10, 11, 12)}
    assert read(subtask) == (expected, [*range(COUNT), 0, 1, 2])
    assert read(subtask.restored([subtask.chain])) == read(subtask)


@both
def test_what_was_cleared_does_not_come_back(kind: str) -> None:
    """A session that begins again would have the entries of the last one."""
    subtask = filled(kind)
    names, elements = subtask.backend.state(MAP), subtask.backend.state(LIST)
    names.clear()
    elements.clear()
    assert (names.get(5), names.contains(5), names.is_empty(), list(elements)) == (None, False, True, [])
    names.put(7, 8)
    elements.add(9)
    subtask.backend.maintain(1)
    subtask.freeze(False)()
    names.put(8, 8)
    elements.add(10)
    subtask.freeze(False)()
    assert read(subtask) == ({7: 8, 8: 8}, [9, 10])
    assert read(subtask.restored([subtask.chain])) == read(subtask)
    names.clear()
    elements.update([])
    subtask.freeze(False)()
    assert not any(subtask.restored([subtask.chain]).backend.tables.values())


@both
@pytest.mark.parametrize("other", BACKENDS)
def test_a_savepoint_has_whole_contents(kind: str, other: str) -> None:
    """The columns of a savepoint would show changes in place of maps and lists."""
    subtask = filled(kind)
    names, elements = subtask.backend.state(MAP), subtask.backend.state(LIST)
    names.put("x", 1)
    names.remove(0)
    elements.add("x")
    subtask.freeze(False)()
    names.remove(1)
    elements.add_all(["y", "z"])
    chain = subtask.savepoint("savepoint")
    expected = {**{number: number for number in range(2, COUNT)}, "x": 1}, [*range(COUNT), "x", "y", "z"]
    assert read(subtask.restored([chain], other)) == expected


@both
def test_a_loop_may_change_what_it_goes_through(kind: str) -> None:
    """A clean-up that removes entries, or a function that adds to its list, would fail or never end."""
    subtask = filled(kind)
    names, elements = subtask.backend.state(MAP), subtask.backend.state(LIST)
    for key, value in names.items():
        names.put(("new", key), value)
        names.remove(key)
    assert {key for key, _ in names.items()} == {("new", key) for key in range(COUNT)}
    for element in elements.get():
        elements.add(element)
    assert list(elements) == [*range(COUNT)] * 2


def test_maps_in_rocksdb_are_read_in_the_order_of_their_keys() -> None:
    """A map by time could not be iterated from its beginning, as Flink's programs do."""
    backend = backend_of("rocksdb", cached=20)
    backend.key = "a"
    state = backend.state(MAP)
    keys = [number * 7_919 % 1_000 for number in range(1_000)]
    for number, key in enumerate(keys):
        state.put(key, number)
        backend.maintain(number % 3)
    assert list(state.keys()) == sorted(keys)
    for key in keys[::2]:
        state.remove(key)
    state.put(-5, 0)
    assert [key for key in state if key >= 0] == sorted(keys[1::2])


class Odd:
    """A value whose comparison has no truth value, like an array's."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


@both
def test_values_are_not_compared(kind: str) -> None:
    """A map of arrays would fail as soon as there is a checkpoint."""
    subtask = Subtask(kind, files_in_memory())
    subtask.backend.key = "a"
    state = subtask.backend.state(MAP)
    state.put_all({"x": Odd(), "y": Odd()})
    subtask.freeze(True)()
    state.put("z", Odd())
    state.remove("y")
    subtask.backend.maintain(10)
    subtask.freeze(False)()
    assert sorted(state.keys()) == ["x", "z"]
    again = subtask.restored([subtask.chain]).backend
    again.key = "a"
    assert sorted(again.state(MAP).keys()) == ["x", "z"]


@both
def test_a_key_of_a_stream_may_be_one_of_a_map(kind: str) -> None:
    """A map that works on the heap would fail in RocksDB."""
    subtask = Subtask(kind, files_in_memory())
    subtask.backend.key = "a"
    state = subtask.backend.state(MAP)
    keys = [None, 1, "1", (1, "1"), b"1", Row(1, ("1",)), 2.5, -1]
    for number, key in enumerate(keys):
        state.put(key, number)
        subtask.backend.maintain(1)
    state.put(1.0, "the same as 1")
    expected = {**{key: number for number, key in enumerate(keys)}, 1: "the same as 1"}
    assert dict(state.items()) == expected
    subtask.freeze(True)()
    again = subtask.restored([subtask.chain]).backend
    again.key = "a"
    assert {key: again.state(MAP).get(key) for key in keys} == expected


def test_large_contents_are_written_in_small_steps() -> None:
    """Pickling a million entries at once would stop the task for a second."""
    content, changes = {number: number for number in range(2_000)}, MapChanges({1: 1}, removed=[2])
    elements = list(range(1_500))
    pieces = list(pieces_by_size(["a", "b", "c", "d"], [content, None, elements, changes]))
    assert all(sum(len(part or ()) for part in parts) <= 1_024 for _, parts in pieces)
    table = MapTable()
    table.restore(["b"], [{1: 2}])
    lists = ListTable()
    for places, parts in pieces:
        for place, part in zip(places, parts, strict=True):
            (lists if place == "c" else table).restore([place], [part])
    assert dict(table.items()) == {"a": content, "d": {1: 1}}
    assert dict(lists.items()) == {"c": elements}


class Unmerged(MapTable):
    """A table whose maps cannot be read as a whole."""

    __slots__ = ()

    def get(self, entry_key: Any) -> Any:
        raise AssertionError("all entries are copied")


def test_a_map_is_looked_through_without_being_put_together() -> None:
    """Whether a map of a million entries is empty would take a second, after each checkpoint."""
    table = Unmerged()
    table.put_entries("a", {1: "one", 2: "two", 3: "three"})
    table.freeze(False)
    table.remove_entry("a", 1)
    table.put_entries("a", {2: "second"})
    table.freeze(False)
    table.put_entries("a", {4: "four"})
    assert dict(table.scan_entries("a")) == {2: "second", 3: "three", 4: "four"}
    assert next(table.scan_entries("a")) == (4, "four")
    for key in (2, 3, 4):
        assert not table.is_empty("a")
        table.remove_entry("a", key)
    assert table.is_empty("a") and table.is_empty("b")


def test_compaction_of_a_large_map_takes_no_more_than_it_is_allowed() -> None:
    """Compacting a million entries of one key in one step would block records for a second."""
    table = MapTable()
    table.part("a").update(dict.fromkeys(range(10), 0))
    table.freeze(False).release()
    table.compact(1)
    table.part("a").update(dict.fromkeys(range(5, 100), 1))
    table.remove_entry("a", 0)
    table.freeze(False).release()
    steps = 0
    while table.compact(10):
        steps += 1
        assert table.get("a") == {**dict.fromkeys(range(1, 5), 0), **dict.fromkeys(range(5, 100), 1)}
    assert steps == 10
    table.freeze(False).release()
    for number in range(1, 100):
        table.remove_entry("a", number)
    assert table.is_empty("a") and not table
    assert entries(table.freeze(False))["a"] is not None, "an increment says that they are gone"
    while table.compact(10):
        pass
    assert table.get("a") is None


@both
def test_a_savepoint_that_does_not_say_what_it_holds(kind: str) -> None:
    """State that was set by name alone in a savepoint would not be found as a map or a list."""
    backend = backend_of(kind, cached=1)
    for name, contents in (("map", [{1: 2}, {3: 4}]), ("list", [[1], [2, 3]])):
        backend.restored_table(name, "").restore(["a", "b"], contents)
    found = []
    for backend.key in "ab":
        found.append((dict(backend.state(MAP).items()), list(backend.state(LIST))))
    assert found == [({1: 2}, [1]), ({3: 4}, [2, 3])]


def test_a_list_goes_on_after_the_files_of_a_store_were_adopted() -> None:
    """Elements that are added after a failure would come before those of the checkpoint."""
    subtask = filled("rocksdb")
    backend = subtask.backend
    backend.state(LIST).add("before")
    subtask.freeze(False)()
    other = RocksDBKeyedStateBackend(lambda: 0, Stores(MemoryStore, 1), GROUPS)
    database = store_files_of(subtask.chain)
    tables = {table.name: other.restored_table(table.name, table.schema) for table in subtask.chain[-1].tables}
    other.begin_with(database[0].tables, contents_of(subtask.storage, database))
    restore_keyed(subtask.storage, subtask.chain[len(database) :], ALL_GROUPS, tables)
    other.key = "a"
    other.state(LIST).add("after")
    other.maintain(10)
    assert list(other.state(LIST)) == [*range(COUNT), "before", "after"]
    assert dict(other.state(MAP).items()) == {number: number for number in range(COUNT)}


@both
def test_an_added_element_does_not_read_the_list(kind: str) -> None:
    """Each element of a long list would cost more than the one before."""
    table = filled(kind).backend.tables["list"]
    assert isinstance(table, ListTable)
    table.part("a").append(1)
    assert len(table.current["a"]) == 1
    changed = entries(table.freeze(False))["a"]
    assert type(changed) is ListChanges and changed == [1]


def test_a_long_list_is_not_held_in_memory() -> None:
    """A key with ten million elements would need the memory that RocksDB is to save."""
    backend = backend_of("rocksdb", cached=2_000)
    backend.key = "a"
    state, table = backend.state(LIST), backend.tables["list"]
    assert isinstance(table, RocksDBListTable)
    for number in range(20_000):
        state.add(number)
        if number % 100 == 0:
            backend.maintain(1_000)
            assert sum(map(len, table.current.get("a", {}).values())) <= 2_100
    assert list(state) == list(range(20_000))


def test_many_entries_at_once_are_not_held_in_memory() -> None:
    """A map that is filled a thousand entries at a time would stay in memory, however large it grows."""
    backend = backend_of("rocksdb", cached=2_000)
    backend.key = "a"
    state, table = backend.state(MAP), backend.tables["map"]
    assert isinstance(table, MapTable)
    for start in range(0, 20_000, 1_000):
        state.put_all(dict.fromkeys(range(start, start + 1_000), 1))
        backend.maintain(1_000)
        assert len(table.current.get("a", ())) <= 2_000
    assert sum(state.values()) == 20_000
