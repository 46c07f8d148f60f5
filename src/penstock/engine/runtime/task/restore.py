"""The state that an operator's subtask begins with, read from the files of a checkpoint or savepoint.

Which files they are has been decided on the driver (engine/checkpoint/restore.py). Keyed state is first what a store of
its own begins with, then the files of its chain, oldest first; then come the lists.
"""

from __future__ import annotations

from penstock.engine.runtime.network.channel_log import LoggedBuffer
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.keyed_chain import KeyedChain
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.restored_files import restore_stores
from penstock.engine.state.backends.versioned.backend import VersionedKeyedStateBackend
from penstock.engine.state.backends.versioned.restored_versions import restore_versions
from penstock.engine.state.handles import Redistribution, RestoredOperator, store_files_of
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import as_before
from penstock.engine.state.snapshot.files import read_items, restore_keyed
from penstock.engine.state.snapshot.moved_keys import MovedKeys
from penstock.engine.state.snapshot.storage import SnapshotStorage


def restore_operator(
    operator: Operator,
    restored: RestoredOperator,
    chain: KeyedChain,
    groups: range,
    max_parallelism: int,
    storage: SnapshotStorage,
    in_flight: list[LoggedBuffer],
) -> int:
    """Restore state, before the operator is opened. Returns how many bytes were read; raises CheckpointError.

    What was in flight to its task is appended to `in_flight`.
    """
    read = 0
    # The last one counts: the files of a store do not say what kind of state they hold.
    schemas = {table.name: table.schema for files in restored.chains for file in files for table in file.tables}
    tables = {
        name: table for name, schema in schemas.items() if (table := operator.restored_table(name, schema)) is not None
    }
    # Only a chain restored by the job and subtask that wrote it can be extended by increments: after rescaling, a file
    # holds key groups of other subtasks, too.
    extends = restored.goes_on and len(restored.chains) == 1
    chains = restored.chains
    backend = operator.keyed_backend()
    if isinstance(backend, RocksDBKeyedStateBackend):
        stores = [of_store for files in chains if (of_store := store_files_of(files))]
        if isinstance(backend, VersionedKeyedStateBackend):
            begun_with = restore_versions(backend, storage, stores, groups)
        else:
            begun_with = restore_stores(backend, storage, stores, groups)
        read += sum(file.bytes for files in stores for file in files)
        if extends:
            chain.store_files = {file.store_file: file for file in begun_with}
        chains = [[file for file in files if not file.store_file] for files in chains]
    for files in chains:
        read += restore_keyed(storage, files, groups, tables, moved_keys=MovedKeys(max_parallelism, tables))
    if extends:
        chain.files = restored.chains[0]
    lists: dict[str, NamedList] = {}
    for path, part in restored.lists:
        read += part.bytes
        if part.redistribution is Redistribution.IN_FLIGHT:
            in_flight += read_items(storage, path, part)
            continue
        new = NamedList(part.name, part.redistribution, [], as_before(part.schema))
        lists.setdefault(part.name, new).items.extend(read_items(storage, path, part))
    # Without any, too: the operator learns that it was restored.
    operator.restore_lists(list(lists.values()))
    return read
