"""Jobs of a cluster: each process claims its job, so that none of a former leader goes on with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of
from tests.unit.service.client.test_slots_check import graph

from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError, FencedError
from penstock.engine.checkpoint.ended_jobs import remove_ended_job
from penstock.engine.checkpoint.job_record import JobRecord, read_record
from penstock.engine.checkpoint.latest import end_of_job
from penstock.engine.checkpoint.storage import record_in
from penstock.service.client.start_point import RunIdentity, StartPoint, start_point, take_job

ID = "a" * 32


def settings(directory: Path, **more: str) -> Configuration:
    every = {"execution.checkpointing.interval": "1 h", "execution.state-recovery.ignore-unclaimed-state": "true"}
    return Configuration.from_dict({"execution.checkpointing.dir": str(directory), **every, **more})


def begun(directory: Path, resumes: str = ID) -> tuple[StartPoint, RunIdentity]:
    """A process of a cluster begins the job."""
    configuration = settings(directory)
    start = start_point(graph(1), configuration, resumes, ID)
    return start, take_job(start, ID, "numbers", configuration, True, lambda: None)


def test_a_process_that_was_stopped_before_the_first_checkpoint_publishes_none(tmp_path: Path) -> None:
    """Both would commit what they have read from the beginning."""
    _, former = begun(tmp_path, resumes="")
    start, run = begun(tmp_path)
    assert start.latest is None
    with pytest.raises(FencedError):
        former.storage.publish(manifest_of(1, job_id=ID, job_name="numbers"))
    run.storage.publish(manifest_of(1, job_id=ID, job_name="numbers"))
    former.release()
    run.release()


def test_a_job_is_claimed_while_its_former_process_goes_on(tmp_path: Path) -> None:
    """It would be refused, or restored from a checkpoint behind which more was committed."""
    _, former = begun(tmp_path, resumes="")
    for number in (1, 2, 3):
        former.storage.publish(manifest_of(number, job_id=ID, job_name="numbers"))
    # Its lease is held, and renewed: nobody waits for it.
    assert former.lease is not None
    start = start_point(graph(1), settings(tmp_path), ID, ID)
    assert start.record is not None and start.latest is not None
    assert start.latest.manifest.checkpoint_id == 3
    with pytest.raises(FencedError):
        former.storage.publish(manifest_of(4, job_id=ID, job_name="numbers"))
    former.release()


def test_the_end_stays_until_the_dispatcher_knows(tmp_path: Path) -> None:
    """A dispatcher that is killed as a job ends would leave one to the next that is begun once more."""
    _, run = begun(tmp_path, resumes="")
    run.storage.publish(manifest_of(1, job_id=ID, job_name="numbers"))
    assert end_of_job(str(tmp_path), ID) is None
    run.storage.record_end("FINISHED")
    run.storage.delete()
    run.release()
    end = end_of_job(str(tmp_path), ID)
    assert end is not None and end.status == "FINISHED"
    with pytest.raises(CheckpointError, match="FINISHED and cannot be resumed"):
        start_point(graph(1), settings(tmp_path), ID, ID)
    remove_ended_job(str(tmp_path), ID)
    assert end_of_job(str(tmp_path), ID) is None
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_has_not_ended_is_not_removed(tmp_path: Path) -> None:
    """Its checkpoints would be gone."""
    _, run = begun(tmp_path, resumes="")
    run.storage.publish(manifest_of(1, job_id=ID, job_name="numbers"))
    remove_ended_job(str(tmp_path), ID)
    seen = read_record(record_in(f"{tmp_path}/{ID}"))
    assert seen is not None and seen.checkpoint is not None
    run.release()


def test_latest_takes_the_job_that_it_finds(tmp_path: Path) -> None:
    """A claim on a job that there is not would be left, or the one that is meant not be fenced off."""
    former = JobRecord(record_in(f"{tmp_path}/{'b' * 32}"), "numbers")
    former.publish(manifest_of(1, job_id="b" * 32, job_name="numbers"))
    configuration = settings(tmp_path, **{"execution.state-recovery.path": "latest"})
    start = start_point(graph(1), configuration, "", ID)
    assert start.latest is not None and start.latest.manifest.job_id == "b" * 32
    assert start.path == f"{tmp_path}/{'b' * 32}/chk-1"
    assert [path.name for path in tmp_path.iterdir()] == ["b" * 32]
    take_job(start, "b" * 32, "numbers", configuration, True, lambda: None).release()
    with pytest.raises(FencedError):
        former.publish(manifest_of(2, job_id="b" * 32, job_name="numbers"))
