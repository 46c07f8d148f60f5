"""Files of snapshots that have changed since they were written: errors name each, and damage is detected."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import Subtask, files_in_memory

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.common.typeinfo import Types
from penstock.engine.state.handles import ListsFile, Redistribution
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import schema_of
from penstock.engine.state.snapshot.files import read_items, write_lists
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

COUNT = ValueStateDescriptor("count", Types.LONG())
Contents = dict[Any, Any]


class Written:
    """Files with the same state in each form, and how they are read."""

    def __init__(self) -> None:
        self.storage = files_in_memory()
        heap, rocks = Subtask("hashmap", self.storage), Subtask("rocksdb", self.storage)
        for subtask in (heap, rocks):
            state = subtask.backend.state(COUNT)
            for subtask.backend.key in range(40):
                state.update(subtask.backend.key * 7)
            subtask.backend.maintain(1_000)
            subtask.freeze(True)()
            subtask.backend.key = 3
            state.update(-1)
            subtask.freeze(False)()
        savepoint = [heap.savepoint("savepoint")]
        items = [["a", 1], "b", *range(20)]
        lists: ListsFile = finished(
            write_lists(self.storage, "lists", [NamedList("items", Redistribution.SPLIT, items)])
        )

        self.read: dict[str, Callable[[], Any]] = {
            "heap": lambda: counts(heap.restored([heap.chain])),
            "rocksdb": lambda: counts(rocks.restored([rocks.chain])),
            "savepoint": lambda: counts(heap.restored(savepoint)),
            "lists": lambda: read_items(self.storage, lists.path, lists.lists[0]),
        }
        self.paths = {
            "heap": [file.path for file in heap.chain],
            "rocksdb": [file.path for file in rocks.chain if file.bytes],
            "savepoint": [file.path for file in savepoint[0]],
            "lists": [lists.path],
        }


def counts(subtask: Subtask) -> Contents:
    return dict(subtask.backend.layered("count").items())


@cache
def written() -> Written:
    return Written()


def read_damaged(form: str, path: str, data: bytes) -> Any:
    """Read the state with this content of the file."""
    storage = written().storage
    whole = storage.files[path]
    storage.files[path] = data
    try:
        return written().read[form]()
    finally:
        storage.files[path] = whole


@pytest.mark.parametrize("form", ["heap", "rocksdb", "lists"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_flipped_bit_in_a_checkpoint(form: str, data: st.DataObject) -> None:
    """A job would continue with a wrong count, or fail permanently instead of falling back to the checkpoint before."""
    path = data.draw(st.sampled_from(written().paths[form]))
    content = bytearray(written().storage.files[path])
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedCheckpointError, match=f"{re.escape(path)} is damaged: wrong checksum at bytes"):
        read_damaged(form, path, bytes(content))


@pytest.mark.parametrize("form", ["heap", "rocksdb", "lists"])
@settings(max_examples=30)
@given(data=st.data())
def test_a_checkpoint_that_ends_early(form: str, data: st.DataObject) -> None:
    """A full disk would silently lose keys."""
    path = data.draw(st.sampled_from(written().paths[form]))
    content = written().storage.files[path]
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(DamagedCheckpointError, match=f"{re.escape(path)} is truncated: it ends before byte"):
        read_damaged(form, path, content[:length])


@pytest.mark.parametrize("part", ["rows", "footer"])
@settings(max_examples=100)
@given(data=st.data())
def test_a_flipped_bit_in_a_savepoint(part: str, data: st.DataObject) -> None:
    """A job would start from wrong counts, or with values of another type, which the footer names."""
    (path,) = written().paths["savepoint"]
    content = bytearray(written().storage.files[path])
    footer = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    start, stop = (0, footer) if part == "rows" else (footer, len(content))
    bit = data.draw(st.integers(start * 8, stop * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    expected = f"the savepoint file {path} is damaged: wrong checksum at bytes {start} to {stop}"
    with pytest.raises(DamagedCheckpointError, match=re.escape(expected)):
        read_damaged("savepoint", path, bytes(content))


@settings(max_examples=30)
@given(data=st.data())
def test_a_savepoint_that_ends_early(data: st.DataObject) -> None:
    """An interrupted copy of a savepoint would be restored partially."""
    (path,) = written().paths["savepoint"]
    content = written().storage.files[path]
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(DamagedCheckpointError, match=f"the savepoint file {path} is truncated: it ends before byte"):
        read_damaged("savepoint", path, content[:length])


def test_a_savepoint_with_fewer_rows_than_were_written() -> None:
    """Keys would be lost silently by one wrong bit in the count of rows."""
    subtask = Subtask("hashmap", files_in_memory())
    state = subtask.backend.state(COUNT)
    for subtask.backend.key in range(39):
        state.update(1)
    (fewer,) = subtask.savepoint("fewer")
    subtask.backend.key = 39
    state.update(1)
    (file,) = subtask.savepoint("all")
    assert len(counts(subtask.restored([[file]]))) == 40
    changed = msgspec.structs.replace(file, path=fewer.path, bytes=fewer.bytes, crc=fewer.crc, parts=fewer.parts)
    with pytest.raises(DamagedCheckpointError, match=f"{fewer.path} is damaged: row group 0 should have 40 rows"):
        subtask.restored([[changed]])


@pytest.mark.parametrize("form", ["heap", "rocksdb", "savepoint", "lists"])
def test_a_file_that_is_gone(form: str) -> None:
    """A job would start without the state whose file was deleted by mistake."""
    storage = written().storage
    for path in written().paths[form]:
        whole = storage.files.pop(path)
        try:
            with pytest.raises(DamagedCheckpointError, match=f"{re.escape(path)} is missing"):
                written().read[form]()
        finally:
            storage.files[path] = whole


class Away(MemoryStorage):
    """A storage whose files cannot be read now."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        raise OSError("the network is down")


