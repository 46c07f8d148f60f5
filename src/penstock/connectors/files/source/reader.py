"""Read the file splits of one subtask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from penstock.api.source import ReaderContext
from penstock.connectors.base.split_reader import Chunk, ChunkedSplitReader
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.split import FileSplit

T = TypeVar("T")


class FileSourceReader(ChunkedSplitReader[T]):
    """Keep one file open at a time. The metric `numRecordsInErrors` counts unreadable records, skipped or emitted."""

    def __init__(self, context: ReaderContext, file_format: FileFormat) -> None:
        super().__init__(context)
        self._format = file_format
        self._errors = context.metric_group.counter("numRecordsInErrors")

    def open(self, split: FileSplit) -> Iterator[Chunk]:
        """Yield chunks as the format reads them."""
        return self._format.read(split, self._errors.inc)

    def skip(self, split: Any, count: int) -> FileSplit:
        """Return the split advanced by `count` records."""
        return split.skipping(count)  # type: ignore[no-any-return]
