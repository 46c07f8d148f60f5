"""The store of a job is away, like a share that is not mounted: files do not count as deleted or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.checkpoint.job_record import JobRecord, read_record
from penstock.engine.checkpoint.storage import DirectoryStorage, SavepointStorage, record_in
from penstock.engine.state.snapshot.storage import read_part


def test_a_store_that_is_away_is_no_damage(tmp_path: Path) -> None:
    """A job would fall back behind undamaged checkpoints, or end after three attempts, while a share is not mounted."""
    directory, savepoint = tmp_path / "jobs" / "job", tmp_path / "saved" / "savepoint"
    paths = []
    for storage in (DirectoryStorage(str(directory)), SavepointStorage(str(savepoint))):
        file = storage.create("1-x", shared=True)
        file.write(b"x")
        file.close()
        paths.append(file.path)
    worker = DirectoryStorage(str(directory))
    path, of_savepoint = paths[0], f"{savepoint}/{paths[1]}"
    for one in (path, of_savepoint):
        assert read_part(worker.read, one, 0, 1) == b"x"
    away = [folder.rename(folder.with_name(f"{folder.name}-away")) for folder in (directory.parent, savepoint.parent)]
    for reader in (worker, DirectoryStorage(str(directory))):
        for one, where in ((path, directory), (of_savepoint, savepoint)):
            with pytest.raises(CheckpointError, match=f"can't be read: its directory {where} is not there") as raised:
                read_part(reader.read, one, 0, 1)
            assert not isinstance(raised.value, DamagedCheckpointError)
    with pytest.raises(OSError, match="is its store mounted"):
        worker.create("2-x", shared=False)
    assert not directory.exists(), "it was made again, in the way of the store"
    for folder in away:
        folder.rename(folder.with_name(folder.name.removesuffix("-away")))
    (directory / path).unlink()
    with pytest.raises(DamagedCheckpointError, match="is missing"):
        read_part(worker.read, path, 0, 1)


@pytest.mark.parametrize("mount", [True, False], ids=["mount point", "nothing"])
def test_a_record_whose_store_is_away_is_not_deleted(tmp_path: Path, mount: bool) -> None:
    """A job would end with the message that its record was deleted, because a share is briefly not mounted."""
    jobs = tmp_path / "jobs"
    record = JobRecord(record_in(str(jobs / "job")), "a job", pause=lambda seconds: None)
    record.publish(manifest_of(1))
    away = jobs.rename(tmp_path / "away")
    if mount:
        jobs.mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match=r"/jobs/job/record is not there: is its store mounted"):
            record.publish(manifest_of(2))
    if mount:
        jobs.rmdir()
    away.rename(jobs)
    record.publish(manifest_of(2))
    seen = read_record(record_in(str(jobs / "job")))
    assert seen is not None and seen.checkpoint is not None and seen.checkpoint.checkpoint_id == 2
