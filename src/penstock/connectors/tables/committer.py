"""Add files to a table, exactly once."""

from __future__ import annotations

import posixpath
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from penstock.api.sink import Committer
from penstock.common.errors import JobError
from penstock.connectors.files.sink.committer import FileCommitter
from penstock.connectors.files.storage import resolve_below
from penstock.connectors.tables.writer import TableFile

_TRIES = 10


class TableChangedError(JobError):
    """The table has changed since it was loaded, and may contain the files already."""


class TableCommitter(Committer):
    """Publish files, then add all of them in one commit of the table, together with marks.

    A file is in the table, or was, if the mark of its writer has at least its number, because files of a writer are
    committed in order. A repeated commit therefore has no effect, also after a compaction of the table.
    """

    @abstractmethod
    def base_path(self) -> str:
        """Return the base path of the files. Called once, for the first commit or abort."""

    @abstractmethod
    def load(self) -> Any:
        """Return the present table."""

    @abstractmethod
    def mark_of(self, table: Any, writer: str) -> int | None:
        """Return the greatest number of the writer's files that were added."""

    @abstractmethod
    def add(self, table: Any, files: Sequence[TableFile], marks: dict[str, int]) -> None:
        """Add files in one commit, and set marks. Raise TableChangedError if the marks must be checked again."""

    def commit(self, committables: Sequence[TableFile]) -> None:
        if not committables:
            return None
        for _ in range(_TRIES):
            table = self.load()
            marks = {writer: self.mark_of(table, writer) for writer in {one.writer for one in committables}}
            new = [one for one in committables if _is_new(one, marks[one.writer])]
            if not new:
                return None
            self.files.commit([one.file for one in new])
            numbers = {one.writer: max(two.number for two in new if two.writer == one.writer) for one in new}
            try:
                return self.add(table, new, numbers)
            except TableChangedError as error:
                last = error
        raise JobError(f"cannot add files: other writers changed the table in each of {_TRIES} tries: {last}")

    def abort(self, committables: Sequence[TableFile]) -> None:
        if committables:
            self.files.abort([one.file for one in committables])

    @cached_property
    def files(self) -> FileCommitter:
        """Return the committer that renames files to their final names."""
        return FileCommitter(self._path)

    @cached_property
    def _path(self) -> str:
        return self.base_path()

    def relative(self, one: TableFile) -> str:
        """Return the path of a file below the base path."""
        return posixpath.relpath(one.file.final_path, self._path.rstrip("/"))

    def opened(self, one: TableFile) -> Any:
        """Open the file for reading."""
        file_system, inner = resolve_below(self._path, one.file.final_path)
        return file_system.open_input_file(inner)


def _is_new(one: TableFile, mark: int | None) -> bool:
    return mark is None or one.number > mark
