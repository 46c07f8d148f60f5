"""Parquet files of savepoints: rows by key group, few reads, and damage is detected."""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.types import Row
from penstock.engine.checkpoint.column_types import TYPE_KEY, field_for, from_column, pickled_field, to_column, type_of
from penstock.engine.checkpoint.columns import ColumnFiles, read_columns, read_schema, read_tables
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.schema import TableSchema
from penstock.engine.state.snapshot.storage import NotTypedError
from penstock.hosts.simulator.storage import MemoryStorage

ROW_GROUP = 32_768
"""How many rows a row group has, at least."""


def storage() -> MemoryStorage:
    return MemoryStorage(Random(0), 0)


def written(
    files: ColumnFiles,
    rows: Sequence[tuple[int, Any, Any]],
    schema: TableSchema | None = None,
    keyed_by_first: bool = False,
    pickled: frozenset[str] = frozenset(),
    at_once: int = 1_000,
) -> KeyedFile:
    """Rows (key group, entry key, value) as a file."""
    writer = files.create_columns("1-file", "table", schema, keyed_by_first, set(pickled))
    for start in range(0, len(rows), at_once):
        groups, keys, values = (list(column) for column in zip(*rows[start : start + at_once], strict=True))
        writer.write(groups, keys, values)
    return writer.close()


def read(files: ColumnFiles, file: KeyedFile, groups: range) -> list[tuple[Any, Any]]:
    return [pair for keys, values, _ in files.read_columns(file, groups) for pair in zip(keys, values, strict=True)]


ROWS = st.lists(st.tuples(st.integers(0, 9), st.text(max_size=3), st.integers(-(2**40), 2**40)), min_size=1).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


@settings(max_examples=50)
@given(rows=ROWS, first=st.integers(0, 10), count=st.integers(0, 10), at_once=st.integers(1, 5))
def test_a_subtask_reads_the_rows_of_its_key_groups(
    rows: list[tuple[int, str, int]], first: int, count: int, at_once: int
) -> None:
    """After a job is rescaled some keys would be in two subtasks, or in none."""
    files = storage()
    file = written(files, rows, at_once=at_once)
    groups = range(first, first + count)
    assert read(files, file, groups) == [(key, value) for group, key, value in rows if group in groups]
    assert sum(section.length for section in file.sections) == len(rows)
    data = files.files[file.path]
    assert (file.bytes, file.crc) == (len(data), zlib.crc32(data))


