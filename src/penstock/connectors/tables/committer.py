"""Adds files to a table, exactly once."""

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
    """Somebody has changed the table since it was loaded, in a way that what is to be added may be there now."""


class TableCommitter(Committer):
    """Publishes files, then adds all of them in one commit of the table, together with marks.

    A file is in the table, or was, if the mark of its writer has its number or a greater one: files of a writer are
    committed in order. So a commit is repeated without an effect, also when the table was compacted since.
    """

    @abstractmethod
    def base_path(self) -> str:
        """Below which the files are. Asked when there is something to commit or abort, and once."""

    @abstractmethod
    def load(self) -> Any:
        """The table as it is now."""

    @abstractmethod
    def mark_of(self, table: Any, writer: str) -> int | None:
        """The greatest number of the writer's files that were added."""

    @abstractmethod
    def add(self, table: Any, files: Sequence[TableFile], marks: dict[str, int]) -> None:
        """Add files in one commit, and set marks. Raises TableChangedError if it has to be looked at again."""

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
        raise JobError(f"others have changed the table each time that files were to be added, {_TRIES} times: {last}")

    def abort(self, committables: Sequence[TableFile]) -> None:
        if committables:
            self.files.abort([one.file for one in committables])

    @cached_property
    def files(self) -> FileCommitter:
        """Gives files their final names."""
        return FileCommitter(self._path)

    @cached_property
    def _path(self) -> str:
        return self.base_path()

    def relative(self, one: TableFile) -> str:
        """The path of a file below the base path."""
        return posixpath.relpath(one.file.final_path, self._path.rstrip("/"))

    def opened(self, one: TableFile) -> Any:
        """The file, to be read."""
        file_system, inner = resolve_below(self._path, one.file.final_path)
        return file_system.open_input_file(inner)


def _is_new(one: TableFile, mark: int | None) -> bool:
    return mark is None or one.number > mark
