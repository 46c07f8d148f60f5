"""Checkpoint storage in memory, which fails at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from penstock.engine.checkpoint.columns import ColumnFiles
from penstock.engine.checkpoint.job_record import (
    JobRecord,
    RecordContent,
    checkpoints_in,
    file_name,
    older_in,
    read_record,
)
from penstock.engine.checkpoint.manifest import Manifest, decode, encode, with_absolute_paths

SAVEPOINTS = "/savepoint-"
"""The prefix of the paths of all savepoints."""


class MemoryStorage(ColumnFiles):
    """Files by path, and the record of the present job. `failure_rate`: the probability that a write fails.

    `published` is called with the manifest of each completed checkpoint. `touched` is called after each change by the
    driver: it may raise, to simulate a driver that dies at this moment. A MemoryRun is the view of one run of the job.
    """

    def __init__(
        self,
        random: Random,
        failure_rate: float,
        published: Callable[[Manifest], None] = lambda manifest: None,
        touched: Callable[[], None] = lambda: None,
    ) -> None:
        self.files: dict[str, bytes] = {}
        self.savepoints: dict[str, Manifest] = {}
        self.published = published
        self.touched = touched
        self._entries: dict[int, bytes] = {}
        self._random = random
        self._failure_rate = failure_rate
        self.unreadable = False
        """Whether reads fail at the moment."""
        self._damaged: str | None = None
        """A file that is damaged on its disk."""

    # Files.

    def create(self, name: str, shared: bool) -> MemoryWriter:
        """Create a file."""
        assert name not in self.files, f"the file {name} is written twice"
        return MemoryWriter(self, name)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file."""
        if self.unreadable:
            raise OSError("the storage is unavailable")
        if path not in self.files or path == self._damaged:
            raise FileNotFoundError(path)
        return self.files[path][offset : offset + length]

    def savepoint(self, directory: str) -> MemorySavepoint:
        """Return the storage of a savepoint."""
        return MemorySavepoint(self, directory)

    # The record of the current job.

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, ascending."""
        return sorted(self._entries)

    def read_entry(self, number: int) -> bytes:
        """Return an entry."""
        if number not in self._entries:
            raise FileNotFoundError(number)
        return self._entries[number]

    def create_entry(self, number: int, data: bytes) -> bool:
        """Create an entry. False: an entry with that number exists."""
        self.maybe_fail()
        if number in self._entries:
            return False
        self._entries[number] = data
        # A write may also be reported as failed although the entry exists.
        self.maybe_fail()
        return True

    def remove_entry(self, number: int) -> None:
        """Remove an entry, if it exists."""
        self._entries.pop(number, None)

    def recorded(self) -> RecordContent | None:
        """Return the content of the record."""
        return read_record(MemoryRecord(self))

    @property
    def manifests(self) -> dict[int, Manifest]:
        """The checkpoints on record, by number."""
        return {manifest.checkpoint_id: manifest for manifest in checkpoints_in(MemoryRecord(self))}

    def latest(self) -> Manifest | None:
        """Return the newest manifest, decoded: of a checkpoint, or of a committed savepoint."""
        seen = self.recorded()
        if seen is not None and seen.savepoint:
            return self.savepoints[seen.savepoint]
        return seen.checkpoint if seen is not None else None

    def take_over(self, name: str) -> MemoryRun:
        """Let another run take over the current job."""
        seen, latest = self.recorded(), self.latest()
        assert latest is not None
        # No faults here: a user who reads that the store is unavailable tries again.
        failure_rate, self._failure_rate = self._failure_rate, 0
        record = JobRecord.claim(MemoryRecord(self), name, seen)
        self._failure_rate = failure_rate
        return MemoryRun(self, record, latest.checkpoint_id, older_in(MemoryRecord(self), latest.checkpoint_id))

    def new_job(self, name: str) -> MemoryRun:
        """Start another job. Only the savepoints of earlier jobs stay."""
        self._damaged = None
        self._entries = {}
        self.files = {path: data for path, data in self.files.items() if path.startswith(SAVEPOINTS)}
        return MemoryRun(self, JobRecord(MemoryRecord(self), name))

    # Faults.

    def damage(self) -> None:
        """Damage a file that only the newest checkpoint needs, if there is one.

        It is repaired when the job has fallen back and completed another checkpoint.
        """
        files = [manifest.files() for manifest in self.manifests.values()]
        if len(files) > 1:
            own = files.pop().difference(*files)
            self._damaged = self._random.choice(sorted(own)) if own else None

    def mend(self) -> None:
        """Repair the damaged file."""
        self._damaged = None

    @property
    def newest_is_damaged(self) -> bool:
        """Whether the newest checkpoint has a damaged file."""
        latest = self.latest()
        return latest is not None and self._damaged in latest.files()

    def fail(self) -> None:
        """Make every write fail from now on."""
        self._failure_rate = 1

    def heal(self) -> None:
        """Make every write succeed from now on."""
        self._failure_rate = 0

    def maybe_fail(self) -> None:
        """Raise OSError at random."""
        if self._random.random() < self._failure_rate:
            raise OSError("the storage is unavailable")


class MemoryRecord:
    """The record of the current job."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.numbers = storage.numbers
        self.read = storage.read_entry
        self.create = storage.create_entry
        self.remove = storage.remove_entry


