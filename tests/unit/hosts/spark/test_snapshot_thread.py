"""Snapshots are written while the slot works, in order, and their outcomes wake it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.runtime.task.events import SnapshotFailed, SnapshotWritten
from penstock.hosts.spark.worker.snapshot_thread import SnapshotThread


class Snapshot:
    """A snapshot whose writing does what a test says."""

    savepoint = None

    def __init__(self, checkpoint_id: int, *steps: Any, result: Any = None) -> None:
        self.checkpoint_id = checkpoint_id
        self.steps = steps
        self.result = result
        self.storage: Any = None

    def write(self, storage: Any) -> Iterator[None]:
        self.storage = storage
        for step in self.steps:
            if isinstance(step, BaseException):
                raise step
            step()
            yield
        return self.result


class SavepointSnapshot(Snapshot):
    def __init__(self, checkpoint_id: int, directory: str) -> None:
        super().__init__(checkpoint_id)
        self.savepoint = directory


class Bell:
    """Counts rings."""

    def __init__(self) -> None:
        self._rings = threading.Semaphore(0)

    def ring(self) -> None:
        self._rings.release()

    def wait(self, times: int = 1) -> None:
        for _ in range(times):
            assert self._rings.acquire(timeout=10)


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def storage(tmp_path) -> DirectoryStorage:
    return DirectoryStorage(str(tmp_path / "checkpoints"))


@pytest.fixture
def thread(storage, bell) -> SnapshotThread:
    return SnapshotThread(storage, bell.ring, lambda error: None)


def test_an_outcome_wakes_the_slot(thread, storage, bell) -> None:
    """A checkpoint would be acknowledged with the next record, which may never come."""
    snapshot = Snapshot(7, lambda: None, result="handles")
    thread.write(3, snapshot)
    bell.wait()
    vertex, written = thread.answers.popleft()
    assert (vertex, type(written), written.checkpoint_id) == (3, SnapshotWritten, 7)
    assert written.state == "handles"
    assert written.took_ms >= 0
    assert snapshot.storage is storage


def test_snapshots_are_written_in_order(thread, bell) -> None:
    """The changes of a later checkpoint would be stored before the ones they build on."""
    done: list[int] = []
    for n in range(20):
        thread.write(0, Snapshot(n, lambda n=n: done.append(n), lambda n=n: done.append(n)))
    bell.wait(20)
    assert done == [n for n in range(20) for _ in range(2)]
    assert [event.checkpoint_id for _, event in thread.answers] == [*range(20)]


def test_a_failure_is_an_outcome_and_not_the_end(thread, bell) -> None:
    """A disk that is full for a moment would silently end all checkpoints of the slot."""
    thread.write(1, Snapshot(1, OSError(28, "No space left on device")))
    thread.write(1, Snapshot(2))
    bell.wait(2)
    (_, failed), (_, written) = thread.answers
    assert isinstance(failed, SnapshotFailed)
    assert failed.checkpoint_id == 1
    assert "OSError" in failed.reason
    assert "No space left on device" in failed.reason
    assert isinstance(written, SnapshotWritten)


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit("rust")])
def test_state_that_raises_whatever_it_is_while_it_is_pickled(thread, bell, error) -> None:
    """No checkpoint of the job would ever complete again, and nothing would say why."""
    thread.write(1, Snapshot(1, error))
    thread.write(1, Snapshot(2))
    bell.wait(2)
    (_, failed), (_, written) = thread.answers
    assert failed == SnapshotFailed(1, f"{type(error).__name__}: {error}")
    assert isinstance(written, SnapshotWritten)


def test_an_outcome_that_cannot_be_posted_is_a_failure(storage) -> None:
    """The slot would wait for its snapshot forever."""
    told: list[BaseException] = []
    both = threading.Event()

    def failed(error: BaseException) -> None:
        told.append(error)
        if len(told) == 2:
            both.set()

    def ring() -> None:
        raise OSError("the pipe is gone")

    thread = SnapshotThread(storage, ring, failed)
    thread.write(1, Snapshot(1))
    thread.write(1, Snapshot(2))
    assert both.wait(10), "the thread continues"
    assert [str(error) for error in told] == ["the pipe is gone"] * 2


def test_a_savepoint_goes_to_its_own_directory(thread, storage, bell, tmp_path) -> None:
    """A savepoint would be stored among the checkpoints, and be deleted with them."""
    snapshot = SavepointSnapshot(4, str(tmp_path / "savepoint"))
    thread.write(0, snapshot)
    bell.wait()
    assert snapshot.storage is not storage
    assert type(snapshot.storage).__name__ == "SavepointStorage"


def test_an_error_of_a_savepoint_names_directory_process_and_machine(thread, bell, tmp_path) -> None:
    """The user has named a directory, and would read "FileNotFoundError": on which machine, and what is to be done?"""
    (tmp_path / "file").touch()
    directory = str(tmp_path / "file" / "savepoint-1")
    snapshot = SavepointSnapshot(4, directory)
    snapshot.steps = (lambda: snapshot.storage.create("4-state", shared=False),)
    thread.write(0, snapshot)
    bell.wait()
    ((_, failed),) = thread.answers
    assert f"process {os.getpid()} on {socket.gethostname()}, cannot write below {directory}: " in failed.reason
    assert "Not a directory. Name a directory in which the driver and all executors may create files" in failed.reason


def test_the_slot_is_not_held_up(thread, bell) -> None:
    """A slow store would hold back the records of the slot."""
    go_on = threading.Event()
    thread.write(0, Snapshot(1, lambda: go_on.wait(10)))
    thread.write(0, Snapshot(2))
    assert not thread.answers
    go_on.set()
    bell.wait(2)
    assert len(thread.answers) == 2


def test_nothing_is_written_after_the_tasks_are_closed(thread, bell) -> None:
    """A file would be written after the job master has deleted what no checkpoint needs, and stay forever."""
    begun, gate = threading.Event(), threading.Event()
    written: list[str] = []

    def first() -> None:
        begun.set()
        assert gate.wait(10)
        written.append("the step that was under way")

    thread.write(3, Snapshot(7, first, lambda: written.append("the rest")))
    thread.write(4, Snapshot(7, lambda: written.append("the next")))
    assert begun.wait(10)
    threading.Timer(0.05, gate.set).start()
    thread.end()
    assert written == ["the step that was under way"]
    bell.wait(2)
    assert written == ["the step that was under way"]
    assert [type(answer) for _, answer in thread.answers] == [SnapshotFailed, SnapshotFailed]
