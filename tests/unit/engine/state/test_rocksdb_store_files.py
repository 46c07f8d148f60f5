"""The files of a key-value store as the base of snapshots: copied once, consistent, and restored at any parallelism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.api.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from penstock.common.errors import CheckpointError
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.backends.rocksdb.store import EmbeddedStore
from penstock.engine.state.backends.rocksdb.store_files import StoreReader, contents_of, write_store_files
from penstock.engine.state.handles import KeyedFile, store_files_of
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.schema import schema_of
from penstock.engine.state.snapshot.files import read_keyed, restore_keyed, write_keyed
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.hosts.simulator.stores import MemoryFiles, MemoryStore
from penstock.state_processor.new_tables import finished

GROUPS = KeyGroups(8)
COUNT, LAST = ValueStateDescriptor("count"), ValueStateDescriptor("last")
VISITS = ListStateDescriptor("visits")


@pytest.fixture(params=["memory", "rocksdb"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    if request.param == "memory":
        return Stores(MemoryStore, 10)
    return rocksdb_stores(RocksDBSettings(str(tmp_path), 4 << 20, 10))


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(Random(1), 0)


class Keeper:
    """A subtask's backend, with its chain of files."""

    def __init__(self, stores: Stores, storage: MemoryStorage) -> None:
        self.backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
        self.count, self.last = self.backend.state(COUNT), self.backend.state(LAST)
        self.kept: dict[str, KeyedFile] = {}
        self._storage = storage
        self._snapshots = 0

    def store(self, key: int, count: int) -> None:
        self.backend.key = key
        self.count.update(count)
        self.last.update(f"{key}: {count}")

    def spill_all(self) -> None:
        while self.backend.maintenance_due_ms() == 0 and not self.backend.embedded.is_blocked:
            self.backend.maintain(100)

    def freeze(self) -> Callable[[], list[KeyedFile]]:
        """Freeze now. The returned function writes the snapshot."""
        frozen = self.backend.freeze_store()
        assert frozen is not None
        self._snapshots += 1
        name = f"{len(self._storage.files)}-{self._snapshots}"

        def write() -> list[KeyedFile]:
            files = finished(write_store_files(self._storage, name, frozen, self.kept))
            self.kept = {file.store_file: file for file in files}
            frozen.release()
            return [*files, finished(write_keyed(self._storage, f"{name}-keyed", frozen.above, GROUPS))]

        return write


def written(stores: Stores, storage: MemoryStorage, counts: dict[int, int]) -> list[KeyedFile]:
    """The chain of a subtask that held these counts, and is gone."""
    keeper = Keeper(stores, storage)
    for key, count in counts.items():
        keeper.store(key, count)
    keeper.spill_all()
    chain = keeper.freeze()()
    keeper.backend.close()
    return chain


def held(
    storage: MemoryStorage, chain: list[KeyedFile], stores: Stores, groups: range = range(8), table: str = "count"
) -> dict[int, Any]:
    databases = StoreReader(lambda: stores.open)
    found: dict[int, Any] = {}
    for _, entry_keys, values, _ in read_keyed(storage, chain, groups, {table}, databases):
        found.update(zip(entry_keys, values, strict=True))
    databases.close()
    return {entry_key: value for entry_key, value in found.items() if value is not None}


def test_it_holds_the_moment_of_the_freeze(stores: Stores, storage: MemoryStorage) -> None:
    """Records after the barrier would be counted twice, and entries outside of the store be lost."""
    keeper = Keeper(stores, storage)
    for key in range(40):
        keeper.store(key, 1)
    keeper.spill_all()
    for key in range(5):
        keeper.store(key, 2)
    write = keeper.freeze()
    for key in range(0, 60):
        keeper.store(key, 3)
        keeper.backend.maintain(100)
    chain = write()
    assert held(storage, chain, stores) == {key: 2 if key < 5 else 1 for key in range(40)}
    keeper.spill_all()
    assert held(storage, keeper.freeze()(), stores) == dict.fromkeys(range(60), 3)
    keeper.backend.close()


def test_changes_wait_in_memory_until_the_files_are_linked(stores: Stores, storage: MemoryStorage) -> None:
    """A file would hold entries from after the barrier; or entries would stay in memory once it is written."""
    keeper = Keeper(stores, storage)
    write = keeper.freeze()
    for key in range(100):
        keeper.store(key, 1)
        keeper.backend.maintain(1_000)
    assert keeper.backend.embedded.is_blocked
    assert not list(keeper.backend.embedded.store.view().items(b""))
    write()
    assert not keeper.backend.embedded.is_blocked
    keeper.spill_all()
    assert len(list(keeper.backend.embedded.store.view().items(b""))) > 180
    keeper.backend.close()


