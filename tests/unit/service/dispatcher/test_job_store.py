"""What a dispatcher keeps: it is there for the next one, and only one has it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from penstock.common.errors import ConfigurationError
from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.atomic_files import write_reserved
from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.job_store import ARCHIVE, FIGURES, JobStore


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
    with pytest.raises(ConfigurationError, match="is already running"):
        JobStore(tmp_path)
    store.close()
    JobStore(tmp_path).close()


def test_a_job_that_was_not_recorded_any_more_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A dispatcher that was killed as a job came would never start again; a damaged disk would take a job unsaid."""
    store = JobStore(tmp_path)
    store.add(DispatchedJob("a", "first", 1, 1), b"packed")
    store.add(DispatchedJob("b", "second", 1, 1), b"packed")
    (store.folder("a") / "state").unlink()
    for damaged in (b'{"id": "b", "na', b'{"id": "\xff", "name": "second"}'):
        (store.folder("b") / "state").write_bytes(damaged)
        assert store.jobs() == []
        assert (
            f"the job b is left out and not resumed: cannot read its state, {store.folder('b')}/state"
            in caplog.messages[-1]
        )
    (store.folder("b") / "state").unlink()
    (store.folder("b") / "state").mkdir()
    assert store.jobs() == [] and "the job b is left out" in caplog.messages[-1]


def test_a_folder_without_a_state_stays_for_an_hour_and_one_of_others_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A state that was moved away for a moment would cost the job's code; and a file of the user's be gone unsaid."""
    store = JobStore(tmp_path)
    for name in ("new", "old", "others"):
        store.add(DispatchedJob(name, "job", 1, 1), b"packed")
        (store.folder(name) / "state").unlink()
    (store.folder("others") / "job").rename(store.folder("others") / "precious.txt")
    for name in ("old", "others"):
        os.utime(store.folder(name), (1, 1))
    store.close()
    JobStore(tmp_path).close()
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["new", "others"]
    assert f"{store.folder('old')} is removed" in caplog.text


@pytest.mark.parametrize("damaged", [b"", b"abc def", b"x\n", b"\xff\xfe"])
def test_a_token_that_is_none_is_told_by_its_file(tmp_path: Path, damaged: bytes) -> None:
    """A cluster would start that no client can talk to, or end with a trace."""
    store = JobStore(tmp_path)
    assert store.token() == store.token()
    (tmp_path / "token").write_bytes(damaged)
    with pytest.raises(ConfigurationError, match="token does not contain a valid token: remove it"):
        store.token()


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


@pytest.mark.parametrize("error", ["", "a short one", "a long one " * 10_000])
def test_the_end_of_a_job_is_kept_on_a_full_disk(tmp_path: Path, error: str) -> None:
    """A job that has ended would be run again by the next dispatcher, and its output come twice."""
    store = JobStore(tmp_path)
    job = DispatchedJob("a", "job", 1, 1, Phase.RUNNING, "a")
    store.add(job, b"packed")
    # No other file of these names can be written from here on.
    for name in ("state", FIGURES, ARCHIVE):
        (store.folder("a") / f".{name}").mkdir()
    with pytest.raises(OSError, match=r"\.state"):
        store.record(job)
    ended = dataclasses.replace(job, phase=Phase.ENDED, status=JobStatus.FAILED, ended_ms=5, error=error)
    for name in (FIGURES, ARCHIVE):
        write_reserved(store.folder("a") / name, b"{}")
    store.record(ended)
    store.release("a")
    store.close()
    (kept,) = JobStore(tmp_path).jobs()
    assert (kept.status, kept.phase, kept.ended_ms) == (JobStatus.FAILED, Phase.ENDED, 5)
    assert error.startswith(kept.error) and bool(kept.error) == bool(error)
    assert [(store.folder("a") / name).read_bytes() for name in (FIGURES, ARCHIVE)] == [b"{}"] * 2
    assert not list(store.folder("a").glob("*.spare"))


def test_what_does_not_fit_into_the_space_set_aside_is_not_cut_off(tmp_path: Path) -> None:
    """The archive of a large job would be JSON that ends in its middle."""
    store = JobStore(tmp_path)
    store.add(DispatchedJob("a", "job", 1, 1), b"packed")
    archive = store.folder("a") / ARCHIVE
    archive.with_name(f".{ARCHIVE}").mkdir()
    with pytest.raises(OSError, match=ARCHIVE):
        write_reserved(archive, b" " * (1 << 20))
    assert not archive.exists()


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
    os.utime(store.folder("b"), (1, 1))
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
