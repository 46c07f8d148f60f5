"""Leftovers of an ended job whose driver was killed before it had deleted everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.engine.checkpoint.ended_jobs import remove_ended
from penstock.engine.checkpoint.job_record import JobRecord
from penstock.engine.checkpoint.storage import DirectoryStorage, record_in


def job(base: Path, name: str, end: str | None, job_name: str = "a job", epoch: int = 1) -> Path:
    """A job with a checkpoint, the second job with that name. `end`: the savepoint with which it stopped, or None."""
    directory = base / name
    storage = DirectoryStorage(str(directory), JobRecord(record_in(str(directory)), job_name, epoch), epoch)
    for number in (1, 2):
        file = storage.create(f"{number}-state", shared=True)
        file.write(b"x")
        file.close()
        storage.publish(manifest_of(number, [file.path]))
    if end is not None:
        storage.record_end("FINISHED", end)
    return directory


@pytest.mark.parametrize("epoch", [1, 3])
def test_what_has_ended_is_removed_by_the_next_start(tmp_path: Path, epoch: int) -> None:
    """Each driver that dies while it deletes would leave a copy of the job's state forever."""
    ended = job(tmp_path, "ended", "", epoch=epoch)
    stopped = job(tmp_path, "stopped", "/savepoints/one", epoch=epoch)
    stays = [job(tmp_path, "runs", None), job(tmp_path, "other", "", job_name="another job"), tmp_path / "no job"]
    (tmp_path / "no job").mkdir()
    remove_ended(str(tmp_path), "a job")
    assert not ended.exists() and stopped.exists(), "its record tells where the savepoint is"
    remove_ended(str(tmp_path), "a job", "/savepoints/two")
    assert stopped.exists()
    remove_ended(str(tmp_path), "a job", "/savepoints/one")
    assert not stopped.exists() and all(path.exists() for path in stays)
    assert (tmp_path / "runs" / "chk-2" / "_metadata").exists()


def test_a_directory_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    """A job that starts from a savepoint on another machine would be refused."""
    remove_ended(str(tmp_path / "nothing"), "a job")
