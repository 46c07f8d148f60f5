"""FileSource and its builder."""

from __future__ import annotations

import enum
import os
import re
from typing import TYPE_CHECKING, Any, Generic

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.errors import SourceError
from penstock.common.files.file_systems import absolute
from penstock.common.files.s3 import check_answers
from penstock.common.time import Duration, to_milliseconds
from penstock.common.types.type_variables import Other, Record
from penstock.connectors.files.formats.format import BatchFormat, FileFormat, RecordFormat
from penstock.connectors.files.source.enumerator import FileEnumerator, FileEnumeratorState, splits_of, wanted
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.source.reader import FileSourceReader
from penstock.connectors.files.split import DEFAULT_SPLIT_BYTES, FileSplit

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


class FileEnumeratorProvider(enum.Enum):
    """Whether files may be divided into several splits."""

    SPLITTABLE = "splittable"
    NON_SPLITTABLE = "non-splittable"

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Divide large files if their format allows it. The default."""
        return FileEnumeratorProvider.SPLITTABLE

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Make each file one split, which preserves the order within a file."""
        return FileEnumeratorProvider.NON_SPLITTABLE


class FileSource(Source[Record]):
    """Read files: a fixed set, or new files of monitored directories.

    Create it with a builder: `FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data").build()`.
    Paths are files, directories (searched recursively) or patterns (`*`, `?`, `[…]`, `**`), local or URLs. Files and
    directories whose names start with `.` or `_`, or end with `.inprogress`, `.tmp`, `.filepart` or `._COPYING_`, are
    skipped unless a path names them directly; folders of partitions (`_day=1`) are not. Symbolic links are followed,
    but no directory is read twice. Records of one split stay in order. Source: Flink docs, "FileSystem".
    """

    def __init__(
        self,
        file_format: FileFormat[Record],
        paths: tuple[str, ...],
        split_bytes: int | None = DEFAULT_SPLIT_BYTES,
        discovery_interval_ms: int | None = None,
        *,
        path_pattern: re.Pattern[str] | None = None,
    ) -> None:
        """`path_pattern`: only files whose whole path it matches are read; None: all."""
        self._path_pattern = path_pattern
        self._format = file_format
        self._paths = paths
        self._split_bytes = split_bytes
        self._discovery_interval_ms = discovery_interval_ms

    def describe(self) -> str:
        return ", ".join(self._paths)

    @staticmethod
    def for_record_stream_format(
        stream_format: RecordFormat[Other], *paths: str | os.PathLike[str]
    ) -> FileSourceBuilder[Other]:
        """Return a builder for files that store one record after another: text, CSV, JSON lines."""
        if not isinstance(stream_format, RecordFormat):
            raise TypeError(f"expected a StreamFormat such as StreamFormat.text_line_format(), got {stream_format!r}")
        return FileSourceBuilder(stream_format, *paths)

    @staticmethod
    def for_bulk_file_format(
        bulk_format: BatchFormat[Other], *paths: str | os.PathLike[str]
    ) -> FileSourceBuilder[Other]:
        """Return a builder for files that store records in batches: Parquet."""
        if not isinstance(bulk_format, BatchFormat):
            raise TypeError(f"expected a BulkFormat such as BulkFormat.parquet_format(), got {bulk_format!r}")
        return FileSourceBuilder(bulk_format, *paths)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED, unless the source monitors for new files."""
        return Boundedness.BOUNDED if self._discovery_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        """Raise SourceError if a path is missing or the first file does not have the format."""
        for path in self._paths:
            try:
                check_answers(path)
            except OSError as error:
                raise SourceError(f"cannot reach {path}: {error}") from error
        is_static = self._discovery_interval_ms is None
        files = list_files(self._paths, must_exist=is_static, skipped=None if is_static else set())
        for file in files[:1]:
            self._format.check(file)

    def create_enumerator(self, context: EnumeratorContext) -> FileEnumerator:
        """Create an enumerator, which lists the files when it starts."""
        return self._enumerator(context, None)

    def restore_enumerator(self, context: EnumeratorContext, state: FileEnumeratorState) -> FileEnumerator:
        """Restore an enumerator with the files discovered before."""
        return self._enumerator(context, state)

    def create_reader(self, context: ReaderContext) -> FileSourceReader[Any]:
        """Create the reader of one subtask."""
        return FileSourceReader(context, self._format)

    def get_produced_type(self) -> Any:
        """Return the type of the format's records."""
        return self._format.get_produced_type()

    def on_columns(self, columns: RecordColumns) -> FileSource[Any] | None:
        """Return a source of batches, if the format reads them."""
        format_of_columns = self._format.on_columns(columns)
        if format_of_columns is None:
            return None
        return FileSource(
            format_of_columns,
            self._paths,
            self._split_bytes,
            self._discovery_interval_ms,
            path_pattern=self._path_pattern,
        )

    def _splits(self) -> list[FileSplit]:
        """Return the splits of the files that there are now."""
        files = wanted(list_files(self._paths), self._path_pattern)
        return [split for file in files for split in splits_of(file, self._format, self._split_bytes)]

    def _enumerator(self, context: EnumeratorContext, state: FileEnumeratorState | None) -> FileEnumerator:
        return FileEnumerator(
            context=context,
            paths=self._paths,
            file_format=self._format,
            split_bytes=self._split_bytes,
            discovery_interval_ms=self._discovery_interval_ms,
            path_pattern=self._path_pattern,
            state=state,
        )


class FileSourceBuilder(Generic[Record]):
    """Settings of a FileSource. Each method returns the builder."""

    def __init__(self, file_format: FileFormat[Record], *paths: str | os.PathLike[str]) -> None:
        if not paths:
            raise ValueError("a FileSource needs at least one path")
        self._format = file_format
        self._paths = tuple(map(absolute, paths))
        self._split_bytes: int = DEFAULT_SPLIT_BYTES
        self._splittable = True
        self._discovery_interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: Duration | int) -> FileSourceBuilder[Record]:
        """Check for new files every `discovery_interval` (a Duration, or milliseconds); the source is unbounded.

        Files are identified by path: one that changes after its discovery is not read again, so move complete files
        into a monitored directory. The state contains the names of all files ever discovered.
        """
        interval_ms = to_milliseconds(discovery_interval)
        if interval_ms <= 0:
            raise ValueError(f"the discovery interval must be above 0, got {interval_ms} ms")
        self._discovery_interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder[Record]:
        """Read the files that exist when the job starts, then end. The default."""
        self._discovery_interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder[Record]:
        """Set whether files may be divided."""
        self._splittable = file_enumerator is FileEnumeratorProvider.SPLITTABLE
        return self

    def set_split_size(self, split_bytes: int) -> FileSourceBuilder[Record]:
        """Set the approximate size of a split in bytes (default: 64 MiB). Raise ValueError if below 1."""
        if split_bytes < 1:
            raise ValueError(f"the split size must be at least 1 byte, got {split_bytes}")
        self._split_bytes = split_bytes
        return self

    def build(self) -> FileSource[Record]:
        """Create the source."""
        split_bytes = self._split_bytes if self._splittable else None
        return FileSource(self._format, self._paths, split_bytes, self._discovery_interval_ms)
