"""Checkpoint storage in memory, which fails at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from penstock.checkpoint.columns import ColumnFiles
from penstock.checkpoint.manifest import Manifest, decode, encode, located
from penstock.checkpoint.storage_operations import CheckpointStorage

SAVEPOINTS = "/savepoint-"
"""The prefix of the paths of all savepoints."""


class MemoryStorage(ColumnFiles):
    """Files and manifests by path. `failure_rate`: the probability that a write fails.

    `published` is called with the manifest of each completed checkpoint. `touched` is called whenever the driver has
    changed something: it may raise, to simulate a driver that dies at this moment.
    """

    def __init__(
        self,
        random: Random,
        failure_rate: float,
        published: Callable[[Manifest], None] = lambda manifest: None,
        touched: Callable[[], None] = lambda: None,
    ) -> None:
        self.files: dict[str, bytes] = {}
        self.manifests: dict[int, bytes] = {}
        self.savepoints: dict[str, Manifest] = {}
        self._random = random
        self._failure_rate = failure_rate
        self._published = published
        self._touched = touched
        self._damaged: str | None = None
        """A file that has changed on its disk."""

    def create(self, name: str, shared: bool) -> MemoryWriter:
        """A new file."""
        assert name not in self.files, f"the file {name} is written twice"
        return MemoryWriter(self, name)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """A part of a file."""
        if path not in self.files or path == self._damaged:
            raise FileNotFoundError(path)
        return self.files[path][offset : offset + length]

    def savepoint(self, directory: str) -> MemorySavepoint:
        """Where a savepoint is kept."""
        return MemorySavepoint(self, directory)

    def of_other_run(self, directory: str) -> CheckpointStorage:
        """The checkpoints of another run of the job."""
        raise AssertionError("simulated jobs do not claim checkpoints of other runs")

    def publish(self, manifest: Manifest) -> str:
        """Store a manifest in its encoded form. The files that it refers to must exist."""
        self.maybe_fail()
        missing = manifest.files() - self.files.keys()
        assert not missing, f"checkpoint {manifest.checkpoint_id} refers to files that do not exist: {missing}"
        self.manifests[manifest.checkpoint_id] = encode(manifest)
        self._damaged = None
        self._published(manifest)
        self._touched()
        return str(manifest.checkpoint_id)

    def discard(self, manifest: Manifest) -> None:
        """Remove a manifest."""
        del self.manifests[manifest.checkpoint_id]
        self._touched()

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        for path in paths:
            self.files.pop(path, None)
            self._touched()

    def sweep(self, checkpoints: Iterable[Manifest]) -> None:
        """Remove all files that these checkpoints do not need."""
        needed = {path for manifest in checkpoints for path in manifest.files()}
        self.files = {path: data for path, data in self.files.items() if path in needed or path.startswith("/")}
        self.manifests = {manifest.checkpoint_id: self.manifests[manifest.checkpoint_id] for manifest in checkpoints}

    def latest(self) -> Manifest | None:
        """The newest manifest, decoded."""
        if not self.manifests:
            return None
        number = max(self.manifests)
        return decode(self.manifests[number], str(number))

    def leave(self, directory: str) -> Manifest | None:
        """The job has ended: for later jobs its files are in `directory`. Returns its newest checkpoint.

        If it has one, the files of earlier jobs are removed: it must not need them.
        """
        self._damaged = None
        latest = self.latest()
        stays = SAVEPOINTS if latest is not None else "/"
        kept = {path: data for path, data in self.files.items() if path.startswith(stays)}
        own = {f"{directory}/{path}": data for path, data in self.files.items() if not path.startswith("/")}
        self.files = {**kept, **own}
        self.manifests.clear()
        return located(latest, directory) if latest is not None else None

    def damage(self) -> None:
        """Damage a file of the newest checkpoint that an earlier one does not need, if there are such.

        It is whole again when the job has fallen back and completed another checkpoint.
        """
        files = [decode(data, str(number)).files() for number, data in sorted(self.manifests.items())]
        if len(files) > 1:
            own = files.pop().difference(*files)
            self._damaged = self._random.choice(sorted(own)) if own else None

    @property
    def newest_is_damaged(self) -> bool:
        """Whether a job that starts from the newest checkpoint fails."""
        latest = self.latest()
        return latest is not None and self._damaged in latest.files()

    def fail(self) -> None:
        """Let every write fail from now on."""
        self._failure_rate = 1

    def heal(self) -> None:
        """Let no write fail from now on."""
        self._failure_rate = 0

    def maybe_fail(self) -> None:
        """Raise OSError at random."""
        if self._random.random() < self._failure_rate:
            raise OSError("the storage is unavailable")


class MemoryWriter:
    """A file that is being written."""

    def __init__(self, storage: MemoryStorage, path: str, directory: str = "") -> None:
        self.path = path
        self._where = f"{directory}/{path}" if directory else path
        self._storage = storage
        self._data: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Append."""
        self._storage.maybe_fail()
        self._data.append(data)

    def close(self) -> None:
        """Complete the file: it exists from now on."""
        self._storage.maybe_fail()
        self._storage.files[self._where] = b"".join(self._data)

    def abort(self) -> None:
        """Discard what was written."""


class MemorySavepoint(ColumnFiles):
    """A savepoint: its files are in the storage's memory, below its directory."""

    def __init__(self, storage: MemoryStorage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    def create(self, name: str, shared: bool) -> MemoryWriter:
        """A new file, by its name in the savepoint."""
        return MemoryWriter(self._storage, name, self._directory)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """A part of a file."""
        return self._storage.read(path, offset, length)

    def publish(self, manifest: Manifest) -> str:
        """Store the manifest in its encoded form."""
        self._storage.maybe_fail()
        whole = located(decode(encode(manifest), self._directory), self._directory)
        missing = whole.files() - self._storage.files.keys()
        assert not missing, f"{self._directory} refers to files that do not exist: {missing}"
        self._storage.savepoints[self._directory] = whole
        self._storage._touched()
        return self._directory

    def remove(self) -> None:
        """Remove the savepoint: it was aborted."""
        files = self._storage.files
        self._storage.files = {path: files[path] for path in files if not path.startswith(f"{self._directory}/")}
