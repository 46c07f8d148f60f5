"""What a dispatcher keeps: it is there for the next one, and only one has it."""

from __future__ import annotations

import os
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
        store.add(job, b"packed")
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
    store.add(DispatchedJob("a", "first", 1, 1), b"packed")
    store.add(DispatchedJob("b", "second", 1, 1), b"packed")
    (store.folder("a") / "state").unlink()
    (store.folder("b") / "state").write_bytes(b'{"id": "b", "na')
    assert store.jobs() == []


def test_a_dropped_job_leaves_nothing(tmp_path: Path) -> None:
    """The disk would fill with programs of jobs that ended long ago."""
    store = JobStore(tmp_path)
    store.add(DispatchedJob("a", "old", 1, 1), b"packed")
    store.drop("a")
    assert store.jobs() == []
    assert not store.folder("a").exists()


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    """Settings of jobs have passwords in them."""
    store = JobStore(tmp_path)
    store.add(DispatchedJob("a", "job", 1, 1), b"packed")
    assert store.folder("a").stat().st_mode & 0o077 == 0
    assert store.bundle("x").parent.stat().st_mode & 0o077 == 0


def test_a_bundle_is_kept_as_long_as_a_job_has_it(tmp_path: Path) -> None:
    """The disk would fill with code of jobs that ended long ago; or a job that waits find its code gone."""
    store = JobStore(tmp_path)
    names = [f"penstock-{digit * 32}.bundle" for digit in "0123"]
    shared, dropped, wanted, sent = (store.bundle(name) for name in names)
    for bundle in (shared, dropped, wanted, sent):
        bundle.write_bytes(b"code")
        os.utime(bundle, (1, 1))
    store.add(DispatchedJob("a", "first", 1, 1), b"packed", shared.name)
    store.add(DispatchedJob("b", "second", 1, 1), b"packed", shared.name)
    store.add(DispatchedJob("c", "third", 1, 1), b"packed", dropped.name)
    assert store.wanted(wanted), "a client is about to send its job"
    assert not store.wanted(store.bundle("penstock-other.bundle"))
    store.drop("a")
    store.drop("c")
    assert sorted(store.bundle("").iterdir()) == [shared, wanted]
    assert (store.folder("b") / shared.name).read_bytes() == b"code"


def test_a_job_that_can_not_be_kept_leaves_nothing(tmp_path: Path) -> None:
    """A job would be taken whose code is not there, or a full disk become fuller by each attempt."""
    store = JobStore(tmp_path)
    with pytest.raises(OSError, match="penstock-0"):
        store.add(DispatchedJob("a", "job", 1, 1), b"packed", f"penstock-{'0' * 32}.bundle")
    assert not store.folder("a").exists()
    assert store.jobs() == []


def test_a_folder_without_a_job_is_removed_by_the_next_dispatcher(tmp_path: Path) -> None:
    """Programs that came as a dispatcher was killed would stay for ever."""
    store = JobStore(tmp_path)
    store.add(DispatchedJob("a", "job", 1, 1), b"packed")
    store.folder("b").mkdir()
    store.close()
    JobStore(tmp_path)
    assert [path.name for path in store.folder("").iterdir()] == ["a"]


def test_the_next_dispatcher_knows_where_the_one_before_has_served(tmp_path: Path) -> None:
    """Programs that wait for their jobs would ask where nobody is."""
    store = JobStore(tmp_path)
    assert store.port() is None
    store.keep_port(8082)
    store.close()
    assert JobStore(tmp_path).port() == 8082


def test_of_a_job_that_has_ended_no_code_is_kept(tmp_path: Path) -> None:
    """A hundred jobs that have ended would keep a hundred copies of an environment."""
    store = JobStore(tmp_path)
    bundle = store.bundle(f"penstock-{'0' * 32}.bundle")
    bundle.write_bytes(b"code")
    store.add(DispatchedJob("a", "job", 1, 1), b"packed", bundle.name)
    (store.folder("a") / f"{bundle.name}.d" / "modules").mkdir(parents=True)
    (store.folder("a") / f".{bundle.name}-part").mkdir()
    (store.folder("a") / "output").write_bytes(b"printed")
    store.release("a")
    assert sorted(path.name for path in store.folder("a").iterdir()) == ["job", "output", "state"]
    assert bundle.exists(), "other jobs may have it"
