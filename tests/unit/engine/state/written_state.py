"""State that tests freeze, write and read back: tables of both backends, and a subtask with the files of its state."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.backends.rocksdb.restored_files import restore_stores
from penstock.engine.state.backends.rocksdb.store_files import TableStore, write_store_files
from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.engine.state.handles import KeyedFile, store_files_of
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.snapshot.files import restore_keyed, write_columns, write_keyed
from penstock.engine.state.snapshot.moved_keys import MovedKeys
from penstock.engine.state.tables import PIECE_ENTRIES, FrozenTable
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.hosts.simulator.stores import MemoryStore
from penstock.state_processor.new_tables import finished

GROUPS = KeyGroups(8)
ALL_GROUPS = range(8)
BACKENDS = ["hashmap", "rocksdb"]


def table_of(kind: str, cached: int = 1) -> LayeredTable:
    """Return an empty table of this backend. `cached`: the most entries that a RocksDB table has in memory."""
    if kind == "hashmap":
        return LayeredTable()
    return RocksDBTable(TableStore(MemoryStore), "table", GROUPS, cached)


def backend_of(kind: str, now_ms: Callable[[], int] = lambda: 0, cached: int = 1) -> KeyedStateBackend:
    if kind == "hashmap":
        return HashMapKeyedStateBackend(now_ms)
    return RocksDBKeyedStateBackend(now_ms, Stores(MemoryStore, cached), GROUPS)


def files_in_memory() -> MemoryStorage:
    return MemoryStorage(Random(0), 0)


def entries(frozen: FrozenTable) -> dict[Any, Any]:
    """Return the content of a frozen table: a later entry replaces an earlier one, None removes it."""
    found: dict[Any, Any] = {}
    for entry_keys, values in frozen.pieces():
        assert len(entry_keys) == len(values) <= PIECE_ENTRIES
        found.update(zip(entry_keys, values, strict=True))
    return found


def present(found: dict[Any, Any]) -> dict[Any, Any]:
    return {entry_key: value for entry_key, value in found.items() if value is not None}


def by_group(frozen: FrozenTable) -> dict[Any, Any]:
    """Return the entries of a table that is read by key group."""
    assert frozen.of_group is not None
    for _ in frozen.prepare(GROUPS):
        pass
    found: dict[Any, Any] = {}
    for group in ALL_GROUPS:
        for entry_keys, values in frozen.of_group(group):
            for entry_key, value in zip(entry_keys, values, strict=True):
                assert entry_key not in found and GROUPS[entry_key] == group
                found[entry_key] = value
    return found


class Subtask:
    """A backend, and the chain of files of its last completed checkpoint. One snapshot may be pending."""

    def __init__(self, kind: str, storage: MemoryStorage, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.backend = backend_of(kind, now_ms)
        self.chain: list[KeyedFile] = []
        self._kind = kind
        self.storage = storage
        self._now_ms = now_ms

    def freeze(self, full: bool) -> Callable[[], None]:
        """Freeze now. The returned function writes the files, which become the last checkpoint."""
        backend, storage = self.backend, self.storage
        full = full or not self.chain
        store = backend.freeze_store() if full and isinstance(backend, RocksDBKeyedStateBackend) else None
        above = store.above if store is not None else {}
        tables = {name: above.get(name) or table.freeze(full) for name, table in backend.tables.items()}
        schemas = {name: str(schema) for name, schema in backend.schemas_in_snapshot().items()}

        def write() -> None:
            name = f"{len(storage.files)}"
            files = finished(write_store_files(storage, name, store, {})) if store is not None else []
            files.append(finished(write_keyed(storage, f"{name}-keyed", tables, GROUPS, schemas)))
            self.chain = files if full else [*self.chain, *files]
            for table in tables.values():
                table.release()
            if store is not None:
                store.release()

        return write

    def savepoint(self, name: str) -> list[KeyedFile]:
        """Write a savepoint: one file for each table with entries."""
        files = []
        for number, (table_name, table) in enumerate(self.backend.tables.items()):
            frozen = table.freeze(True)
            schema = self.backend.schemas_in_snapshot().get(table_name)
            of_table = (table_name, frozen)
            files.append(finished(write_columns(self.storage, f"{name}-{number}", of_table, GROUPS, schema)))
            frozen.release()
        return [file for file in files if file is not None]

    def restored(
        self,
        chains: list[list[KeyedFile]],
        kind: str = "",
        groups: range = ALL_GROUPS,
        before: Callable[[KeyedStateBackend], object] = lambda backend: None,
    ) -> Subtask:
        """Return a subtask that starts from these chains. `kind`: the kind of its backend, if it differs.

        `before` creates tables before state is restored.
        """
        other = Subtask(kind or self._kind, self.storage, self._now_ms)
        backend = other.backend
        before(backend)
        schemas = {table.name: table.schema for chain in chains for file in chain for table in file.tables}
        tables = {name: backend.restored_table(name, schema) for name, schema in schemas.items()}
        of_tables = chains
        if isinstance(backend, RocksDBKeyedStateBackend):
            stores = [files for chain in chains if (files := store_files_of(chain))]
            restore_stores(backend, self.storage, stores, groups)
            of_tables = [[file for file in chain if not file.store_file] for chain in chains]
        for chain in of_tables:
            moved_keys = MovedKeys(GROUPS.max_parallelism, tables)
            restore_keyed(self.storage, chain, groups, tables, moved_keys=moved_keys)
        other.chain = chains[0] if len(chains) == 1 else []
        return other
