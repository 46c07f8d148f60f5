"""Checkpoints and savepoints in an object store whose requests fail: what was completed is there, whole, and newest."""

from __future__ import annotations

import os
from random import Random

import pytest
from tests.connectors.faulty_store import FaultyStore
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.job_record import JobRecord, read_record
from penstock.engine.checkpoint.latest import latest_of
from penstock.engine.checkpoint.lease import wait_until_free
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage import (
    DirectoryStorage,
    SavepointStorage,
    file_system_of,
    read_manifest,
    record_in,
)

pytestmark = pytest.mark.connectors
NAME = "a job"
QUICK = ["error", "busy", "refused", "lost", "cut", "late"]
_TRIES = 400


def content_of(number: int) -> bytes:
    return b"state %d " % number * 2_000


class Job:
    """Runs that take checkpoints, each with a file, and savepoints. A run that fails is followed by another one.

    `done`: the number of the newest checkpoint that a run knows to be complete.
    """

    def __init__(self, base: str, checkpoints: int) -> None:
        self._base = base
        self._checkpoints = checkpoints
        self.done = self.runs = 0
        self.savepoints: dict[str, int] = {}

    def run(self) -> None:
        """To the last checkpoint."""
        while self.done < self._checkpoints:
            self.runs += 1
            assert self.runs < _TRIES
            try:
                self._take_checkpoints()
            except AssertionError:
                raise
            except Exception:
                # Whatever a client raises ends a run.
                continue

    def _take_checkpoints(self) -> None:
        storage, newest = self._taken_over()
        self.done = newest
        former: Manifest | None = None
        while self.done < self._checkpoints:
            number = self.done + 1
            file = storage.create(f"{number}-{self.runs}-keyed", shared=True)
            file.write(content_of(number))
            file.close()
            manifest = manifest_of(number, [file.path])
            storage.publish(manifest)
            self.done = number
            if former is not None:
                storage.discard(former)
                storage.remove(former.files())
            former = manifest
            if number % 3 == 0:
                self._save(number)

    def _taken_over(self) -> tuple[DirectoryStorage, int]:
        directory = f"{self._base}/job"
        seen = read_record(record_in(directory))
        if seen is None:
            assert self.done == 0, "the record of completed checkpoints is gone"
            return DirectoryStorage(directory), 0
        # There may be entries of a first checkpoint that has failed, and no other.
        newest = seen.checkpoint.checkpoint_id if seen.checkpoint is not None else 0
        assert self.done <= newest <= self.done + 1, "a completed checkpoint is not the newest"
        if newest:
            assert latest_of(self._base, NAME).manifest.checkpoint_id == newest
        record = JobRecord.claim(record_in(directory), NAME, seen)
        return DirectoryStorage(directory, record, newest=newest), newest

    def _save(self, number: int) -> None:
        storage = SavepointStorage(f"{self._base}-savepoints/{number}-{self.runs}")
        file = storage.create("keyed", shared=False)
        file.write(content_of(number))
        file.close()
        # The notification comes after it is complete.
        self.savepoints[storage.publish(manifest_of(number, [file.path], savepoint=True))] = number


def state_of(manifest: Manifest, directory: str) -> bytes:
    (path,) = manifest.files()
    return DirectoryStorage(directory).read(path, 0, 1 << 20)


def check(bucket: str, monkeypatch: pytest.MonkeyPatch, store: FaultyStore, checkpoints: int) -> None:
    """Run a job there, and look at what it has left, without faults."""
    with monkeypatch.context() as within, store.serving() as address:
        within.setenv("AWS_ENDPOINT_URL", address)
        within.setenv("AWS_MAX_ATTEMPTS", "2")
        job = Job(f"{bucket}/jobs", checkpoints)
        job.run()
    assert store.tried and job.runs > 1, "the faults have not been tried"

    latest = latest_of(f"{bucket}/jobs", NAME).manifest
    assert latest.checkpoint_id == checkpoints
    assert state_of(latest, f"{bucket}/jobs/job") == content_of(checkpoints)
    assert job.savepoints
    for path, number in job.savepoints.items():
        assert state_of(read_manifest(path), path) == content_of(number)


def test_what_was_completed_is_there(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job would continue from an older checkpoint than its commits, or from an incomplete file."""
    check(bucket, monkeypatch, FaultyStore(os.environ["AWS_ENDPOINT_URL"], Random(1), 0.15, QUICK), 4)


def test_a_lease_is_looked_at_again(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job could not be started again while its store cuts off some answers."""
    system, root = file_system_of(f"{bucket}/jobs/job")
    with system.open_output_stream(f"{root}/lease") as stream:
        stream.write(b"a run that has died 3\n" * 100)
    store = FaultyStore(os.environ["AWS_ENDPOINT_URL"], Random(2), 0.5, ["cut"])
    with monkeypatch.context() as within, store.serving() as address:
        within.setenv("AWS_ENDPOINT_URL", address)
        faulty, _ = file_system_of(f"{bucket}/jobs/job")
        wait_until_free(faulty, f"{root}/lease", "job", 600)
        assert store.tried["cut"]
        store.probability = 1.0
        with pytest.raises(CheckpointError, match="cannot read the lease of the job abc"):
            wait_until_free(faulty, f"{root}/lease", "abc", 300)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_again_and_again(bucket: str, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """As above, also while the store does not answer for a time."""
    store = FaultyStore(os.environ["AWS_ENDPOINT_URL"], Random(seed), 0.15, [*QUICK, "silent"])
    check(bucket, monkeypatch, store, 10)
    print(f"seed {seed}: {dict(store.tried)}")
