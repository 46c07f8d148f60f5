"""Keyed state in an external store: `state.backend.type: postgres`, which knows its older versions, or `redis`.

Tables, their layers and the bytes of entries are the same as in the RocksDB backend: recent changes are in memory, and
larger numbers of them are written to the store in batches. Only snapshots differ. A snapshot seals the version of the
store, and the snapshot's thread writes the entries that are in memory at that moment with this version. The checkpoint
holds the number of the version, so every checkpoint is complete and its size does not depend on the state. A store
without versions is behind a log, which is in the checkpoint as well: logged.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.backends.rocksdb.store import LinkedFiles, OpenStore, StoredFile
from penstock.engine.state.backends.rocksdb.store_files import FrozenTableStore, TableStore
from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.engine.state.backends.versioned.restored_versions import restore_versions
from penstock.engine.state.backends.versioned.store import StoreOwner, StoreVersion, VersionedStore
from penstock.engine.state.handles import EXTERNAL_VERSION, KeyedFile, TableInFile
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.snapshot.storage import SnapshotStorage
from penstock.engine.state.tables import FrozenTable, Layer

T = TypeVar("T", bound=RocksDBTable)


class VersionedTableStore(TableStore):
    """The store of one operator's subtask. It knows tables by name, since each subtask has its own prefixes."""

    def __init__(self, open_store: OpenStore) -> None:
        super().__init__(open_store)
        opened: VersionedStore = self.store  # type: ignore[assignment]
        self.versions = opened

    def add_table(self, name: str, unit: str) -> bytes:
        prefix = super().add_table(name, unit)
        self.versions.name_table(prefix, name)
        return prefix

    def sample(self, prefix: bytes, groups: Iterable[int]) -> Iterator[tuple[bytes, bytes]]:
        """Return some entries of the table with this prefix, in one request instead of one per key group."""
        return self.versions.sample(prefix)


class VersionFile:
    """The single file of a store in a snapshot: its version."""

    def __init__(self, version: StoreVersion) -> None:
        self._data = msgspec.json.encode(version)
        self.sizes = {EXTERNAL_VERSION: len(self._data)}

    def is_lasting(self, name: str) -> bool:
        """Return False: each snapshot has another version."""
        return False

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a part of the file."""
        return self._data[offset : offset + length]

    def release(self) -> None:
        """Do nothing: there are no links."""


class FrozenVersion(FrozenTableStore):
    """A version of a store, and the layers that must be written to complete it."""

    def __init__(
        self, store: VersionedTableStore, above: dict[str, FrozenTable], layers: list[tuple[RocksDBTable, list[Layer]]]
    ) -> None:
        super().__init__(store, above)
        self.version = store.versions.seal()
        self._versions = store.versions
        self._layers = layers

    def link(self) -> LinkedFiles:
        """Write the entries that were in memory. Other writes to the store wait until `release`."""
        if self._linked is None:
            for table, layers in self._layers:
                for layer in layers:
                    self._versions.write_at(self.version, table.writes_of(layer))
            self._linked = VersionFile(self._versions.all_written(self.version))
        return self._linked

    def release(self) -> None:
        if self._linked is not None:
            for table, layers in self._layers:
                table.written(layers)
        super().release()


class VersionedKeyedStateBackend(RocksDBKeyedStateBackend):
    """A backend of one operator's subtask, whose host opens its store for `owner`."""

    __slots__ = ("_sealed", "kind")
    embedded: VersionedTableStore

    def __init__(
        self, now_ms: Callable[[], int], stores: VersionedStores, key_groups: KeyGroups, owner: StoreOwner
    ) -> None:
        opened = Stores(lambda files: stores.open(owner), stores.cached_entries, stores.holds_timers)
        super().__init__(now_ms, opened, key_groups, range(owner.first, owner.after))
        self.kind = stores.kind
        self._sealed: dict[int, int] = {}
        """Number of a pending checkpoint -> the version that it sealed."""

    def _table_store(self, open_store: OpenStore) -> TableStore:
        return VersionedTableStore(open_store)

    def _add(self, name: str, table: T) -> T:
        table.forget_changes()
        return super()._add(name, table)

    def needs_full_snapshot(self) -> bool:
        return True

    def freeze_store(self, checkpoint_id: int = 0) -> FrozenTableStore | None:
        """Seal the version of the store. Returns None if there is no table."""
        if not self._tables_of_store:
            return None
        frozen = {name: table.freeze_to_write() for name, table in self._tables_of_store.items()}
        above = {name: table for name, (table, _) in frozen.items()}
        layers = [(self._tables_of_store[name], of_table) for name, (_, of_table) in frozen.items()]
        version = self.embedded.block_writes(FrozenVersion(self.embedded, above, layers))
        self._sealed[checkpoint_id] = version.version.version
        return version

    def restore_store(self, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range) -> list[KeyedFile]:
        return restore_versions(self, storage, stores, groups)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        version = self._sealed.get(checkpoint_id)
        self._sealed = {number: sealed for number, sealed in self._sealed.items() if number > checkpoint_id}
        if version is not None:
            self.embedded.versions.completed(version)

    def begin_with_versions(self, versions: list[StoreVersion]) -> None:
        """Begin with the content of these versions in the subtask's key groups."""
        self.embedded.versions.begin_with(versions)

    def begin_with(self, tables: list[TableInFile], files: Mapping[str, StoredFile]) -> None:
        raise NotImplementedError("a store does not open with a version as a file: restored_versions.py")


class VersionedStores(msgspec.Struct, frozen=True):
    """The StateBackend with an external store, which the host opens for each subtask of an operator.

    `cached_entries`: the most changed entries of a state in memory.
    """

    open: Callable[[StoreOwner], VersionedStore]
    cached_entries: int
    kind: str = "postgres"
    """The value of `state.backend.type`."""

    @property
    def holds_timers(self) -> bool:
        """Return False: timers are not in the store, since the next timers of all key groups are needed permanently."""
        return False

    def keyed_backend(
        self, now_ms: Callable[[], int], key_groups: KeyGroups, owner: StoreOwner
    ) -> VersionedKeyedStateBackend:
        """Create the backend of a subtask."""
        return VersionedKeyedStateBackend(now_ms, self, key_groups, owner)
