"""How it is with jobs, where leaders are elected: what a former leader writes does not count."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.cluster.high_availability.lease_register import LeaseRegister
from penstock.cluster.high_availability.pointers import NotLeadingError
from penstock.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.dispatcher.job_states import FencedStates
from penstock.dispatcher.job_store import JobStore

LEASE_MS = 300


def led(folder: Path) -> JobStore:
    """A store of a process that leads from now on, when the leader before has been silent."""
    register = LeaseRegister(folder, LEASE_MS)
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


def test_a_state_that_is_gone_leaves_the_other_jobs(tmp_path: Path) -> None:
    """One damaged file would keep a whole cluster from starting."""
    store = led(tmp_path)
    jobs = [DispatchedJob("a", "job", 1, 1), DispatchedJob("b", "job", 1, 2)]
    for job in jobs:
        store.add(job, b"packed")
    next(store.folder("a").glob("state-*")).unlink()
    assert led(tmp_path).jobs() == jobs[1:]