class MemoryRun(ColumnFiles):
    """The storage of one run of a job: a `DirectoryStorage` in memory.

    `newest`: the checkpoint from which it took over; `older`: earlier checkpoints.
    """

    def __init__(
        self, storage: MemoryStorage, record: JobRecord, newest: int = 0, older: Sequence[Manifest] = ()
    ) -> None:
        self.epoch = record.epoch
        self.older = older
        self._storage = storage
        self._record = record
        self._newest = newest

    def create(self, name: str, shared: bool) -> MemoryWriter:
        """Create a file. Its name starts with the epoch of the run."""
        return self._storage.create(file_name(name, self.epoch), shared)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file."""
        return self._storage.read(path, offset, length)

    def savepoint(self, directory: str) -> MemorySavepoint:
        """Return the storage of a savepoint."""
        return self._storage.savepoint(directory)

    def publish(self, manifest: Manifest) -> str:
        """Publish a manifest in its encoded form. Its files must exist."""
        self._storage.maybe_fail()
        self._record.publish(manifest)
        missing = manifest.files() - self._storage.files.keys()
        assert not missing, f"checkpoint {manifest.checkpoint_id} refers to files that do not exist: {missing}"
        self._newest = max(self._newest, manifest.checkpoint_id)
        self._storage.mend()
        self._storage.published(manifest)
        self._storage.touched()
        return str(manifest.checkpoint_id)

    def record_end(self, status: str, savepoint: str = "") -> None:
        """Record that the job has ended."""
        self._record.publish_end(status, savepoint)
        self._storage.touched()

    def record_savepoint(self, savepoint: str, checkpoint: int) -> None:
        """Record that output is committed with a savepoint."""
        self._record.publish_savepoint(savepoint, checkpoint)
        self._storage.touched()

    def delete(self) -> None:
        """Remove everything except the record, which the user decides about."""
        self.sweep([])

    def discard(self, manifest: Manifest) -> None:
        """Remove a manifest."""
        self._record.forget(manifest.checkpoint_id)
        self._storage.touched()

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        self._record.check()
        for path in paths:
            if not path.startswith("/"):
                self._storage.files.pop(path, None)
                self._storage.touched()

    def sweep(self, checkpoints: Iterable[Manifest], former_only: bool = False) -> None:
        """Remove all files that these checkpoints do not need; with `former_only`, only files of former runs."""
        retained = list(checkpoints)
        self._record.retain({manifest.checkpoint_id for manifest in retained})
        needed = {path for manifest in retained for path in manifest.files()}
        for path in [path for path in self._storage.files if path not in needed and not path.startswith("/")]:
            if self._record.may_remove(path, former_only):
                del self._storage.files[path]


class MemoryWriter:
    """A file that is being written."""

    def __init__(self, storage: MemoryStorage, path: str, directory: str = "") -> None:
        self.path = path
        self._where = f"{directory}/{path}" if directory else path
        self._storage = storage
        self._data: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Append data."""
        self._storage.maybe_fail()
        self._data.append(data)

    def close(self) -> None:
        """Complete the file, which exists from now on."""
        self._storage.maybe_fail()
        self._storage.files[self._where] = b"".join(self._data)

    def abort(self) -> None:
        """Discard the written data."""


class MemorySavepoint(ColumnFiles):
    """The storage of a savepoint. Its files are in the storage's memory, below its directory."""

    def __init__(self, storage: MemoryStorage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    def create(self, name: str, shared: bool) -> MemoryWriter:
        """Create a file, by its name in the savepoint."""
        return MemoryWriter(self._storage, name, self._directory)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file."""
        return self._storage.read(path, offset, length)

    def publish(self, manifest: Manifest) -> str:
        """Store the manifest in its encoded form."""
        self._storage.maybe_fail()
        whole = with_absolute_paths(decode(encode(manifest), self._directory), self._directory)
        missing = whole.files() - self._storage.files.keys()
        assert not missing, f"{self._directory} refers to files that do not exist: {missing}"
        self._storage.savepoints[self._directory] = whole
        self._storage.touched()
        return self._directory

    def remove(self) -> None:
        """Remove the savepoint."""
        files = self._storage.files
        self._storage.files = {path: files[path] for path in files if not path.startswith(f"{self._directory}/")}

    def remove_unfinished(self) -> None:
        """Remove the savepoint, unless it is complete."""
        if self._directory not in self._storage.savepoints:
            self.remove()
