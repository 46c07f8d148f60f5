"""The thread of a job's storage operations, which must reach its last call."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from penstock.engine.checkpoint.effects import DeleteFiles, DeleteJob, DiscardCheckpoint, StoreManifest
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.jobmaster.events import StorageEnded
from penstock.hosts.spark.driver.storage_thread import StorageThread

MANIFEST = Manifest("job", "name", 7, 0, 0, 0, [], [])


def test_an_outcome_that_cannot_be_posted_does_not_end_it(tmp_path: Path) -> None:
    """A job would never end, and no error would say why."""
    posted: list[int] = []
    failures: list[BaseException] = []

    def post(event: StorageEnded) -> None:
        posted.append(event.operation)
        if event.operation == 1:
            raise OSError("too many open files")

    thread = StorageThread(DirectoryStorage(str(tmp_path / "job")), post, failures.append)
    over = threading.Event()
    for operation in (1, 2):
        thread.carry_out(DeleteFiles(operation, []))
    thread.end(over.set)
    assert over.wait(10)
    assert posted == [1, 2]
    assert [str(error) for error in failures] == ["too many open files"], "and the job fails with it"


class Store:
    """Notes what is done, and waits for the test before it deletes files."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.may_delete = threading.Event()

    def publish(self, manifest: object) -> str:
        self.done.append("publish")
        return ""

    def discard(self, manifest: object) -> None:
        self.done.append("discard")

    def remove(self, paths: list[str]) -> None:
        assert self.may_delete.wait(10)
        self.done.extend(paths)

    def delete(self) -> None:
        self.done.append("job")


def test_a_checkpoint_does_not_wait_for_thousands_of_files_to_be_deleted() -> None:
    """After the first full checkpoint a large job would take no other one for minutes."""
    store, posted = Store(), []
    thread = StorageThread(store, lambda event: posted.append(event.operation), posted.append)
    paths = [f"{n:04}" for n in range(1000)]
    thread.carry_out(DeleteFiles(1, paths))
    thread.carry_out(DeleteJob(2))
    thread.carry_out(StoreManifest(3, MANIFEST))
    thread.carry_out(DiscardCheckpoint(4, MANIFEST))
    thread.carry_out(DeleteFiles(5, ["last"]))
    store.may_delete.set()
    while len(posted) < 5:
        time.sleep(0.01)
    over = threading.Event()
    thread.end(over.set)
    assert over.wait(10)
    assert posted == [3, 4, 1, 5, 2]
    assert [path for path in store.done if path in paths] == paths
    assert store.done[-1] == "job", "behind it nothing may look into the job's directory"


def test_a_checkpoint_waits_for_one_part_of_all_that_is_to_be_deleted() -> None:
    """Deletions of a slow store that pile up would have each checkpoint wait for a part of every one of them."""
    store, posted = Store(), []
    thread = StorageThread(store, lambda event: posted.append(event.operation), posted.append)
    for operation in range(1, 51):
        thread.carry_out(DeleteFiles(operation, [f"{operation}-{n}" for n in range(200)]))
    thread.carry_out(StoreManifest(99, MANIFEST))
    store.may_delete.set()
    over = threading.Event()
    thread.end(over.set)
    assert over.wait(10)
    assert store.done.index("publish") <= 64
    assert sorted(posted) == [*range(1, 51), 99]
    assert len(store.done) == 50 * 200 + 1


def test_files_are_deleted_when_nothing_needs_them_any_more() -> None:
    """A driver killed in between would leave a checkpoint that refers to files that are gone."""
    store = Store()
    store.may_delete.set()
    begin = threading.Event()
    thread = StorageThread(store, lambda event: None, lambda error: None)

    def wait() -> None:
        begin.wait(10)

    thread.call(wait)
    for operation in (1, 3, 5):
        thread.carry_out(DiscardCheckpoint(operation, MANIFEST))
        thread.carry_out(DeleteFiles(operation + 1, [str(operation + 1)]))
    begin.set()
    over = threading.Event()
    thread.end(over.set)
    assert over.wait(10)
    discarded = [place for place, done in enumerate(store.done) if done == "discard"]
    for number, place in enumerate(discarded, start=1):
        assert store.done.index(str(2 * number)) > place


def test_a_last_call_that_fails_is_made_once() -> None:
    """The thread of a job that has ended would call it forever."""
    failures: list[BaseException] = []
    calls: list[int] = []
    over = threading.Event()

    def fail(error: BaseException) -> None:
        failures.append(error)
        over.set()

    def last() -> None:
        calls.append(1)
        raise OSError("too many open files")

    thread = StorageThread(Store(), lambda event: None, fail)
    thread.end(last)
    assert over.wait(10)
    assert not thread.call(lambda: None), "it would never be made"
    time.sleep(0.05)
    assert (len(calls), len(failures)) == (1, 1)
