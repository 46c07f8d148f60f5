"""The start with `-s latest` if jobs of that name have ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.checkpoint.job_record import JobRecord, read_record
from penstock.engine.checkpoint.latest import latest_of
from penstock.engine.checkpoint.storage import METADATA, DirectoryStorage, record_in


def runs(base: Path, job: str, completed_ms: int, stopped_with: Path | None = None, finished: bool = False) -> str:
    """A job with one checkpoint whose driver was killed, perhaps directly after its end."""
    record = JobRecord(record_in(str(base / job)), "a job")
    record.publish(manifest_of(3, job_id=job, completed_ms=completed_ms))
    if stopped_with or finished:
        record.publish_end("FINISHED", str(stopped_with or ""))
    return str(base / job / "chk-3")


@pytest.mark.parametrize("stopped", ["aaaa", "zzzz"])
def test_a_newer_job_that_was_stopped_is_not_passed_over(tmp_path: Path, stopped: str) -> None:
    """Output that was committed with its savepoint would silently be committed a second time."""
    older = runs(tmp_path, "mmmm", 1_000)
    runs(tmp_path, stopped, 2_000, tmp_path / "savepoint")
    with pytest.raises(CheckpointError, match="start from it") as raised:
        latest_of(str(tmp_path), "a job")
    assert f"with the savepoint {tmp_path}/savepoint" in str(raised.value) and f"-s {older}" in str(raised.value)


def test_when_a_job_was_stopped_is_read_from_its_savepoint(tmp_path: Path) -> None:
    """Its checkpoints are deleted first."""
    runs(tmp_path / "jobs", "old", 1_500)
    for savepoint, completed_ms in (("before", 1_000), ("after", 2_000)):
        storage = DirectoryStorage(str(tmp_path / savepoint))
        storage.publish(manifest_of(3, completed_ms=completed_ms))
        path = tmp_path / savepoint / "chk-3"
        record = JobRecord(record_in(str(tmp_path / "jobs" / savepoint)), "a job")
        record.publish_end("FINISHED", str(path))
        if savepoint == "before":
            assert latest_of(str(tmp_path / "jobs"), "a job").path == str(tmp_path / "jobs" / "old" / "chk-3")
    with pytest.raises(CheckpointError, match="after/chk-3: start from it"):
        latest_of(str(tmp_path / "jobs"), "a job")


def test_older_ends_are_passed_over(tmp_path: Path) -> None:
    """A job could not be started again because one of its name was stopped last year."""
    runs(tmp_path, "aaaa", 1_000, tmp_path / "savepoint")
    runs(tmp_path, "bbbb", 3_000, finished=True)
    newest = runs(tmp_path, "mmmm", 2_000)
    assert latest_of(str(tmp_path), "a job").path == newest


def test_of_several_that_have_ended_the_newest_is_named(tmp_path: Path) -> None:
    """The user would start from last year's savepoint."""
    for job, completed_ms in (("aaaa", 2_000), ("zzzz", 1_000)):
        runs(tmp_path, job, completed_ms, tmp_path / f"savepoint-{job}")
    with pytest.raises(CheckpointError, match="savepoint-aaaa: start from it"):
        latest_of(str(tmp_path), "a job")


@pytest.mark.parametrize("lost", [2, 3])
@pytest.mark.parametrize("is_claimed", [False, True])
def test_an_entry_that_was_lost_is_told(
    tmp_path: Path, lost: int, is_claimed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The job would fall back to the checkpoint before, and repeat output that was committed with the lost one."""
    directory = str(tmp_path / "job")
    record = JobRecord(record_in(directory), "a job")
    storage = DirectoryStorage(directory, record)
    for number in (1, 2, 3):
        storage.publish(manifest_of(number, job_id="job"))
    if is_claimed:
        JobRecord.claim(record_in(directory), "a job", read_record(record_in(directory)))
    record_in(directory).remove(lost)
    if lost == 2:
        # Subsumed: it may be removed at any time.
        assert latest_of(str(tmp_path), "a job", ["sink"]).path.endswith("chk-3")
        return
    with pytest.raises(DamagedCheckpointError, match=r"entry 3 of the job's record is missing.*output of sink"):
        latest_of(str(tmp_path), "a job", ["sink"])
    assert latest_of(str(tmp_path), "a job").path.endswith("chk-2")
    assert "entry 3 of the job's record is missing" in caplog.text


@pytest.mark.parametrize("rest", [b"", b"damaged"])
def test_an_entry_that_was_lost_is_told_though_its_copy_is_damaged(tmp_path: Path, rest: bytes) -> None:
    """A disk that loses files may also have damaged others; a leftover copy of an earlier checkpoint is not damage."""
    directory = str(tmp_path / "job")
    storage = DirectoryStorage(directory, JobRecord(record_in(directory), "a job"))
    for number in (1, 2, 3):
        storage.publish(manifest_of(number, job_id="job"))
    (tmp_path / "job" / "chk-3" / METADATA).write_bytes(rest)
    assert latest_of(str(tmp_path), "a job", ["sink"]).path.endswith("chk-3"), "the record has it"
    record_in(directory).remove(3)
    with pytest.raises(DamagedCheckpointError, match=r"checkpoint 3 is no longer in the job's record.*output of s"):
        latest_of(str(tmp_path), "a job", ["sink"])
    (tmp_path / "job" / "chk-3" / METADATA).unlink()
    assert latest_of(str(tmp_path), "a job", ["sink"]).path.endswith("chk-2"), "as of one that was never complete"
