"""Publishes the files that writers completed."""

from __future__ import annotations

from collections.abc import Sequence

from pyarrow import fs

from penstock.common.errors import JobError
from penstock.connectors.file_sink.part import PendingFile
from penstock.connectors.file_system.storage import resolve
from penstock.runtime.sink import Committer


class FileCommitter(Committer):
    """Renames each file to its final name.

    A rename is atomic on local disks and HDFS, so who reads the final names sees whole files only. Repeating a commit
    changes nothing: a file that has its final name and no longer its hidden one was committed before.
    """

    def commit(self, committables: Sequence[PendingFile]) -> None:
        """Publish. Raises JobError for a file that has neither name any more."""
        for file in committables:
            file_system, pending = resolve(file.pending_path)
            final = resolve(file.final_path)[1]
            if _is_file(file_system, pending):
                file_system.move(pending, final)
            elif not _is_file(file_system, final):
                raise JobError(f"{file.pending_path} is to be committed as {file.final_path}, but neither is there")

    def abort(self, committables: Sequence[PendingFile]) -> None:
        """Remove the hidden files; what was committed stays."""
        for file in committables:
            file_system, pending = resolve(file.pending_path)
            if _is_file(file_system, pending):
                file_system.delete_file(pending)


def _is_file(file_system: fs.FileSystem, path: str) -> bool:
    return file_system.get_file_info(path).type is fs.FileType.File
