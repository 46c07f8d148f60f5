"""Tables in the form of savepoints: one Parquet file each with the newest value of each entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import ALL_GROUPS, BACKENDS, GROUPS, files_in_memory, table_of

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import Types
from penstock.engine.state.handles import KeyedFile, Redistribution, TableInFile
from penstock.engine.state.key_groups import key_group_range
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import TableSchema, schema_of
from penstock.engine.state.sliced import SlicedTable
from penstock.engine.state.snapshot.files import read_items, restore_keyed, write_columns, write_lists
from penstock.engine.state.tables import FrozenTable, Table
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

LONG = schema_of(ValueStateDescriptor("n", Types.LONG()))


def written(storage: MemoryStorage, table: Table, schema: TableSchema | None = None, name: str = "f") -> KeyedFile:
    file = finished(write_columns(storage, name, ("table", table.freeze(True)), GROUPS, schema))
    assert file is not None
    return file


def rows(storage: MemoryStorage, file: KeyedFile) -> pa.Table:
    """Return the rows as another tool reads them."""
    return pq.read_table(pa.BufferReader(storage.files[file.path]))


def restored(storage: MemoryStorage, file: KeyedFile, groups: range = ALL_GROUPS) -> dict[Any, Any]:
    table = LayeredTable()
    restore_keyed(storage, [file], groups, {"table": table})
    return dict(table.items())


@pytest.mark.parametrize("kind", BACKENDS)
@settings(max_examples=40)
@given(
    layers=st.lists(st.dictionaries(st.integers(0, 9), st.none() | st.integers(0, 9)), min_size=1, max_size=4),
    spilled=st.integers(0, 3),
)
def test_it_has_the_newest_value_of_each_entry(kind: str, layers: list[dict[int, int | None]], spilled: int) -> None:
    """A row per version of a value would be read as several keys, and a deleted key would exist again."""
    table, model = table_of(kind), dict[int, int]()
    for layer in layers:
        for key, value in layer.items():
            if value is None:
                table.remove(key)
                model.pop(key, None)
            else:
                table.put(key, value)
                model[key] = value
        table.freeze(False).release()
        table.compact(spilled)
    storage = files_in_memory()
    file = finished(write_columns(storage, "f", ("table", table.freeze(True)), GROUPS, LONG))
    if file is None:
        assert not model and not storage.files, "no table, no file"
        return
    seen = rows(storage, file)
    assert dict(zip(seen.column("key").to_pylist(), seen.column("value").to_pylist(), strict=True)) == model
    assert seen.num_rows == len(model)
    groups = seen.column("key_group").to_pylist()
    assert groups == sorted(groups) == sorted(GROUPS[key] for key in model)
    assert restored(storage, file) == model


@pytest.mark.parametrize("kind", BACKENDS)
def test_many_rows_are_written_in_steps_and_read_in_parts(kind: str) -> None:
    """A task would stand still while millions of rows are written; or each subtask would take the rows of all."""
    table = table_of(kind, cached=100_000)
    for key in range(9_000):
        table.put(key, key % 10)
    storage = files_in_memory()
    assert sum(1 for _ in write_columns(storage, "f", ("table", table.freeze(True)), GROUPS, LONG)) > 15
    found: dict[Any, Any] = {}
    file = written(storage, table, LONG, "again")
    for subtask in range(3):
        groups = key_group_range(subtask, 8, 3)
        mine = restored(storage, file, groups)
        assert mine and all(GROUPS[key] in groups for key in mine)
        found.update(mine)
    assert found == {key: key % 10 for key in range(9_000)}


@pytest.mark.parametrize("schema", [None, LONG])
def test_values_of_several_types_come_back_as_they_were(schema: TableSchema | None) -> None:
    """A savepoint could not be taken since one value is not of the type that was declared."""
    table = LayeredTable()
    values = {1: 1, 2: "two", "three": 3.5, ("f", 4): [None]}
    for key, value in values.items():
        table.put(key, value)
    storage = files_in_memory()
    file = written(storage, table, schema)
    assert restored(storage, file) == values
    assert {key: type(value) for key, value in restored(storage, file).items()} == {
        key: type(value) for key, value in values.items()
    }


def test_a_value_of_another_type_behind_many_others() -> None:
    """The file would have to be written again, with its first part duplicated."""
    table = LayeredTable()
    odd = max(range(5_000), key=lambda key: GROUPS[key])
    for key in range(5_000):
        table.put(key, "odd" if key == odd else key)
    storage = files_in_memory()
    found = restored(storage, written(storage, table, LONG))
    assert found.pop(odd) == "odd" and found == {key: key for key in range(5_000) if key != odd}
    assert [*storage.files] == ["f"]


def test_slices_are_tables_by_key_and_time() -> None:
    """Windows that are open would be lost with a savepoint, or all be one."""
    table, again = SlicedTable(), SlicedTable()
    for start in (0, 10):
        for key in "abc":
            table.at(start).put(key, start)
    table.freeze(False).release()
    table.at(10).put("a", 99)
    table.drop(0)
    table.at(20).put("a", 1)
    storage = files_in_memory()
    file = written(storage, table)
    seen = rows(storage, file)
    assert seen.column_names == ["key_group", "key", "namespace", "value"] and seen.num_rows == 4
    restore_keyed(storage, [file], ALL_GROUPS, {"table": again})
    assert {start: dict(of_slice.items()) for start, of_slice in again.slices.items()} == {
        10: {"a": 99, "b": 10, "c": 10},
        20: {"a": 1},
    }


def test_what_could_not_be_written_leaves_nothing_behind() -> None:
    """A savepoint's directory would hold half a file, under the name of a whole one."""
    storage = files_in_memory()

    def pieces() -> Iterator[tuple[list[Any], list[Any]]]:
        yield list(range(5_000)), list(range(5_000))

    class Unwritable:
        def __reduce__(self) -> Any:
            raise RuntimeError("it has an open file")

    def with_one_more() -> Iterator[tuple[list[Any], list[Any]]]:
        yield from pieces()
        yield [5_000], [Unwritable()]

    finished(write_columns(storage, "good", ("table", FrozenTable(pieces, True, False)), GROUPS, LONG))
    with pytest.raises(RuntimeError, match="open file"):
        finished(write_columns(storage, "bad", ("table", FrozenTable(with_one_more, True, False)), GROUPS, LONG))
    assert [*storage.files] == ["good"]


