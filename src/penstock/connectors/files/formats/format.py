"""What a file format has to say: how a file is cut, and how the records of one piece are read.

`StreamFormat` and `BulkFormat` are the two doors of PyFlink's FileSource; a format of one's own extends either.
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
    """Reads files of one kind. Pickled to the workers: holds settings, nothing open."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """True if byte ranges of this file can be read apart from each other."""

    @abstractmethod
    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """Chunks of the records that belong to `split`, from its position on.

        A chunk's position is the split at a place from which `read` would bring what follows. `skipped` is told how
        many records were passed over because they were damaged. Raises SourceError, naming the file, for what can't be
        read.
        """

    def check(self, file: FoundFile) -> None:
        """Raise SourceError if this is no file of the format, as far as its first bytes tell. Called at submission."""

    def get_produced_type(self) -> Any:
        """TypeInformation of the records where it is known, else None."""
        return None


class BulkFormat(FileFormat):
    """Formats that store records in batches, as Parquet does."""

    @staticmethod
    def parquet_format(
        columns: Sequence[str] | None = None, *, as_row: bool = False, batch_records: int | None = None
    ) -> BulkFormat:
        """Parquet; see `ParquetFormat`."""
        from penstock.connectors.files.formats.parquet_format import ParquetFormat

        return ParquetFormat(columns, as_row=as_row, batch_records=batch_records)


class StreamFormat(FileFormat):
    """Formats that store one record after another, as lines do."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Lines of text as str, without their line ends; see `TextLineFormat`."""
        from penstock.connectors.files.formats.text_format import TextLineFormat

        return TextLineFormat(charset_name)

    @staticmethod
    def json_lines_format(value_type: Any = Any, *, on_error: OnError = "fail") -> StreamFormat:
        """One JSON value a line; see `JsonLinesFormat`."""
        from penstock.connectors.files.formats.json_format import JsonLinesFormat

        return JsonLinesFormat(value_type, on_error=on_error)

    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        **options: Any,
    ) -> StreamFormat:
        """Comma-separated values; see `CsvFormat` for all options."""
        from penstock.connectors.files.formats.csv_format import CsvFormat

        return CsvFormat(columns, types, **options)


def python_charset(charset: str) -> str:
    """Python's name of a charset. Raises ValueError if there is none."""
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ValueError(f"unknown charset {charset!r}") from None


def on_error_policy(on_error: str) -> OnError:
    """The argument, checked. Raises ValueError."""
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail' or 'skip', got {on_error!r}")
    return on_error  # type: ignore[return-value]  # checked above
