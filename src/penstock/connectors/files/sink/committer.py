"""Publishes the files that writers completed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from pyarrow import fs

from penstock.api.sink import Committer
from penstock.common.errors import JobError
from penstock.connectors.files.sink.part import PendingFile
from penstock.connectors.files.storage import resolve_below

_log = logging.getLogger(__name__)


class FileCommitter(Committer):
    """Renames each file to its final name.

    A rename is atomic on local disks and HDFS, so who reads the final names sees whole files only. Repeating a commit
    changes nothing: a file that has its final name and no longer its hidden one was committed before. After a recovery
    one that has neither was committed, and taken away by whoever reads it.
    """

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def commit(self, committables: Sequence[PendingFile]) -> None:
        """Publish. Raises JobError for a file that has neither name any more, or is not as long as it was."""
        for file in committables:
            if not self._publish(file):
                raise JobError(f"{file.pending_path} is to be committed as {file.final_path}, but neither is there")

    def commit_again(self, committables: Sequence[PendingFile]) -> None:
        """Publish those that have not been yet. Raises JobError for a file that is not as long as it was."""
        for file in committables:
            if not self._publish(file):
                _log.warning("%s was committed before, and is not there any more", file.final_path)

    def _publish(self, file: PendingFile) -> bool:
        """False: it has neither name."""
        file_system, pending = resolve_below(self._base_path, file.pending_path)
        final = resolve_below(self._base_path, file.final_path)[1]
        found = file_system.get_file_info(pending)
        if found.type is not fs.FileType.File:
            return _is_file(file_system, final)
        if found.size is not None and found.size != file.size:
            raise JobError(
                f"{file.pending_path} is to be committed as {file.final_path}; it has {found.size} bytes, and had "
                f"{file.size} when it was closed: the file system has lost some of it"
            )
        file_system.move(pending, final)
        return True

    def abort(self, committables: Sequence[PendingFile]) -> None:
        """Remove the hidden files, as far as that can be done; what was committed stays."""
        for file in committables:
            file_system, pending = resolve_below(self._base_path, file.pending_path)
            with contextlib.suppress(OSError):
                file_system.delete_file(pending)


def _is_file(file_system: fs.FileSystem, path: str) -> bool:
    return file_system.get_file_info(path).type is fs.FileType.File
