"""How it is with jobs, where leaders are elected: what a former leader writes does not count."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.common.job_status import JobStatus
from penstock.service.cluster.high_availability.lease_register import LeaseRegister
from penstock.service.cluster.high_availability.pointers import NotLeadingError
from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.job_states import FencedStates
from penstock.service.dispatcher.job_store import JobStore

LEASE_MS = 300


def led(folder: Path, pointers: Path | None = None) -> JobStore:
    """A store of a process that leads from now on, when the leader before has been silent."""
    register = LeaseRegister(pointers or folder, LEASE_MS)
    while (term := register.look()) is None:
        time.sleep(0.05)
    assert register.claim(term)
    return JobStore(folder, FencedStates(folder, term, register.pointers()))


def test_jobs_are_there_for_the_next_leader(tmp_path: Path) -> None:
    """Jobs would be gone with a machine."""
    first = led(tmp_path)
    job = DispatchedJob("a", "job", 1, 1)
    first.add(job, b"packed")
    job.phase = Phase.RUNNING
    first.record(job)
    first.add(DispatchedJob("b", "dropped", 1, 2), b"packed")
    first.drop("b")
    second = led(tmp_path)
    assert second.jobs() == [job]
    assert (second.folder("a") / "job").read_bytes() == b"packed"
    assert not second.folder("b").exists()
    assert second.token() == first.token()


def test_a_former_leader_takes_nothing_and_removes_nothing(tmp_path: Path) -> None:
    """A client would be told that its job is taken, and nobody runs it; or the job of the new leader be gone."""
    former = led(tmp_path)
    job = DispatchedJob("a", "job", 1, 1)
    former.add(job, b"packed")
    leader = led(tmp_path)
    # Its client has not had the answer, and has sent it to both.
    other = DispatchedJob("b", "other", 1, 2)
    leader.add(other, b"packed")
    for attempt in (
        lambda: former.add(other, b"packed"),
        lambda: former.add(DispatchedJob("c", "third", 1, 3), b"packed"),
        lambda: former.record(DispatchedJob("a", "job", 1, 1, Phase.ENDED)),
        lambda: former.drop("a"),
    ):
        with pytest.raises(NotLeadingError):
            attempt()
    assert leader.jobs() == [job, other]
    assert led(tmp_path).jobs() == [job, other]
    assert (leader.folder("b") / "job").exists()


def test_one_file_of_each_job_stays(tmp_path: Path) -> None:
    """The folder would grow with each change of a job."""
    store = led(tmp_path)
    job = DispatchedJob("a", "job", 1, 1)
    store.add(job, b"packed")
    for _ in range(5):
        store.record(job)
    store = led(tmp_path)
    store.record(job)
    assert [path.name for path in store.folder("a").glob("state*")] == ["state-2-1"]


def test_what_no_pointer_leads_to_is_removed_later(tmp_path: Path) -> None:
    """Programs that came as a leader was lost would stay for ever; or one go that is just being sent once more."""
    store = led(tmp_path)
    for name in ("old", "new"):
        store.folder(name).mkdir()
    os.utime(store.folder("old"), (1, 1))
    store = led(tmp_path)
    assert [path.name for path in store.folder("").iterdir()] == ["new"]


def begun(store: JobStore) -> None:
    """Two jobs: one runs, and nothing was renamed in its folder for hours; the other one waits."""
    for id in "ab":
        store.add(DispatchedJob(id, "job", 1, 1), b"packed")
    (store.folder("a") / "output").write_text("printed")
    for id in "ab":
        os.utime(store.folder(id), (1, 1))


@pytest.mark.parametrize("before", ["one register", "another register", "a lock"])
def test_jobs_stay_where_their_leader_keeps_its_pointers_elsewhere(
    tmp_path: Path, before: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One wrong setting, or a ZooKeeper that was emptied, erased the code and the history of all jobs of a cluster."""
    first = JobStore(tmp_path) if before == "a lock" else led(tmp_path, tmp_path / "first")
    begun(first)
    first.close()
    again = JobStore(tmp_path) if before == "another register" else led(tmp_path, tmp_path / "second")
    assert again.jobs() == []
    assert sorted(path.name for path in again.folder("").iterdir()) == ["a", "b"]
    assert "2 jobs are left out" in caplog.text and "They are kept: a, b" in caplog.text
    again.close()


def test_a_folder_that_could_not_be_removed_whole_goes_later(tmp_path: Path) -> None:
    """What is left of a job that was dropped would be taken for one of another cluster, and told at each start."""
    store = JobStore(tmp_path)
    begun(store)
    store.folder("a").rename(store.folder("kept"))
    store.drop("b")
    (store.folder("kept") / "dropped").touch()
    (store.folder("kept") / "state").unlink()
    store.close()
    assert list(JobStore(tmp_path).folder("").iterdir()) == []


def test_a_job_that_is_dropped_is_marked_before_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that ends in between leaves a folder, which would be told of at each start, and never go."""
    store = JobStore(tmp_path)
    begun(store)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        store.drop("a")
    store.close()
    again = JobStore(tmp_path)
    assert [path.name for path in again.folder("").iterdir()] == ["b"] and "left out" not in caplog.text


def test_a_job_that_is_taken_outlasts_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client has its answer, and the names of what it has sent are not on disk yet: nothing is left of it."""
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)))
        fsync(descriptor)

    store = led(tmp_path)
    monkeypatch.setattr(os, "fsync", noted)
    job = DispatchedJob("a", "job", 1, 1)
    store.add(job, b"packed")
    assert {"jobs", "jobs/a/.job"} <= set(synced)
    state = synced.index("jobs/a/.state-1-1")
    assert synced[state + 1] == "jobs/a", "before the pointer to it"
    synced.clear()
    job.phase, job.status = Phase.ENDED, JobStatus.FINISHED
    store.record(job)
    assert synced[:2] == ["jobs/a/.state-1-2", "jobs/a"]


def test_a_state_that_is_gone_leaves_the_other_jobs(tmp_path: Path) -> None:
    """One damaged file would keep a whole cluster from starting."""
    store = led(tmp_path)
    jobs = [DispatchedJob("a", "job", 1, 1), DispatchedJob("b", "job", 1, 2)]
    for job in jobs:
        store.add(job, b"packed")
    next(store.folder("a").glob("state-*")).unlink()
    assert led(tmp_path).jobs() == jobs[1:]
