"""Read access to the files of a snapshot, including those of a RocksDB database."""

from __future__ import annotations

import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock.common.configuration.options import ROCKSDB_CACHED_ENTRIES, ROCKSDB_MEMORY
from penstock.common.doors.extras import ROCKSDB
from penstock.common.errors import CheckpointError, StateNotFoundError
from penstock.engine.checkpoint.manifest import OperatorPart
from penstock.engine.checkpoint.storage import METADATA, SavepointStorage, absolute, files_directory, read_manifest
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.rocksdb.store import OpenStore
from penstock.engine.state.backends.rocksdb.store_files import StoreReader


class SnapshotFiles(SavepointStorage):
    """State files below a directory, including files of RocksDB databases. Picklable.

    `open_stores`: how many databases stay open, each with a copy on the local disk.
    """

    def __init__(self, directory: str, open_stores: int = 1) -> None:
        super().__init__(directory)
        self.store_reader = StoreReader(_open_store, open_stores)
        # Stores are opened from a copy on local disk.
        weakref.finalize(self, self.store_reader.close)

    def __reduce__(self) -> tuple[Any, ...]:
        # Open handles are not valid in another process.
        return SnapshotFiles, (self.directory,)


def _open_store() -> OpenStore:
    if find_spec("rocksdict") is None:
        raise CheckpointError(
            "this checkpoint consists of RocksDB files, and rocksdict, which reads them, is not installed: "
            f"pip install '{ROCKSDB}'. Alternatively take a savepoint, which needs no RocksDB"
        )
    from penstock.engine.stores.rocksdb import rocksdb_stores

    return rocksdb_stores(RocksDBSettings(None, ROCKSDB_MEMORY.default, ROCKSDB_CACHED_ENTRIES.default)).open


class SnapshotOnDisk:
    """A stored savepoint or checkpoint at `path`: its manifest, files and operators.

    `open_stores`: how many of its databases stay open. Raises CheckpointError if there is no snapshot at `path`.
    """

    def __init__(self, path: str | Path, open_stores: int = 1) -> None:
        self.path = absolute(path).removesuffix(f"/{METADATA}")
        self.manifest = read_manifest(self.path)
        self.root = files_directory(self.path, self.manifest)
        self.files = SnapshotFiles(self.root, open_stores)

    def __str__(self) -> str:
        kind = "savepoint" if self.manifest.savepoint else "checkpoint"
        return f"the {kind} {self.path}"

    def part(self, uid: str) -> OperatorPart:
        """Return the operator with this uid. Raises StateNotFoundError, which lists the existing ones."""
        part = self.manifest.operator(uid)
        if part is None:
            there = ", ".join(f"'{part.state_id}' ({part.name})" for part in self.manifest.operators)
            raise StateNotFoundError(f"{self} has no operator '{uid}'. It has {there or 'none'}")
        return part