def test_a_snapshot_that_is_not_written_lets_go(stores: Stores, storage: MemoryStorage) -> None:
    """Memory would fill up after one checkpoint that could not be written."""
    keeper = Keeper(stores, storage)
    frozen = keeper.backend.freeze_store()
    assert frozen is not None
    frozen.release()
    assert not keeper.backend.embedded.is_blocked
    keeper.backend.close()


def test_files_are_copied_once(stores: Stores, storage: MemoryStorage) -> None:
    """Each full checkpoint would write a terabyte again of which nothing has changed."""
    keeper = Keeper(stores, storage)
    for key in range(2_000):
        keeper.store(key, 1)
    keeper.spill_all()
    first = keeper.freeze()()
    for key in range(20):
        keeper.store(key, 2)
    keeper.spill_all()
    second = keeper.freeze()()
    new = {file.path for file in second} - {file.path for file in first}
    assert sum(file.bytes for file in second if file.path in new and file.store_file) < 0.2 * sum(
        file.bytes for file in first
    )
    assert held(storage, second, stores, table="last")[3] == "3: 2"
    assert held(storage, second, stores, table="last")[30] == "30: 1"
    keeper.backend.close()


def test_another_begins_with_the_files(stores: Stores, storage: MemoryStorage) -> None:
    """After a failure each entry of a terabyte would have to be written again."""
    chain = written(stores, storage, {key: key for key in range(50)})
    other = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    database = store_files_of(chain)
    other.begin_with(database[0].tables, contents_of(storage, database))
    last, count = other.state(LAST), other.state(COUNT)
    for other.key in range(50):
        assert (last.value(), count.value()) == (f"{other.key}: {other.key}", other.key)
    other.key = 7
    count.update(-1)
    frozen = other.freeze_store()
    assert frozen is not None
    again = finished(write_store_files(storage, "again", frozen, {file.store_file: file for file in database}))
    copied = {file.path for file in again} - {file.path for file in database}
    assert not [path for path in copied if path.endswith(".sst")]
    other.close()


@pytest.mark.parametrize("spilled", [0, 1, 9, 10, 50, 1_000])
def test_lists_of_which_a_part_is_in_the_store(stores: Stores, storage: MemoryStorage, spilled: int) -> None:
    """Elements that were being spilled when a checkpoint began would be duplicated after a restart."""
    backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    kept, schema = backend.state(VISITS), str(schema_of(VISITS))
    for backend.key in range(6):
        kept.add("before")
        if backend.key == 5:
            kept.clear()
    while backend.maintenance_due_ms() == 0:
        backend.maintain(1_000)
    for element in "abc":
        for backend.key in range(6):
            # Several segments, of which the last one may be missing in the store.
            kept.add_all([element] * 300)
    backend.maintain(spilled)
    for backend.key in range(2):
        kept.add("since")
    frozen = backend.freeze_store()
    assert frozen is not None
    chain = finished(write_store_files(storage, "store", frozen, {}))
    chain.append(finished(write_keyed(storage, "keyed", frozen.above, GROUPS, {"visits": schema})))
    backend.close()

    expected = {
        key: [*["before"] * (key != 5), *(element for element in "abc" for _ in range(300)), *["since"] * (key < 2)]
        for key in range(6)
    }
    database = store_files_of(chain)
    for adopted in (True, False):
        other = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
        if adopted:
            other.begin_with(database[0].tables, contents_of(storage, database))
        tables = {"visits": other.restored_table("visits", schema)}
        reader = StoreReader(lambda: stores.open)
        restore_keyed(storage, chain[-1:] if adopted else chain, range(8), tables, reader)
        reader.close()
        found, again = {}, other.state(VISITS)
        for other.key in range(6):
            found[other.key] = list(again)
        assert found == expected
        other.close()


def test_tables_with_other_numbers(stores: Stores, storage: MemoryStorage) -> None:
    """A changed program would find the values of one state in another."""
    chain = written(stores, storage, {key: key for key in range(50)})
    database = store_files_of(chain)
    other = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    last, count = other.state(LAST), other.state(COUNT)
    other.begin_with(database[0].tables, contents_of(storage, database))
    for other.key in range(50):
        assert (last.value(), count.value()) == (f"{other.key}: {other.key}", other.key)
    other.close()


def test_some_key_groups(stores: Stores, storage: MemoryStorage) -> None:
    """With another parallelism a subtask would keep the keys of others."""
    chain = written(stores, storage, {key: key for key in range(100)})
    parts = [held(storage, chain, stores, groups) for groups in (range(3), range(3, 8))]
    assert all(GROUPS[key] < 3 for key in parts[0]) and all(GROUPS[key] >= 3 for key in parts[1])
    assert {**parts[0], **parts[1]} == {key: key for key in range(100)}


