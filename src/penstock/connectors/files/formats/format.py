"""The contract of file formats: how a file is cut into splits, and how the records of a split are read.

`StreamFormat` and `BulkFormat` are the two kinds of formats of PyFlink's FileSource; a custom format extends either.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.source.split import FileSplit, FoundFile

OnError = Literal["fail", "skip"]


class FileFormat(ABC):
    """Reads files of one kind. Pickled to the workers, so it holds settings only and nothing open."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Return True if byte ranges of this file can be read independently."""

    @abstractmethod
    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """Yield chunks of the records that belong to `split`, from its position on.

        The position of a chunk is the split at a place from which `read` would return the records that follow.
        `skipped` is called with the number of records skipped because they were damaged. Raises SourceError, naming the
        file, if it can't be read.
        """

    def check(self, file: FoundFile) -> None:
        """Raise SourceError if the first bytes show that the file does not have this format. Called at submission."""

    def get_produced_type(self) -> Any:
        """Return the TypeInformation of the records if it is known, else None."""
        return None


class BulkFormat(FileFormat):
    """Formats that store records in batches, as Parquet does."""

    @staticmethod
    def parquet_format(
        columns: Sequence[str] | None = None, *, as_row: bool = False, batch_records: int | None = None
    ) -> BulkFormat:
        """Return the Parquet format; see `ParquetFormat`."""
        from penstock.connectors.files.formats.parquet_format import ParquetFormat

        return ParquetFormat(columns, as_row=as_row, batch_records=batch_records)


class StreamFormat(FileFormat):
    """Formats that store one record after another, as lines do."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Return the format of text lines, as str without line ends; see `TextLineFormat`."""
        from penstock.connectors.files.formats.text_format import TextLineFormat

        return TextLineFormat(charset_name)

    @staticmethod
    def json_lines_format(value_type: Any = Any, *, on_error: OnError = "fail") -> StreamFormat:
        """Return the format of one JSON value per line; see `JsonLinesFormat`."""
        from penstock.connectors.files.formats.json_format import JsonLinesFormat

        return JsonLinesFormat(value_type, on_error=on_error)

    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        **options: Any,
    ) -> StreamFormat:
        """Return the CSV format; see `CsvFormat` for all options."""
        from penstock.connectors.files.formats.csv_format import CsvFormat

        return CsvFormat(columns, types, **options)


def python_charset(charset: str) -> str:
    """Return Python's name of a charset. Raises ValueError if it is unknown."""
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ValueError(f"unknown charset {charset!r}") from None


def on_error_policy(on_error: str) -> OnError:
    """Return the argument if it is valid. Raises ValueError."""
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail' or 'skip', got {on_error!r}")
    return on_error  # type: ignore[return-value]  # checked above
