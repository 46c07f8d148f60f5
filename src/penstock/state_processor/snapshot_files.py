"""The files of a snapshot that is only read, with whatever they are in: also those of a key-value store."""

from __future__ import annotations

import weakref
from importlib.util import find_spec
from typing import Any

from penstock.checkpoint.storage import SavepointStorage
from penstock.common.errors import CheckpointError
from penstock.common.options import ROCKSDB_CACHED_ENTRIES, ROCKSDB_MEMORY
from penstock.runtime.task.vertex import StoredState
from penstock.state.backends.rocksdb.store import Stores
from penstock.state.backends.rocksdb.store_files import StoreReader


class SnapshotFiles(SavepointStorage):
    """State files below a directory, and the databases among them. Can be sent to another process."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.store_reader = StoreReader(_stores)
        # What is opened lies on this machine's disk.
        weakref.finalize(self, self.store_reader.close)

    def __reduce__(self) -> tuple[Any, ...]:
        # What is open here is not open there.
        return SnapshotFiles, (self.directory,)


def _stores() -> Stores:
    if find_spec("rocksdict") is None:
        raise CheckpointError(
            "this checkpoint is in RocksDB's own files, and rocksdict, which reads them, is not installed here: "
            "pip install 'penstock[rocksdb]'. Or take a savepoint: it needs nothing to be read"
        )
    from penstock.spark.worker.rocksdb import rocksdb_stores

    return rocksdb_stores(StoredState(None, ROCKSDB_MEMORY.default, ROCKSDB_CACHED_ENTRIES.default))
