"""Checkpoint storage on a file system that pyarrow knows: local, or by URL (s3, gs, hdfs, file).

    <checkpoints>/<job>/chk-12/_metadata     the manifest, written last and atomically
    <checkpoints>/<job>/chk-12/...           files that only this checkpoint refers to
    <checkpoints>/<job>/shared/...           files that later checkpoints may refer to as well
    <checkpoints>/<job>/record/00000012      an entry that a run of the job published: job_record.py

A checkpoint is complete when the record holds its manifest; the one in its directory is a copy for users and tools. A
run that has taken the job over has an epoch above 1, and its file names begin with the epoch. A run deletes only files
that it or an earlier run wrote: a later run may exist without its knowledge.

Paths in a manifest are relative to the job's directory, so that it can be copied as a whole. Source: Flink docs,
"Checkpoints", Directory Structure.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from pyarrow import fs

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.common.errors.disk_errors import naming_file
from penstock.common.files import file_systems
from penstock.common.files.durable import is_object_store, make_directory, publish
from penstock.common.files.exclusive_creation import exclusive_creation
from penstock.common.files.known_directory import KnownDirectory, store_unavailable
from penstock.engine.checkpoint import record_files
from penstock.engine.checkpoint.columns import ColumnFiles
from penstock.engine.checkpoint.job_record import JobRecord, file_name
from penstock.engine.checkpoint.manifest import Manifest, decode, encode, is_relative
from penstock.engine.checkpoint.record_files import RecordFiles
from penstock.engine.state.snapshot.storage import complete_or_abort

_log = logging.getLogger(__name__)

METADATA = "_metadata"
LEASE = "lease"
"""The file by which a run shows that it is alive: lease.py."""
_DELETIONS_AT_ONCE = 16
_CHECKPOINT = re.compile(r"chk-(\d+)$")
_SHOWN_BELOW = 5
"""The most names of checkpoints in an error."""


class StateFiles(ColumnFiles):
    """State files below a directory, by relative or absolute paths."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._system, self._root = file_system_of(directory)
        self._known = KnownDirectory(self._system, self._root)
        self._made: set[str] = set()

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file.

        Raises FileNotFoundError if the file is missing from an existing directory, otherwise OSError.
        """
        is_own = is_relative(path)
        system, full = (self._system, self._path(path)) if is_own else file_system_of(path)
        try:
            with system.open_input_file(full) as file:
                data: bytes = file.read_at(length, offset)
        except FileNotFoundError:
            # Files of another job are known only by their own directory.
            directory = self._known if is_own else KnownDirectory(system, full.rpartition("/")[0])
            if directory.is_unavailable:
                raise store_unavailable(self.directory if is_own else path.rpartition("/")[0]) from None
            raise
        if is_own:
            self._known.identify()
        return data

    def create(self, name: str, shared: bool) -> FileWriter:
        """Create a state file. `name` starts with the number of its checkpoint."""
        path = self._relative_path(name, shared)
        full = self._path(path)
        self._make_parent(full)
        return FileWriter(self._system, full, path)

    def _relative_path(self, name: str, shared: bool) -> str:
        raise NotImplementedError

    def _write_manifest(self, path: str, manifest: Manifest) -> None:
        """Write the manifest atomically."""
        self._make_parent(path)
        # A checkpoint exists if and only if its manifest does: a reader must never see a part of it, and a crash must
        # not leave a part. The files that it names were synced when they were closed.
        with complete_or_abort(FileWriter(self._system, path, path)) as writer:
            writer.write(encode(manifest))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _make_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent not in self._made:
            # A new directory would hide an unavailable store, and conflict with the store's own when it returns.
            self._known.check_available(self.directory)
            make_directory(self._system, parent)
            self._known.identify()
            self._made.add(parent)


class SavepointStorage(StateFiles):
    """The directory of one savepoint. It holds all files of the savepoint and may be moved."""

    def publish(self, manifest: Manifest) -> str:
        """Write the manifest. Returns the directory."""
        self._write_manifest(self._path(METADATA), manifest)
        return self.directory

    def remove_unfinished(self) -> None:
        """Remove an aborted savepoint, unless its manifest is stored: the record of the job may name it."""
        with contextlib.suppress(OSError):
            if self._system.get_file_info(self._path(METADATA)).type is fs.FileType.File:
                return
            self.remove()

    def remove(self) -> None:
        """Remove the directory."""
        # The manifest first: if this process dies meanwhile, a half deleted savepoint must not look complete.
        with contextlib.suppress(OSError):
            self._system.delete_file(self._path(METADATA))
        with contextlib.suppress(OSError):
            self._system.delete_dir(self._root)

    def _relative_path(self, name: str, shared: bool) -> str:
        return name


class DirectoryStorage(StateFiles):
    """The directory of one job's checkpoints for one run of the job.

    `record`: the record in which the run publishes; workers publish nothing and need only `epoch`. `newest`: the number
    of the newest checkpoint when the run took the job over. `keeps_record`: the record stays when the job has ended,
    until `remove_ended_job` removes it. `before_publishing`: called once before anything is published, also before the
    first savepoint.
    """

    def __init__(
        self,
        directory: str,
        record: JobRecord | None = None,
        epoch: int = 1,
        newest: int = 0,
        keeps_record: bool = False,
        before_publishing: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(directory)
        self._before_publishing = before_publishing
        self._keeps_record = keeps_record
        self._record = record or JobRecord(record_in(directory), epoch=epoch)
        self._newest = newest

    def publish(self, manifest: Manifest) -> str:
        """Publish a checkpoint. Returns its directory. Raises FencedError if another run has taken the job over."""
        self._begin()
        number = self._record.publish(manifest)
        self._newest = max(self._newest, manifest.checkpoint_id)
        directory = f"chk-{manifest.checkpoint_id}"
        # After the record: a fenced run must not replace a manifest of the run that holds the job.
        try:
            copy = msgspec.structs.replace(manifest, record_number=number)
            self._write_manifest(self._path(f"{directory}/{METADATA}"), copy)
        except OSError as error:
            # The checkpoint is complete: if it were reported as failed, its committables would be discarded.
            _log.warning("%s: the manifest is on record, but its copy could not be written: %s", directory, error)
        return f"{self.directory}/{directory}"

    def record_end(self, status: str, savepoint: str = "") -> None:
        """Record the end of the job. Raises FencedError."""
        self._begin()
        self._record.publish_end(status, savepoint)

    def record_savepoint(self, savepoint: str, checkpoint: int) -> None:
        """Record that output is committed with a savepoint. Raises FencedError."""
        self._begin()
        self._record.publish_savepoint(savepoint, checkpoint)

    def _begin(self) -> None:
        before_publishing, self._before_publishing = self._before_publishing, lambda: None
        before_publishing()

    def discard(self, manifest: Manifest) -> None:
        """Remove the manifest of a subsumed checkpoint; `remove` removes its files. Raises FencedError."""
        self._record.forget(manifest.checkpoint_id)
        path = self._path(f"chk-{manifest.checkpoint_id}/{METADATA}")
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(path)
        self._remove_if_empty(f"chk-{manifest.checkpoint_id}")

    def remove(self, paths: Iterable[str]) -> None:
        """Remove state files, as far as they exist. Raises FencedError."""
        self._record.check()
        relative = list(filter(is_relative, paths))
        # A later sweep deletes the files that cannot be deleted now.
        self._delete_files(map(self._path, relative), OSError)
        for directory in {path.rpartition("/")[0] for path in relative} - {"shared"}:
            self._remove_if_empty(directory)

    def sweep(self, checkpoints: Iterable[Manifest], former_only: bool = False) -> None:
        """Remove all files that these checkpoints do not need, or only those of earlier runs. Raises FencedError.

        Without `former_only` no task of this run may be writing.
        """
        retained = list(checkpoints)
        self._record.retain({manifest.checkpoint_id for manifest in retained})
        # Absolute paths belong to another job, from whose checkpoint this one was started.
        kept = [path for manifest in retained for path in manifest.files() if is_relative(path)]
        kept += [f"chk-{manifest.checkpoint_id}/{METADATA}" for manifest in retained]
        # Some file systems return paths with a leading slash.
        needed = {self._path(path).strip("/") for path in kept}
        found = self._system.get_file_info(fs.FileSelector(self._root, allow_not_found=True, recursive=True))
        removed = [
            entry
            for entry in found
            if entry.type is fs.FileType.File
            and entry.path.strip("/") not in needed
            and self._may_remove(self._inside(entry.path), former_only)
        ]
        # Manifests first: if this process dies meanwhile, a half deleted checkpoint must not look complete.
        for are_manifests in (True, False):
            paths = [entry.path for entry in removed if (entry.base_name == METADATA) is are_manifests]
            self._delete_files(paths, FileNotFoundError)
        for entry in sorted(found, key=lambda entry: -len(entry.path)):
            # Not the record's directory, nor the job's own, which this process may have locked: a new directory of the
            # same name would have no lock and look like one of a dead process.
            if entry.type is fs.FileType.Directory and self._inside(entry.path) != record_files.DIRECTORY:
                self._remove_if_empty(self._inside(entry.path))
        # Directories may be removed now: the next file must create its directory again.
        self._made.clear()

    def delete(self) -> None:
        """Remove everything of a job whose end is on record, so that no run can follow.

        Raises FencedError.
        """
        self._record.check()
        self.sweep(())
        self._remove_if_empty(record_files.DIRECTORY)
        self._remove_if_empty("")
        # In a store without directories an earlier run could begin a new record, so the record stays there. Elsewhere
        # it is removed last: it alone says that the job has ended, and with which savepoint.
        if self._record.has_ended and isinstance(self._system, fs.LocalFileSystem) and not self._keeps_record:
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._path(LEASE))
            if self._record.stopped_with:
                # It holds the path of the savepoint until a job starts from there: ended_jobs.py.
                return
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_dir(self._path(record_files.DIRECTORY))
            self._remove_if_empty("")

    def savepoint(self, directory: str) -> SavepointStorage:
        """Return the storage of a savepoint."""
        # Another job may start from it and commit output before this job has a checkpoint.
        self._begin()
        return SavepointStorage(directory)

    def _inside(self, path: str) -> str:
        """Make a path of the file system relative to the job's directory."""
        return path.strip("/").removeprefix(self._root.strip("/")).strip("/")

    def _delete_files(self, paths: Iterable[str], tolerated: type[OSError]) -> None:
        """Delete files, several at a time, since a store may take long for each."""

        def delete(path: str) -> None:
            with contextlib.suppress(tolerated):
                self._system.delete_file(path)

        with ThreadPoolExecutor(_DELETIONS_AT_ONCE, thread_name_prefix="penstock-deletions") as pool:
            for _ in pool.map(delete, paths):
                """Iterating raises the first error."""

    def _may_remove(self, inside: str, former_only: bool) -> bool:
        """Whether a file cannot be one of a later run."""
        directory, _, name = inside.rpartition("/")
        if directory == record_files.DIRECTORY or inside == LEASE:
            return False
        checkpoint = _CHECKPOINT.search(directory)
        if name.startswith(METADATA) and checkpoint is not None:
            return int(checkpoint.group(1)) <= self._newest
        return self._record.may_remove(name, former_only)

    def _relative_path(self, name: str, shared: bool) -> str:
        file = file_name(name, self._record.epoch)
        return f"shared/{file}" if shared else f"chk-{name.partition('-')[0]}/{file}"

    def _remove_if_empty(self, directory: str) -> None:
        path = self._path(directory).rstrip("/")
        with contextlib.suppress(OSError):
            if isinstance(self._system, fs.LocalFileSystem):
                # Atomic: a later run may be about to write its first file there.
                Path(path).rmdir()
            elif not self._system.get_file_info(fs.FileSelector(path)):
                self._system.delete_dir(path)
            self._made.discard(path)
            if not directory:
                self._known = KnownDirectory(self._system, self._root)


