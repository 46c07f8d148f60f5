"""A job that starts from a checkpoint of another one by its path, and what `-s latest` finds then."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of
from tests.unit.service.client.test_claimed_jobs import settings
from tests.unit.service.client.test_slots_check import graph

from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.latest import latest_of
from penstock.service.client.start_point import RunIdentity, start_point, take_job

A, B = "a" * 32, "b" * 32


def begun(directory: Path, job_id: str, path: str = "", name: str = "numbers") -> RunIdentity:
    more = {"execution.state-recovery.path": path} if path else {}
    configuration = settings(directory, **more)
    start = start_point(graph(1), configuration)
    return take_job(start, job_id, name, configuration, True, lambda: None)


def killed(directory: Path, *checkpoints: int) -> Path:
    """A job that has taken these, and whose process is gone then. Returns the newest one."""
    run = begun(directory, A)
    for number in checkpoints:
        run.storage.publish(manifest_of(number, job_id=A, job_name="numbers"))
    run.release()
    return directory / A / f"chk-{checkpoints[-1]}"


def ended(run: RunIdentity) -> None:
    run.storage.record_end("FINISHED")
    run.storage.delete()
    run.release()


@pytest.mark.parametrize("as_it_is_named", ["{}", "{}/", "{}/_metadata", "file://{}"])
def test_a_checkpoint_from_which_an_ended_job_has_gone_on_is_not_the_latest(
    tmp_path: Path, as_it_is_named: str
) -> None:
    """A supervisor that always starts with -s latest would have all output behind it committed a second time."""
    path = killed(tmp_path, 2, 3)
    second = begun(tmp_path, B, as_it_is_named.format(path))
    assert latest_of(str(tmp_path), "numbers").path == str(path), "nothing is committed yet"
    second.storage.publish(manifest_of(4, job_id=B, job_name="numbers"))
    assert latest_of(str(tmp_path), "numbers").path == str(tmp_path / B / "chk-4")
    ended(second)
    assert not (tmp_path / B).exists()
    with pytest.raises(CheckpointError, match=rf"the job {B} was started from .*{path}, and has ended .*-s {path}$"):
        latest_of(str(tmp_path), "numbers")
    assert start_point(graph(1), settings(tmp_path, **{"execution.state-recovery.path": str(path)})).origin


def test_so_is_one_before_the_savepoint_from_which_the_ended_job_has_gone_on(tmp_path: Path) -> None:
    """The job was killed before its next checkpoint: what it was to do then was done by the one from the savepoint."""
    killed(tmp_path, 3)
    savepoint = tmp_path / "savepoints" / "one"
    run = begun(tmp_path, B)
    run.storage.savepoint(str(savepoint)).publish(manifest_of(4, job_id=A, job_name="numbers", savepoint=True))
    run.release()
    second = begun(tmp_path, B, str(savepoint))
    second.storage.publish(manifest_of(5, job_id=B, job_name="numbers"))
    ended(second)
    with pytest.raises(CheckpointError, match=f"the job {B} was started from"):
        latest_of(str(tmp_path), "numbers")


def test_so_is_one_behind_which_a_savepoint_was_taken_first(tmp_path: Path) -> None:
    """A third job starts from the savepoint, commits, and ends: the second one never had a checkpoint to be found."""
    path = killed(tmp_path, 3)
    second, savepoint = begun(tmp_path, B, str(path)), tmp_path / "savepoints" / "one"
    second.storage.savepoint(str(savepoint)).publish(manifest_of(4, job_id=B, job_name="numbers", savepoint=True))
    second.release()
    third = begun(tmp_path, "c" * 32, str(savepoint))
    third.storage.publish(manifest_of(5, job_id="c" * 32, job_name="numbers"))
    ended(third)
    with pytest.raises(CheckpointError, match=f"the job {B} was started from"):
        latest_of(str(tmp_path), "numbers")


def test_so_is_one_from_which_a_job_has_gone_on_whose_own_are_not_kept(tmp_path: Path) -> None:
    """It has no execution.checkpointing.dir, and its output is committed all the same."""
    path = killed(tmp_path, 3)
    more = {"execution.state-recovery.ignore-unclaimed-state": "true", "execution.checkpointing.interval": "1 h"}
    configuration = Configuration.from_dict({"execution.state-recovery.path": str(path), **more})
    second = take_job(start_point(graph(1), configuration), B, "numbers", configuration, True, lambda: None)
    second.storage.publish(manifest_of(4, job_id=B, job_name="numbers"))
    second.release()
    with pytest.raises(CheckpointError, match=f"the job {B} was started from"):
        latest_of(str(tmp_path), "numbers")


def test_a_job_that_goes_on_itself_is_not_held_up_by_a_fork(tmp_path: Path) -> None:
    """A fork tries the new program beside the job, which is killed a day later, and starts again with -s latest."""
    first = begun(tmp_path, A)
    first.storage.publish(manifest_of(3, job_id=A, job_name="numbers"))
    fork = begun(tmp_path, B, str(tmp_path / A / "chk-3"))
    fork.storage.publish(manifest_of(4, job_id=B, job_name="numbers"))
    ended(fork)
    first.storage.publish(manifest_of(4, job_id=A, job_name="numbers"))
    first.release()
    assert latest_of(str(tmp_path), "numbers").manifest.checkpoint_id == 4


def test_a_fork_of_another_name_is_a_job_beside_it(tmp_path: Path) -> None:
    """It writes elsewhere: the job that it was forked from goes on from where it was."""
    path = killed(tmp_path, 3)
    fork = begun(tmp_path, B, str(path), name="a try")
    fork.storage.publish(manifest_of(4, job_id=B, job_name="a try"))
    ended(fork)
    assert latest_of(str(tmp_path), "numbers").path == str(path)


def test_where_that_can_not_be_noted_the_job_starts_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Checkpoints of others may be where nothing can be written."""
    path = killed(tmp_path, 3)
    second = begun(tmp_path, B, str(path))
    record = tmp_path / A / "record"
    record.rename(tmp_path / "moved")
    record.write_text("")
    second.storage.publish(manifest_of(4, job_id=B, job_name="numbers"))
    assert "cannot note in" in caplog.text and "-s latest may start from that checkpoint" in caplog.text
    second.release()


def test_a_job_that_was_stopped_tells_where_its_savepoint_is_until_another_one_has_gone_on(tmp_path: Path) -> None:
    """Who lost what `penstock stop` has said would begin anew, and have all output a second time."""
    savepoint = tmp_path / "savepoints" / "one"
    run = begun(tmp_path, A)
    run.storage.savepoint(str(savepoint)).publish(manifest_of(4, job_id=A, job_name="numbers", savepoint=True))
    run.storage.record_end("FINISHED", str(savepoint))
    run.storage.delete()
    run.release()
    for _ in range(2):
        with pytest.raises(CheckpointError, match=f"The job in .*{savepoint}"):
            latest_of(str(tmp_path), "numbers")
        # It is lost before its first checkpoint.
        second = begun(tmp_path, B, str(savepoint))
        second.release()
    third = begun(tmp_path, "c" * 32, str(savepoint))
    third.storage.publish(manifest_of(5, job_id="c" * 32, job_name="numbers"))
    assert latest_of(str(tmp_path), "numbers").manifest.checkpoint_id == 5
    assert not (tmp_path / A).exists()
