"""What a dispatcher keeps: it is there for the next one, and only one has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cluster.rest_address import RestAddress
from penstock.common.errors import ConfigurationError
from penstock.common.job_status import JobStatus
from penstock.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.dispatcher.job_store import JobStore
from penstock.rpc.keys import ControlAddress


def test_jobs_are_there_for_the_next_dispatcher_in_their_order(tmp_path: Path) -> None:
    """Jobs would be gone with a dispatcher that is killed, or the last in the queue be the first."""
    store = JobStore(tmp_path)
    control = ControlAddress("tcp://127.0.0.1:1", b"\xff", b"", b"")
    rest = RestAddress("http://127.0.0.1:1", "file")
    jobs = [
        DispatchedJob("b", "first", 1, 1, Phase.RUNNING, "job", rest, control, 2),
        DispatchedJob("a", "second", 2, 5, Phase.ENDED, "other", status=JobStatus.FAILED, kind="JobError", error="x"),
    ]
    for job in reversed(jobs):
        store.add(job.id, b"packed")
        store.record(job)
    store.close()
    assert JobStore(tmp_path).jobs() == jobs


def test_two_dispatchers_never_have_the_same_jobs(tmp_path: Path) -> None:
    """Each job would run twice at once."""
    store = JobStore(tmp_path)
    with pytest.raises(ConfigurationError, match="a cluster runs already"):
        JobStore(tmp_path)
    store.close()
    JobStore(tmp_path).close()


def test_a_job_that_was_not_recorded_any_more_is_none(tmp_path: Path) -> None:
    """A dispatcher that was killed as a job came would never start again."""
    store = JobStore(tmp_path)
    store.add("a", b"packed")
    store.add("b", b"packed")
    (store.folder("b") / "state").write_bytes(b'{"id": "b", "na')
    assert store.jobs() == []


def test_a_dropped_job_leaves_nothing(tmp_path: Path) -> None:
    """The disk would fill with programs of jobs that ended long ago."""
    store = JobStore(tmp_path)
    store.add("a", b"packed")
    store.record(DispatchedJob("a", "old", 1, 1))
    store.drop("a")
    assert store.jobs() == []
    assert not store.folder("a").exists()


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    """Settings of jobs have passwords in them."""
    store = JobStore(tmp_path)
    store.add("a", b"packed")
    assert store.folder("a").stat().st_mode & 0o077 == 0
    assert store.bundle("x").parent.stat().st_mode & 0o077 == 0