class FileWriter:
    """A file that is being written. `close` makes it durable and gives it its final name."""

    def __init__(self, system: fs.FileSystem, full: str, path: str) -> None:
        self.path = path
        self._system = system
        self._full = full
        self._written_as = full if is_object_store(system) else f"{full}.unfinished"
        self._stream = system.open_output_stream(self._written_as)

    def write(self, data: bytes) -> None:
        """Append data."""
        with naming_file(self._written_as):
            self._stream.write(data)

    def close(self) -> None:
        """Complete the file: make it durable under its final name."""
        with naming_file(self._written_as):
            self._stream.close()
            if self._written_as != self._full:
                publish(self._system, self._written_as, self._full)

    def abort(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._system.delete_file(self._written_as)


def absolute(path: str | Path) -> str:
    """Return an absolute path, or a URL unchanged, without a slash at its end."""
    return file_systems.absolute(path).rstrip("/")


def files_directory(path: str, manifest: Manifest) -> str:
    """Return the directory to which paths in the manifest of the checkpoint or savepoint at `path` are relative."""
    directory = absolute(path).removesuffix(f"/{METADATA}")
    # Checkpoints of a job share files, so paths are relative to the job's directory.
    return directory if manifest.savepoint else directory.rpartition("/")[0]


def file_system_of(directory: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URL, and the path in it. Raises CheckpointError if it is unknown."""
    try:
        system, path = file_systems.file_system_of(absolute(directory))
        return system, path.rstrip("/")
    except (ValueError, OSError) as error:
        raise CheckpointError(f"cannot use the checkpoint directory {directory}: {error}") from error


def record_in(directory: str) -> RecordFiles:
    """Return the record in a job's directory, a path or URL."""
    system, root = file_system_of(directory)
    return RecordFiles(system, root, lambda: exclusive_creation(directory, system))


def completed_in(directory: str) -> list[tuple[int, str]]:
    """Return number and path of the checkpoints in a job's directory, newest last."""
    system, root = file_system_of(directory)
    found = []
    for entry in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        match = _CHECKPOINT.search(entry.path)
        if match and system.get_file_info(f"{entry.path}/{METADATA}").type is fs.FileType.File:
            found.append((int(match.group(1)), entry.path))
    return sorted(found)


def read_manifest(path: str) -> Manifest:
    """Read the manifest of a checkpoint, given the path of its directory or its own path.

    Raises CheckpointError; DamagedCheckpointError if it is missing, or differs from what was written.
    """
    system, inside = file_system_of(path)
    if not inside.endswith(METADATA):
        inside = f"{inside}/{METADATA}"
    try:
        with system.open_input_stream(inside) as stream:
            manifest = decode(stream.read(), inside)
    except FileNotFoundError as error:
        below = _names_below(system, inside.removesuffix(f"/{METADATA}"))
        instead = f". The directory holds {', '.join(below)}: name one of them" if below else ""
        raise DamagedCheckpointError(f"there is no checkpoint at {path}: {inside} is missing{instead}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read the manifest {inside}: {error}") from error
    number = _CHECKPOINT.search(inside.removesuffix(f"/{METADATA}"))
    # Undamaged, but of another checkpoint: all its files may exist, with the state of another time.
    if number and not manifest.savepoint and int(number[1]) != manifest.checkpoint_id:
        raise DamagedCheckpointError(
            f"the manifest {inside} is damaged: it describes checkpoint {manifest.checkpoint_id}"
        )
    return manifest


def _names_below(system: fs.FileSystem, directory: str) -> list[str]:
    """Return names of checkpoints and savepoints directly below a directory, the last ones if there are many."""
    try:
        entries = system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
        names = sorted(entry.base_name for entry in entries if entry.type is fs.FileType.Directory)[-_SHOWN_BELOW:]
        manifests = system.get_file_info([f"{directory}/{name}/{METADATA}" for name in names])
    except OSError:
        # The names are only a hint in an error message.
        return []
    return [name for name, manifest in zip(names, manifests, strict=True) if manifest.type is fs.FileType.File]