@pytest.mark.parametrize("columns", [False, True])
def test_a_storage_that_is_away_for_a_moment_is_no_damage(columns: bool) -> None:
    """A job would fall back to an older checkpoint, or fail, since a network was down for a second."""
    storage = Away(Random(0), 0)
    schema = schema_of(ListStateDescriptor("items", Types.LONG()))
    lists = finished(write_lists(storage, "f", [NamedList("items", Redistribution.UNION, [1], schema)], columns))
    with pytest.raises(CheckpointError, match=r"f.* can't be read: the network is down") as raised:
        read_items(storage, lists.path, lists.lists[0])
    assert not isinstance(raised.value, DamagedCheckpointError)


class FullAfter(MemoryStorage):
    """A disk with space for a number of pieces."""

    def __init__(self, pieces: int) -> None:
        super().__init__(Random(0), 0)
        self.pieces = pieces

    def maybe_fail(self) -> None:
        self.pieces -= 1
        if self.pieces < 0:
            raise OSError("the disk is full")


@pytest.mark.parametrize("columns", [False, True])
def test_a_disk_that_fills_up_at_any_moment(columns: bool) -> None:
    """A partially written file would be read as a list, or stay forever."""
    rules = schema_of(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
    lists = [
        NamedList("splits", Redistribution.SPLIT, [1, 2]),
        NamedList("rules", Redistribution.BROADCAST, [("a", 1)], rules),
        NamedList("names", Redistribution.UNION, ["x"], schema_of(ListStateDescriptor("names", Types.STRING()))),
    ]
    for pieces in range(1_000):
        storage = FullAfter(pieces)
        try:
            file = finished(write_lists(storage, "f", lists, columns))
        except OSError:
            assert "f" not in storage.files
        else:
            break
    assert pieces > 3
    assert [read_items(storage, file.path, part) for part in file.lists] == [one.items for one in lists]
