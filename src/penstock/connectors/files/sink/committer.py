"""Commits completed part files."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from pyarrow import fs

from penstock.api.sink import Committer
from penstock.common.durable import sync_parent
from penstock.common.errors import JobError
from penstock.connectors.files.sink.part import PendingFile
from penstock.connectors.files.storage import resolve_below

_log = logging.getLogger(__name__)


class FileCommitter(Committer):
    """Renames each file to its final name.

    A rename is atomic on local disks and HDFS, so readers of final names see complete files only. Commits are
    idempotent: a file that exists under its final name and no longer under its hidden name is committed. After a
    recovery, a file that exists under neither name was committed and then removed by a reader.
    """

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def commit(self, committables: Sequence[PendingFile]) -> None:
        """Publish files. Raises JobError if a file exists under neither name, or if its size has changed."""
        for file in committables:
            if not self._publish(file):
                raise JobError(f"can't commit {file.pending_path} as {file.final_path}: neither file exists")
        self._sync(committables)

    def commit_again(self, committables: Sequence[PendingFile]) -> None:
        """Publish files not yet published. Raises JobError if the size of a file has changed."""
        for file in committables:
            if not self._publish(file):
                _log.warning("%s was committed before and has been removed since", file.final_path)
        self._sync(committables)

    def _sync(self, committables: Sequence[PendingFile]) -> None:
        """Have the final names on disk, those of an earlier try, too: afterwards no run commits these files again."""
        synced = set()
        for file in committables:
            file_system, final = resolve_below(self._base_path, file.final_path)
            directory = final.rpartition("/")[0]
            if directory not in synced:
                synced.add(directory)
                with contextlib.suppress(FileNotFoundError):
                    sync_parent(file_system, final)

    def _publish(self, file: PendingFile) -> bool:
        """Rename the file if needed. Return False if it exists under neither name."""
        file_system, pending = resolve_below(self._base_path, file.pending_path)
        final = resolve_below(self._base_path, file.final_path)[1]
        found = file_system.get_file_info(pending)
        if found.type is not fs.FileType.File:
            return _is_file(file_system, final)
        # A power failure can truncate a file that was closed but not synced to disk.
        if found.size is not None and found.size != file.size:
            raise JobError(
                f"can't commit {file.pending_path} as {file.final_path}: it has {found.size} bytes, but had "
                f"{file.size} when it was closed; the file system has lost data"
            )
        file_system.move(pending, final)
        return True

    def abort(self, committables: Sequence[PendingFile]) -> None:
        """Remove the hidden files, ignoring errors; committed files remain."""
        for file in committables:
            file_system, pending = resolve_below(self._base_path, file.pending_path)
            with contextlib.suppress(OSError):
                file_system.delete_file(pending)


def _is_file(file_system: fs.FileSystem, path: str) -> bool:
    return file_system.get_file_info(path).type is fs.FileType.File
