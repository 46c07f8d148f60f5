"""Restores the state of an operator's subtask from the files of a checkpoint or savepoint.

The driver selects the files (engine/checkpoint/restore.py). Files of a key-value store come first, then the files of
the chain, oldest first, then operator state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.common.errors import CheckpointError
from penstock.engine.runtime.network.channel_log import LoggedBuffer
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.state.aggregates_schema import EvolvedTable
from penstock.engine.state.handles import KeyedFile, Redistribution, RestoredOperator, store_files_of
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import TableSchema, restored_schema
from penstock.engine.state.snapshot.files import read_items, restore_keyed
from penstock.engine.state.snapshot.moved_keys import MovedKeys
from penstock.engine.state.snapshot.storage import ColumnWriter, SnapshotStorage, StateWriter
from penstock.engine.state.tables import Entries, EntryKeys

_CHAIN_FILES_MAX = 40
"""A restore reads the whole chain, so its length bounds the time of a restore and the number of files."""


class KeyedChain:
    """The files of an operator's keyed state in one subtask: a full file, then increments, oldest first."""

    growth_max = 1.0
    """The next snapshot is full when the increments exceed this multiple of the full file's size."""

    def __init__(self) -> None:
        self.files: list[KeyedFile] = []
        self.store_files: dict[str, KeyedFile] = {}
        """The store's files in the last full snapshot. Files that the store still has are not copied again."""
        self.has_gap = False
        """Whether changes since the last file are missing: a savepoint has them, or writing them failed."""
        self.failures = 0
        """How many snapshots failed. An increment frozen before a failure builds on changes that no file has."""
        self.store_snapshots_under_way = 0
        """How many snapshots with files of the store are frozen and not yet written."""

    @property
    def next_is_full(self) -> bool:
        """Whether the next snapshot writes all state: the increments are as large as the full file, or too many."""
        chain_files = [file for file in self.files if not file.store_file]
        if self.has_gap or not chain_files or len(chain_files) >= _CHAIN_FILES_MAX:
            return True
        full = chain_files[0].bytes + sum(file.bytes for file in store_files_of(self.files))
        return sum(file.bytes for file in chain_files[1:]) > full * self.growth_max


def restore_operator(
    operator: Operator,
    restored: RestoredOperator,
    chain: KeyedChain,
    *,
    groups: range,
    max_parallelism: int,
    storage: SnapshotStorage,
    in_flight: list[LoggedBuffer],
) -> int:
    """Restore state, before the operator is opened. Returns the number of bytes read; raises CheckpointError.

    Appends the logged buffers of its task to `in_flight`.
    """
    read = 0
    # The last file's schema counts: files of a store do not say what kind of state they hold.
    schemas = {table.name: table.schema for files in restored.chains for file in files for table in file.tables}
    tables = {
        name: table for name, schema in schemas.items() if (table := operator.restored_table(name, schema)) is not None
    }
    # Only a chain restored by the job and subtask that wrote it can be extended by increments: after rescaling, a file
    # also holds key groups of other subtasks.
    extends = restored.extends_files and len(restored.chains) == 1
    chains = restored.chains
    if any(isinstance(table, EvolvedTable) for table in tables.values()):
        # A reader of the chain knows one schema for all of its files.
        extends = False
        if any(map(store_files_of, chains)):
            raise CheckpointError(
                f"operator '{operator.name}': the snapshot has other aggregates than the program, in files of its "
                "state backend, which are restored as they are. Start the former program, take a savepoint, and "
                "restore that"
            )
    backend = operator.keyed_backend()
    if backend is not None and backend.has_store:
        stores = [store_files for files in chains if (store_files := store_files_of(files))]
        reusable = backend.restore_store(storage, stores, groups)
        read += sum(file.bytes for files in stores for file in files)
        if extends:
            chain.store_files = {file.store_file: file for file in reusable}
        chains = [[file for file in files if not file.store_file] for files in chains]
    for number, files in enumerate(chains):
        owned = range(*restored.former_groups[number]) if restored.former_groups else None
        moved_keys = MovedKeys(max_parallelism, tables, owned)
        read += restore_keyed(storage, files, groups, tables, moved_keys=moved_keys)
    if extends:
        chain.files = restored.chains[0]
    lists: dict[str, NamedList] = {}
    for path, part in restored.lists:
        read += part.bytes
        if part.redistribution is Redistribution.IN_FLIGHT:
            in_flight += read_items(storage, path, part)
            continue
        new = NamedList(part.name, part.redistribution, [], restored_schema(part.schema))
        lists.setdefault(part.name, new).items.extend(read_items(storage, path, part))
    # Called also without lists: it tells the operator that it was restored.
    operator.restore_lists(list(lists.values()))
    return read


class RestoredStorage(SnapshotStorage):
    """A storage that counts the bytes that a task has restored, for reports of the progress.

    `operators`: the state that the task restores. A file that it reads in part counts with all its bytes.
    """

    def __init__(self, storage: SnapshotStorage, counters: TaskCounters, operators: Iterable[RestoredOperator]) -> None:
        self._storage = storage
        self._counters = counters
        self._read: set[str] = set()
        sizes: dict[str, int] = {}
        for operator in operators:
            sizes.update((file.path, file.bytes) for chain in operator.chains for file in chain)
            for path, part in operator.lists:
                if part.columns is not None:
                    sizes[part.columns.path] = part.columns.bytes
                elif part.items:
                    sizes[path] = sizes.get(path, 0) + part.bytes
        counters.files_to_restore = len(sizes)
        counters.bytes_to_restore = sum(sizes.values())

    def create(self, name: str, shared: bool) -> StateWriter:
        return self._storage.create(name, shared)

    def read(self, path: str, offset: int, length: int) -> bytes:
        data = self._storage.read(path, offset, length)
        self._count(path, len(data))
        return data

    def found_locally(self, file: KeyedFile) -> None:
        self._count(file.path, file.bytes)

    def create_columns(
        self, name: str, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> ColumnWriter:
        return self._storage.create_columns(name, table, schema, keyed_by_first=keyed_by_first, pickled=pickled)

    def read_columns(self, file: KeyedFile, groups: range) -> Iterator[tuple[EntryKeys, Entries, int]]:
        for entry_keys, values, size in self._storage.read_columns(file, groups):
            self._count(file.path, size)
            yield entry_keys, values, size

    def _count(self, path: str, size: int) -> None:
        self._read.add(path)
        self._counters.restored_files = len(self._read)
        self._counters.restored_bytes += size
