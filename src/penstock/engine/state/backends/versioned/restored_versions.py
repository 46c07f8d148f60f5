"""Restore a store from versions, without reading or copying them, whatever the former parallelism was.

The checkpoint of a subtask names the version of its key groups. After rescaling, a subtask owns groups of several
former subtasks: in each it uses entries up to the version there. Only the state of another job is copied, within the
store. A few entries are read to check that their classes have not changed.
"""

from __future__ import annotations

from typing import Protocol

from penstock.common.errors import CheckpointError
from penstock.common.values.decoding import from_json
from penstock.engine.state.backends.rocksdb.store_files import contents_of
from penstock.engine.state.backends.versioned.store import StoreVersion
from penstock.engine.state.handles import EXTERNAL_VERSION, KeyedFile, TableInFile
from penstock.engine.state.snapshot.storage import SnapshotStorage


class RestoredBackend(Protocol):
    """The part of a backend with an external store that restores it."""

    kind: str

    def can_begin_with(self, tables: list[TableInFile]) -> bool:
        """Whether this store has all these tables of a snapshot, with the same units of entries."""

    def begin_with_versions(self, versions: list[StoreVersion]) -> None:
        """Begin with the content of these versions in the subtask's key groups."""

    def check_keys(self, groups: range) -> None:
        """Raise CheckpointError if restored entries would not be found because the class of their keys changed."""


def restore_versions(
    backend: RestoredBackend, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range
) -> list[KeyedFile]:
    """Restore these stores, each given by its files, into the backend, whose tables must exist.

    Returns the files that the next snapshot may refer to, which is an empty list. Raises CheckpointError.
    """
    versions = []
    for files in stores:
        if any(file.store_file != EXTERNAL_VERSION for file in files):
            raise CheckpointError(
                f"the state in {files[0].path} is in RocksDB's own files. Only a savepoint can be restored with "
                "another backend; or set state.backend.type to rocksdb"
            )
        if not backend.can_begin_with(files[0].tables):
            raise CheckpointError(
                f"the state in {files[0].path} is in an external store, and kinds of states differ from those that the "
                "job has now. To change the kind of a state, stop with a savepoint and start from it"
            )
        (data,) = (b"".join(file.parts) for file in contents_of(storage, files).values())
        version = from_json(data, StoreVersion)
        if version.kind != backend.kind:
            raise CheckpointError(
                f"the state in {files[0].path} is in an external store: set state.backend.type to {version.kind}, with "
                "the same server. To change the backend, take a savepoint"
            )
        versions.append(version)
    if versions:
        backend.begin_with_versions(versions)
        backend.check_keys(groups)
    return []