def test_only_the_row_groups_that_are_needed_are_read() -> None:
    """Each subtask would read all of a large savepoint."""
    files = storage()
    rows = [(number // (ROW_GROUP // 2), number, number) for number in range(3 * ROW_GROUP)]
    file = written(files, rows, at_once=2_048)
    assert {section.offset for section in file.sections} == {0, 1, 2}
    tables = list(read_tables(files.read, file, range(2, 3)))
    ((table, size),) = tables
    assert table.num_rows == ROW_GROUP // 2 and 0 < size < file.bytes / 2
    every = list(read_columns(files.read, file, range(6)))
    assert [len(keys) for keys, _, _ in every] == [ROW_GROUP] * 3, "a row group at a time: not all in memory"
    assert list(read_tables(files.read, file, range(6, 9))) == [], "a file without rows of these groups is not opened"


@pytest.mark.parametrize(
    ("keyed_by_first", "key", "columns"),
    [
        (False, ("a", 1), ["key"]),
        (True, ("a", 5), ["key", "namespace"]),
        (True, ("a", 1_000, 5), ["key", "timestamp", "namespace"]),
    ],
)
def test_the_parts_of_an_entry_key_have_columns_of_their_own(
    keyed_by_first: bool, key: tuple[Any, ...], columns: list[str]
) -> None:
    """Another tool could not select the state of a key, or a tuple key would be split."""
    files = storage()
    file = written(files, [(0, key, 1.5)], keyed_by_first=keyed_by_first)
    assert read_schema(files.read, file).names == ["key_group", *columns, "value"]
    assert read(files, file, range(1)) == [(key, 1.5)]


def test_a_file_says_what_it_holds() -> None:
    """A file that is found alone could not be read by any tool."""
    files = storage()
    schema = TableSchema("value", Types.LONG())
    file = written(files, [(0, "a", 1)], schema)
    metadata = read_schema(files.read, file).metadata
    assert metadata[b"penstock.table"] == b"table" and metadata[b"penstock.schema"] == str(schema).encode()
    (table,) = file.tables
    assert (table.name, table.full, table.schema) == ("table", True, str(schema))
    assert pq.ParquetFile(pa.BufferReader(files.files[file.path])).read().to_pylist() == [
        {"key_group": 0, "key": "a", "value": 1}
    ]


@pytest.mark.parametrize(
    ("later", "column"),
    [(("b", "text"), "value"), ((2, 1), "key"), (("b", None), None), (("b", 2**40), None)],
)
def test_a_value_that_does_not_fit_names_its_column(later: tuple[Any, Any], column: str | None) -> None:
    """The savepoint would fail, or the value would be changed, because the first thousand values had another type."""
    files = storage()
    writer = files.create_columns("1-file", "table", None, False, set())
    writer.write([0], ["a"], [1])
    if column is None:
        writer.write([1], [later[0]], [later[1]])
        return
    with pytest.raises(NotTypedError) as raised:
        writer.write([1], [later[0]], [later[1]])
    assert raised.value.column == column
    writer.abort()
    assert files.files == {}, "it is written again, under the same name"
    file = written(files, [(0, "a", 1), (1, *later)], pickled=frozenset({column}))
    assert read(files, file, range(2)) == [("a", 1), later]


def test_a_file_that_was_given_up_can_be_given_up_before_its_first_row() -> None:
    """A savepoint that fails early would fail a second time, and hide the first error."""
    files = storage()
    files.create_columns("1-file", "table", None, False, set()).abort()
    assert files.files == {}


# Damage.


def test_a_file_that_is_missing_is_named() -> None:
    """A user would not know which file of a savepoint was lost in a copy."""
    files = storage()
    file = written(files, [(0, "a", 1)])
    del files.files[file.path]
    for call in (lambda: read(files, file, range(1)), lambda: read_schema(files.read, file)):
        with pytest.raises(CheckpointError, match="the savepoint file 1-file is missing"):
            call()


@pytest.mark.parametrize("part", ["page", "footer", "end"])
def test_a_file_that_is_damaged_is_refused(part: str) -> None:
    """A disk that flips a bit would change a user's state."""
    files = storage()
    file = written(files, [(0, f"key-{number}", number * 7_919) for number in range(500)])
    data = bytearray(files.files[file.path])
    if part == "end":
        del data[-20:]
    else:
        data[300 if part == "page" else -12] ^= 0x10
    files.files[file.path] = bytes(data)
    with pytest.raises(DamagedCheckpointError, match=r"the savepoint file 1-file is (damaged|truncated)"):
        read(files, file, range(1))


def test_every_byte_is_in_a_part_that_has_a_checksum() -> None:
    """A byte between two parts could change, or a subtask would read more than its row groups to check them."""
    files = storage()
    file = written(files, [(number % 3, number, number) for number in range(2 * ROW_GROUP + 5)], at_once=ROW_GROUP)
    data = files.files[file.path]
    assert [part.offset for part in file.parts[1:]] == [part.offset + part.length for part in file.parts[:-1]]
    assert file.parts[0].offset == 0 and sum(part.length for part in file.parts) == len(data)
    assert len(file.parts) == 3 + 1, "three row groups, and the footer"
    for part in file.parts:
        assert part.crc == zlib.crc32(data[part.offset : part.offset + part.length])


@settings(max_examples=60)
@given(data=st.data())
def test_the_footer_is_checked_by_what_reads_only_the_footer(data: st.DataObject) -> None:
    """A DataFrame would have columns of another type than the state."""
    files = storage()
    file = written(files, [(0, f"key-{number}", number * 7_919) for number in range(50)])
    content = bytearray(files.files[file.path])
    footer = file.parts[-1]
    content[data.draw(st.integers(footer.offset, file.bytes - 1))] ^= data.draw(st.integers(1, 255))
    files.files[file.path] = bytes(content)
    with pytest.raises(DamagedCheckpointError, match=f"1-file is damaged: wrong checksum at bytes {footer.offset} to"):
        read_schema(files.read, file)


@settings(max_examples=60)
@given(data=st.data())
def test_a_file_from_before_there_were_parts_is_checked_as_a_whole(data: st.DataObject) -> None:
    """A savepoint of an earlier penstock could not be read, or its damage would not be detected."""
    files = storage()
    rows = [(0, f"key-{number}", number * 7_919) for number in range(50)]
    file = msgspec.structs.replace(written(files, rows), parts=[])
    assert read(files, file, range(1)) == [row[1:] for row in rows]
    assert read_schema(files.read, file).names == ["key_group", "key", "value"]
    content = bytearray(files.files[file.path])
    content[data.draw(st.integers(0, file.bytes - 1))] ^= data.draw(st.integers(1, 255))
    files.files[file.path] = bytes(content)
    for call in (lambda: read(files, file, range(1)), lambda: read_schema(files.read, file)):
        with pytest.raises(
            DamagedCheckpointError, match=f"1-file is damaged: wrong checksum at bytes 0 to {file.bytes}"
        ):
            call()


def test_a_file_of_the_first_version_has_no_checksum() -> None:
    """Its savepoints could not be restored."""
    files = storage()
    file = msgspec.structs.replace(written(files, [(0, "a", 1)]), parts=[], crc=None)
    assert read(files, file, range(1)) == [("a", 1)]


# Columns of earlier and of other programs.


def test_pickled_types_of_the_first_version_are_read() -> None:
    """Typed columns in savepoints of the first penstock would be read as pickles."""
    type_ = RowTypeInfo([Types.LONG()], ["n"])
    text = base64.b64encode(pickle.dumps(type_))
    field = pa.field("value", type_.to_arrow(), metadata={TYPE_KEY: text})
    assert type_of(field) == type_
    assert from_column(field, pa.array([{"n": 5}], field.type)) == [Row(n=5)]


def test_a_class_that_is_gone_is_left_out_of_a_pickled_type() -> None:
    """A savepoint of the first penstock could be read only where the program that has written it is installed."""
    data = pickle.dumps(RowTypeInfo([Types.LONG()], ["numerator"], Gone), protocol=3)
    for missing in (b"no_such_module\nGone", b"fractions\nGone"):
        text = base64.b64encode(data.replace(f"{__name__}\nGone".encode(), missing))
        field = pa.field("value", pa.struct([("numerator", pa.int64())]), metadata={TYPE_KEY: text})
        assert from_column(field, pa.array([{"numerator": 5}], field.type)) == [Row(numerator=5)]


class Gone:
    """A user's class that will not be there when the savepoint is read."""


@pytest.mark.parametrize("values", [[], [None, None]])
def test_a_column_without_values_has_a_type(values: list[Any]) -> None:
    """A savepoint of an empty state would fail."""
    field = field_for("value", None, values)
    assert field.type == pa.string()
    column = to_column(field, values)
    assert column is not None and from_column(field, column) == values


def test_a_pickled_column_takes_everything() -> None:
    """State without a type could not be saved."""
    values = [1, "a", None, {1, 2}, [object]]
    column = to_column(pickled_field("value"), values)
    assert column is not None and from_column(pickled_field("value"), column) == values