def test_a_damaged_file(stores: Stores, storage: MemoryStorage) -> None:
    """A wrong byte would become a wrong count, or a crash inside RocksDB."""
    chain = written(stores, storage, {key: key for key in range(100)})
    table = next(file for file in chain if file.store_file.endswith(".sst"))
    data = bytearray(storage.files[table.path])
    data[len(data) // 2] ^= 1
    storage.files[table.path] = bytes(data)
    with pytest.raises(CheckpointError, match=f"{table.path} is damaged"):
        held(storage, chain, stores)
    other = Keeper(stores, storage)
    database = store_files_of(chain)
    with pytest.raises(CheckpointError, match=f"{table.path} is damaged"):
        other.backend.begin_with(database[0].tables, contents_of(storage, database))
    other.store(1, 7)
    assert other.count.value() == 7, "the job falls back to the checkpoint before, with the existing store"
    other.backend.close()


def test_a_backend_that_cannot_read_it(storage: MemoryStorage) -> None:
    """A user who changes from RocksDB to the heap with a checkpoint must learn that this takes a savepoint."""
    stores = Stores(MemoryStore, 10)
    keeper = Keeper(stores, storage)
    keeper.store(1, 1)
    chain = keeper.freeze()()
    with pytest.raises(CheckpointError, match="Only a savepoint can be restored with another backend"):
        list(read_keyed(storage, chain, range(8), {"count"}))


def test_nothing_is_left_on_the_disk(tmp_path: Path, storage: MemoryStorage) -> None:
    """The worker's disk would fill up with links to old files."""
    keeper = Keeper(rocksdb_stores(RocksDBSettings(str(tmp_path), 4 << 20, 10)), storage)
    keeper.store(1, 1)
    keeper.spill_all()
    keeper.freeze()()
    keeper.freeze()()
    assert len(list(tmp_path.iterdir())) == 1
    keeper.backend.close()
    assert not list(tmp_path.iterdir())


def test_files_are_linked_once_and_opened_once(stores: Stores, storage: MemoryStorage) -> None:
    """A snapshot would hold two moments; a subtask would copy a terabyte for each state and key group that it reads."""
    keeper = Keeper(stores, storage)
    keeper.store(1, 1)
    keeper.spill_all()
    frozen = keeper.backend.freeze_store()
    assert frozen is not None
    linked = frozen.link()
    keeper.store(1, 2)
    keeper.spill_all()
    assert frozen.link() is linked
    frozen.release()
    opened = []

    def counted(files: Mapping[str, Iterable[bytes]]) -> EmbeddedStore:
        opened.append([*files])
        return stores.open(files)

    chain = store_files_of(keeper.freeze()())
    reader = StoreReader(lambda: counted)
    for group in range(8):
        for table in ("count", "last"):
            list(read_keyed(storage, chain, range(group, group + 1), {table}, reader))
    assert len(opened) == 1
    reader.close()
    list(read_keyed(storage, chain, range(8), {"count"}, reader))
    assert len(opened) == 2
    reader.close()
    keeper.backend.close()


def test_a_store_whose_files_can_not_be_linked() -> None:
    """A full disk would block the task permanently, instead of failing one checkpoint."""

    class Full(MemoryStore):
        def link(self) -> MemoryFiles:
            raise OSError("the disk is full")

    backend = RocksDBKeyedStateBackend(lambda: 0, Stores(Full, 0), GROUPS)
    count = backend.state(COUNT)
    backend.key = 1
    frozen = backend.freeze_store()
    assert frozen is not None and backend.embedded.is_blocked
    with pytest.raises(OSError, match="the disk is full"):
        frozen.link()
    assert not backend.embedded.is_blocked
    frozen.release()
    count.update(5)
    backend.maintain(10)
    assert not backend.layered("count").current and count.value() == 5


def test_a_whole_store_is_read_by_the_backend_that_wrote_it(stores: Stores, storage: MemoryStorage) -> None:
    """After a rescale a subtask could not read the RocksDB files of two others."""
    halves = [written(stores, storage, {key: key for key in range(first, 100, 2)}) for first in (0, 1)]
    backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    count, reader = backend.state(COUNT), backend.store_reader()
    for chain in halves:
        restore_keyed(storage, chain, range(8), {"count": backend.layered("count")}, reader)
    reader.close()
    for backend.key in range(100):
        assert count.value() == backend.key
    backend.close()