def test_other_tables_than_those_that_are_asked_for_are_skipped() -> None:
    """A program that has dropped a state could not be restored, or would read it into another."""
    storage = files_in_memory()
    table = LayeredTable()
    table.put("a", 1)
    file = written(storage, table, LONG)
    other = LayeredTable()
    assert restore_keyed(storage, [file], ALL_GROUPS, {"other": other}) == 0
    assert not other


def test_a_unit_of_a_newer_penstock_is_refused() -> None:
    """Parts of a value would be read as the whole."""
    file = KeyedFile("f", 0, [TableInFile("names", True, unit="byte")], [])
    with pytest.raises(CheckpointError, match=r"f holds the state 'names' by byte.* written by a newer one"):
        restore_keyed(files_in_memory(), [file], ALL_GROUPS, {})


@pytest.mark.parametrize("columns", [False, True])
@given(
    split=st.lists(st.none() | st.integers() | st.text(max_size=2), max_size=5),
    pairs=st.dictionaries(st.text(max_size=2), st.none() | st.floats(allow_nan=False), max_size=4),
    part=st.sets(st.integers(0, 4)),
)
@settings(max_examples=40)
def test_items_of_operator_state_come_back_one_by_one(
    columns: bool, split: list[Any], pairs: dict[str, Any], part: set[int]
) -> None:
    """After a rescale a source's splits would be read twice or not at all, and rules be half of what they were."""
    lists = [
        NamedList("split", Redistribution.SPLIT, split, TableSchema("list", Types.LIST(Types.PICKLED_BYTE_ARRAY()))),
        NamedList("mine", Redistribution.UNION, split),
        NamedList("rules", Redistribution.BROADCAST, [*pairs.items()], TableSchema("map", Types.PICKLED_BYTE_ARRAY())),
    ]
    storage = files_in_memory()
    file = finished(write_lists(storage, "f", lists, columns))
    assert [read_items(storage, file.path, one) for one in file.lists] == [split, split, [*pairs.items()]]
    assert file.bytes == sum(map(len, storage.files.values())) == sum(one.bytes for one in file.lists)
    of_split = file.lists[0]
    some = [one for number, one in enumerate(of_split.items) if number in part]
    mine = read_items(storage, file.path, msgspec.structs.replace(of_split, items=some))
    assert mine == [item for number, item in enumerate(split) if number in part]
