"""Checkpoints that consist of RocksDB files can be read, and converted to savepoints, like any other."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.state_processor.conftest import COUNT, GROUPS, MAX_PARALLELISM

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.snapshots import snapshot_files
from penstock.engine.snapshots.committed_state import CommittedState, StateName
from penstock.engine.snapshots.keyed_table import KeyedTable
from penstock.engine.snapshots.snapshot_files import SnapshotOnDisk
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.store_files import write_store_files
from penstock.engine.state.handles import OperatorState, store_files_of
from penstock.engine.state.key_groups import subtask_of
from penstock.engine.state.snapshot.files import write_keyed
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.state_processor import SavepointReader, SavepointWriter
from penstock.state_processor.new_tables import finished

COUNTS = {key: key * key for key in range(300)}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    """A checkpoint with most entries in RocksDB and the rest in memory."""
    stores = rocksdb_stores(RocksDBSettings(str(tmp_path / "rocks"), 4 << 20, 10))
    storage = DirectoryStorage(str(tmp_path / "job"))
    subtasks = []
    for subtask in range(2):
        backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
        count = backend.state(COUNT)
        for backend.key in COUNTS:
            if subtask_of(GROUPS[backend.key], MAX_PARALLELISM, 2) == subtask:
                count.update(COUNTS[backend.key])
                backend.maintain(20)
        frozen = backend.freeze_store()
        assert frozen is not None
        files = finished(write_store_files(storage, f"1-0-{subtask}-0", frozen, {}))
        schemas = {name: str(schema) for name, schema in backend.schemas.items()}
        files.append(finished(write_keyed(storage, f"1-0-{subtask}-0-keyed", frozen.above, GROUPS, schemas)))
        subtasks.append(SubtaskPart(subtask, OperatorState(files)))
        frozen.release()
        backend.close()
    operators = [OperatorPart("count", "Count", 2, MAX_PARALLELISM, subtasks)]
    yield Path(storage.publish(Manifest("0123", "counting", 1, 0, 0, 1, operators, [])))


def test_it_is_read(checkpoint: Path) -> None:
    """The state of a large job could be inspected only by taking a savepoint."""
    reader = SavepointReader.read(checkpoint)
    assert dict(reader.entries("count", "count")) == COUNTS
    assert dict(reader.entries("count", "count", key=17)) == {17: 289}
    (operator,) = reader.operators()
    (state,) = operator.keyed_states
    assert (state.name, state.type, state.entries) == ("count", "value of Long", 300)


def test_its_files_are_opened_once(checkpoint: Path, tmp_path: Path) -> None:
    """A terabyte would be copied for each part that is read."""
    snapshot = SnapshotOnDisk(checkpoint)
    table = KeyedTable(snapshot.files, snapshot.part("count"), "count")
    ((chain, groups), _) = table.chains()
    opened = [snapshot.files.store_reader.view(snapshot.files, store_files_of(chain))]
    first = list(snapshot.files.store_reader._opened)
    assert len(list(table.rows_of_chain(chain, groups))) == sum(
        subtask_of(GROUPS[key], MAX_PARALLELISM, 2) == 0 for key in COUNTS
    )
    assert opened and snapshot.files.store_reader._opened == first
    snapshot.files.store_reader.close()


def test_keys_of_any_subtask_are_asked_for_without_opening_its_files_again(checkpoint: Path) -> None:
    """Each question about a key of another subtask than the last one's would copy the state of that subtask."""
    files = SnapshotOnDisk(checkpoint, open_stores=2).files
    part = SnapshotOnDisk(checkpoint).part("count")
    table = KeyedTable(files, part, "count")
    stores = [files.store_reader.store(files, store_files_of(chain)) for chain, _ in table.chains()]
    assert len(set(map(id, stores))) == 2
    assert [files.store_reader.store(files, store_files_of(chain)) for chain, _ in table.chains()] == stores
    state = CommittedState(str(checkpoint))
    assert {key: row[1] for key in COUNTS for row in state.of_key(StateName("count", "count"), key)} == COUNTS
    files.store_reader.close()


def test_it_is_sent_to_other_processes(checkpoint: Path) -> None:
    """Spark's executors could not read their parts of a DataFrame."""
    snapshot = SnapshotOnDisk(checkpoint)
    table = KeyedTable(snapshot.files, snapshot.part("count"), "count")
    assert len(list(table.rows())) == 300
    again = pickle.loads(pickle.dumps(table))
    assert dict(again.rows()) == COUNTS


def test_it_is_made_into_a_savepoint(checkpoint: Path, tmp_path: Path) -> None:
    """The state of a job that no longer starts could not be moved to another backend."""
    path = SavepointWriter.from_existing_savepoint(checkpoint).write(tmp_path / "savepoint")
    assert dict(SavepointReader.read(path).entries("count", "count")) == COUNTS


def test_whoever_has_no_rocksdict_is_told_what_to_install(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error would suggest a setting of the job instead of installing rocksdict."""
    monkeypatch.setattr(snapshot_files, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match=re.escape("pip install 'penstock-streams[rocksdb]'")):
        dict(SavepointReader.read(checkpoint).entries("count", "count"))
