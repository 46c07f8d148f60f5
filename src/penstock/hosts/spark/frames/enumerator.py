"""Splits of the files to which a DataFrame was written."""

from __future__ import annotations

import msgspec

from penstock.api.source import EnumeratorContext
from penstock.common.errors import SourceError
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.source.enumerator import FileEnumerator, FileEnumeratorState
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.split import DEFAULT_SPLIT_BYTES, FoundFile
from penstock.hosts.spark.frames.frame_copy import FrameCopy, missing_of


class DataFrameEnumerator(FileEnumerator):
    """Has the frame computed when it starts. One that is restored goes on with the files of then, whatever they are."""

    def __init__(
        self,
        context: EnumeratorContext,
        copy: FrameCopy,
        file_format: FileFormat,
        state: FileEnumeratorState | None = None,
    ) -> None:
        super().__init__(context, (), file_format, DEFAULT_SPLIT_BYTES, None, state)
        self._copy = copy
        self._is_restored = state is not None

    def start(self) -> None:
        """Compute the frame, on another thread; or look whether its files are there still."""
        if self._is_restored:
            files = sorted(self.found)
            self._context.call_async(lambda: missing_of(files), self._looked)
        else:
            super().start()

    def find(self) -> list[FoundFile]:
        """The files of the copy."""
        return list_files([self._copy.make(self)])

    def snapshot_state(self) -> FileEnumeratorState:
        """Return the splits not yet assigned, and all files: a job that is restored needs those of its readers, too."""
        return msgspec.structs.replace(super().snapshot_state(), seen=frozenset(self.found))

    def close(self) -> None:
        """End the computation, if it is under way."""
        self._copy.cancel(self)

    def _looked(self, missing: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if missing:
            raise SourceError(
                f"{missing[0]} is missing: a file of the copy of the DataFrame with which the job began. It was "
                "deleted, or it was temporary and is gone with its process. A copy stays where from_data_frame(frame, "
                "directory=...) says; to begin anew, start the job without the savepoint or checkpoint"
            )
