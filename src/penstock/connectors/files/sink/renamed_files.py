"""Part files in file systems: written under a hidden name, published by a rename."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from typing import IO

import msgspec
from pyarrow import fs

from penstock.api.sink import SinkContext
from penstock.common.errors import DamagedCheckpointError
from penstock.common.files.durable import make_directory, sync, sync_parent
from penstock.common.files.known_directory import KnownDirectory, store_unavailable
from penstock.common.stored import stored_as
from penstock.connectors.files.located import Located
from penstock.connectors.files.sink.recoverable import RecoverableFile, RecoverableWriter, Recovered
from penstock.connectors.files.storage import resolve, resolve_below

_COPIED_AT_ONCE = 1 << 20


@stored_as("pending-file")
class PendingFile(Located, frozen=True, gc=False):
    """A committable: a complete file under its hidden name, and its final name (full paths or URLs)."""

    pending_path: str
    final_path: str
    size: int
    replaced: tuple[str, ...] = ()
    """Hidden files whose content this file contains: its commit removes them."""
    is_persisted: bool = False
    """Whether a checkpoint may name the file as in progress: then it stays if its attempt fails."""


@stored_as("file-in-progress")
class FileInProgress(Located, frozen=True, gc=False):
    """A hidden file whose first `size` bytes are part of a checkpoint (full paths or URLs)."""

    hidden_path: str
    final_path: str
    size: int
    job_id: str
    replaced: tuple[str, ...]


def hidden_name(final_name: str, attempt: str) -> str:
    """Return the name of a file before its commit: ignored by readers, and unique to the attempt that writes it."""
    return f".{final_name}.{re.sub(r'[^A-Za-z0-9_-]', '-', attempt)}.inprogress"


class RenamedFiles(RecoverableWriter):
    """Hidden files below a base path. Only local ones can be persisted."""

    def __init__(self, base_path: str, context: SinkContext) -> None:
        self._base_path = base_path
        self._context = context
        self._file_system, self._inner_base = resolve(base_path)
        self._known = KnownDirectory(self._file_system, self._inner_base)
        # In other file systems an open file may be unreadable, or lack flushed data.
        self.resumes = isinstance(self._file_system, fs.LocalFileSystem)

    def open(self, path: str, replaced: tuple[str, ...] = ()) -> RenamedFile:
        directory, _, name = path.rpartition("/")
        hidden = posixpath.join(directory, hidden_name(name, self._context.attempt))
        # A directory created while the store is unavailable would be hidden when the store is back, with its records.
        self._known.check_available(self._base_path)
        make_directory(self._file_system, below(self._inner_base, directory))
        self._known.identify()
        file = PendingFile(below(self._base_path, hidden), below(self._base_path, path), 0, replaced)
        return RenamedFile(self._file_system, below(self._inner_base, hidden), file, self._context.job_id)

    def for_savepoint(self, file: PendingFile) -> PendingFile:
        """Return the same file under a new name, for a savepoint.

        If the job is restored from an earlier checkpoint, another file receives the content up to there, and its commit
        removes this one. The savepoint needs the whole content under a name of its own.
        """
        path = f"{file.pending_path}.savepoint"
        former = resolve_below(self._base_path, file.pending_path)[1]
        inner = resolve_below(self._base_path, path)[1]
        try:
            os.link(former, inner)
        except OSError:
            # Some file systems have no links.
            shutil.copyfile(former, inner)
            sync(self._file_system, inner)
        sync_parent(self._file_system, inner)
        replaced = (*file.replaced, file.pending_path)
        return msgspec.structs.replace(file, pending_path=path, replaced=replaced, is_persisted=False)

    def recover(self, persisted: FileInProgress, path: str) -> Recovered:
        # Continue in a new file. A suspended worker that is considered dead may still write to the old one, and another
        # job may start from the same checkpoint.
        system, hidden = resolve_below(self._base_path, persisted.hidden_path)
        found = system.get_file_info(hidden)
        if found.type is not fs.FileType.File:
            if system.get_file_info(resolve_below(self._base_path, persisted.final_path)[1]).type is fs.FileType.File:
                # Committed by a run that continued from this checkpoint, or is about to.
                return Recovered([], None)
            if self._known.is_unavailable:
                raise store_unavailable(self._base_path)
            raise DamagedCheckpointError(
                f"cannot continue the part file {persisted.hidden_path}: it is missing. A run that continued from "
                "this checkpoint has committed or removed it. Start from a later checkpoint, or from a savepoint"
            )
        if found.size < persisted.size:
            raise DamagedCheckpointError(
                f"the part file {persisted.hidden_path} has {found.size} bytes, but had {persisted.size} at the "
                "checkpoint. The file system has lost data"
            )
        is_own = persisted.job_id == self._context.job_id
        file = self.open(path, (*persisted.replaced, persisted.hidden_path) if is_own else ())
        try:
            with system.open_input_stream(hidden, compression=None) as former:
                copy(former, file.out, persisted.size)
        except BaseException:
            file.discard()
            raise
        return Recovered([], file)


class RenamedFile(RecoverableFile):
    """A hidden file."""

    def __init__(self, file_system: fs.FileSystem, inner_path: str, file: PendingFile, job_id: str) -> None:
        """`inner_path`: the hidden path inside `file_system`."""
        self._file_system = file_system
        self._inner_path = inner_path
        self._file = file
        self._job_id = job_id
        self._persisted: FileInProgress | None = None
        self.out = file_system.open_output_stream(inner_path, compression=None)

    def persist(self) -> FileInProgress:
        size = self.out.tell()
        if self._persisted is None or self._persisted.size != size:
            self.out.flush()
            self._sync()
            file = self._file
            self._persisted = FileInProgress(
                hidden_path=file.pending_path,
                final_path=file.final_path,
                size=size,
                job_id=self._job_id,
                replaced=file.replaced,
            )
        return self._persisted

    def finish(self) -> PendingFile:
        size = self.out.tell()
        self.out.close()
        self._sync()
        return msgspec.structs.replace(self._file, size=size, is_persisted=self._persisted is not None)

    def discard(self) -> None:
        self.out.close()
        if self._persisted is None:
            self._file_system.delete_file(self._inner_path)

    def _sync(self) -> None:
        sync(self._file_system, self._inner_path)
        if self._persisted is None:
            sync_parent(self._file_system, self._inner_path)


def copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy up to `size` bytes of a stream."""
    while size > 0 and (data := source.read(min(size, _COPIED_AT_ONCE))):
        target.write(data)
        size -= len(data)


def below(base: str, relative: str) -> str:
    """Return the full path of a relative one."""
    return f"{base.rstrip('/')}/{relative}" if relative else base
