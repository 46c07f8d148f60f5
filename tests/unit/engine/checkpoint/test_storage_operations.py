"""Each storage operation calls exactly its method of the storage."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.engine.checkpoint.effects import (
    DeleteFiles,
    DeleteJob,
    DeleteSavepoint,
    DiscardCheckpoint,
    RecordEnd,
    RetainOnly,
    StorageEffect,
    StoreManifest,
)
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage_requests import carry_out
from penstock.engine.runtime.checkpoint_options import CheckpointOptions

Calls = list[tuple[str, str, object]]


class Recording:
    """A storage that records its calls: storage, method and arguments."""

    def __init__(self, calls: Calls, where: str = "own") -> None:
        self.calls = calls
        self.where = where

    def publish(self, manifest: Manifest) -> str:
        self.calls.append((self.where, "publish", manifest.checkpoint_id))
        return self.where

    def discard(self, manifest: Manifest) -> None:
        self.calls.append((self.where, "discard", manifest.checkpoint_id))

    def remove(self, paths: Iterable[str] = ()) -> None:
        self.calls.append((self.where, "remove", list(paths)))

    def sweep(self, checkpoints: Iterable[Manifest], former_only: bool = False) -> None:
        name = "sweep former" if former_only else "sweep"
        self.calls.append((self.where, name, [one.checkpoint_id for one in checkpoints]))

    def remove_unfinished(self) -> None:
        self.calls.append((self.where, "remove unfinished", []))

    def savepoint(self, directory: str) -> Recording:
        return Recording(self.calls, f"savepoint {directory}")

    def record_end(self, status: str, savepoint: str = "") -> None:
        self.calls.append((self.where, "record_end", (status, savepoint)))

    def record_savepoint(self, savepoint: str, checkpoint: int) -> None:
        self.calls.append((self.where, "record_savepoint", (savepoint, checkpoint)))

    def delete(self) -> None:
        self.calls.append((self.where, "delete", ()))


@pytest.mark.parametrize(
    ("effect", "call"),
    [
        (StoreManifest(1, manifest_of(3)), ("own", "publish", 3)),
        (StoreManifest(1, manifest_of(3), CheckpointOptions(savepoint="/sp")), ("savepoint /sp", "publish", 3)),
        (DiscardCheckpoint(1, manifest_of(3)), ("own", "discard", 3)),
        (DeleteFiles(1, ["a", "b"]), ("own", "remove", ["a", "b"])),
        (RetainOnly(1, [manifest_of(3), manifest_of(4)]), ("own", "sweep", [3, 4])),
        (DeleteSavepoint(1, "/sp"), ("savepoint /sp", "remove unfinished", [])),
        (RetainOnly(1, [manifest_of(3)], former_only=True), ("own", "sweep former", [3])),
        (RecordEnd(1, "FINISHED"), ("own", "record_end", ("FINISHED", ""))),
        (DeleteJob(1), ("own", "delete", ())),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, StorageEffect) else None,
)
def test_an_operation_is_one_call(effect: StorageEffect, call: tuple[str, str, object]) -> None:
    """A savepoint would be stored among the checkpoints, or this run's checkpoints deleted instead of another's."""
    calls: Calls = []
    carry_out(effect, Recording(calls))
    assert calls == [call]


def test_a_savepoint_that_stops_the_job_ends_its_record() -> None:
    """The job would be restored from a checkpoint before the commits of its savepoint."""
    calls: Calls = []
    carry_out(StoreManifest(1, manifest_of(3), CheckpointOptions(savepoint="/sp", stop=True)), Recording(calls))
    assert calls == [("savepoint /sp", "publish", 3), ("own", "record_end", ("FINISHED", "/sp"))]


def test_a_savepoint_that_commits_is_on_record() -> None:
    """The job would be restored from a checkpoint before the commits of its savepoint."""
    calls: Calls = []
    carry_out(StoreManifest(1, manifest_of(3), CheckpointOptions(savepoint="/sp"), commits=True), Recording(calls))
    assert calls == [("savepoint /sp", "publish", 3), ("own", "record_savepoint", ("/sp", 3))]


def test_there_is_a_call_for_each_operation() -> None:
    """A new kind of operation would fail when it is first needed."""
    kinds = {DeleteFiles, DeleteJob, DeleteSavepoint, DiscardCheckpoint, RecordEnd, RetainOnly}
    assert set(StorageEffect.__subclasses__()) == kinds | {StoreManifest}
    with pytest.raises(AssertionError):
        carry_out(StorageEffect(1), Recording([]))
