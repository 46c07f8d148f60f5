"""FileSink and its builders."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
from pyarrow import fs

from penstock.api.sink import Sink, SinkContext
from penstock.common.doors.extras import S3
from penstock.common.errors import ProgramError
from penstock.common.files.file_systems import absolute
from penstock.common.files.s3 import bucket_and_key, check_answers
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.serialization import BulkWriterFactory, Encoder
from penstock.common.text.secrets import without_passwords
from penstock.common.typeinfo import TypeInformation
from penstock.connectors.files.formats.compression import codec_named
from penstock.connectors.files.sink.bucket import BucketAssigner
from penstock.connectors.files.sink.bulk_writer import BulkFileWriter
from penstock.connectors.files.sink.committer import FileCommitter
from penstock.connectors.files.sink.compaction import ConcatFileCompactor, FileCompactor, FileCompactStrategy
from penstock.connectors.files.sink.part import OutputFileConfig
from penstock.connectors.files.sink.rolling import OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.files.sink.row_writer import RowFileWriter
from penstock.connectors.files.sink.uploads import client_of
from penstock.connectors.files.sink.writer import FileSinkSettings, FileWriter
from penstock.connectors.files.storage import resolve

_log = logging.getLogger(__name__)

MakeWriter = Callable[[SinkContext, FileSinkSettings, Sequence[Any]], FileWriter[Any]]


class FileSink(Sink[Any]):
    """Writes records to part files below a base path; each file becomes visible as a whole, when it is committed.

    Create it with a builder: `FileSink.for_row_format("/out", Encoder.simple_string_encoder()).build()`. Files in
    progress have hidden names (`.part-….inprogress`), or none in S3: readers must ignore names that begin with a dot.
    Files that are closed are committed with the next checkpoint, at the end of the data, and in batched mode when the
    job has succeeded; others go on over the checkpoint. Source: Flink docs, "FileSystem", File Sink.
    """

    def __init__(self, settings: FileSinkSettings, make_writer: MakeWriter) -> None:
        self._settings = settings
        self._make_writer = make_writer
        self._encoder: Encoder | None = None

    def describe(self) -> str:
        return self._settings.base_path

    def for_type(self, type_info: TypeInformation) -> FileSink:
        """With an encoder for values of this type."""
        if self._encoder is None:
            return self
        typed = copy(self)
        typed._make_writer = partial(RowFileWriter, encode=self._encoder.for_type(type_info).encode)
        return typed

    @staticmethod
    def for_row_format(
        base_path: str | os.PathLike[str], encoder: Encoder | Callable[[Any], bytes]
    ) -> RowFormatBuilder:
        """Return a builder of a sink that appends records one by one.

        `encoder`: an Encoder, or a function from a record to bytes that include the line end.
        """
        return RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str | os.PathLike[str], writer_factory: BulkWriterFactory) -> BulkFormatBuilder:
        """Return a builder of a sink that writes records in batches, such as Parquet.

        `writer_factory`: for instance `ParquetBulkWriters.for_row_type(...)` of `penstock.datastream.formats.parquet`.
        """
        return BulkFormatBuilder(base_path, writer_factory)

    def create_writer(self, context: SinkContext) -> FileWriter[Any]:
        """Create the writer of one subtask."""
        return self._make_writer(context, self._settings, ())

    def restore_writer(self, context: SinkContext, state: list[Any]) -> FileWriter[Any]:
        """Create a writer that goes on with the files that a checkpoint holds."""
        return self._make_writer(context, self._settings, state)

    def create_committer(self) -> FileCommitter:
        """Create a committer that makes files visible."""
        return FileCommitter(self._settings.base_path)

    def validate(self) -> None:
        """Raise ProgramError if the base path can't be a directory, or its file system is unknown."""
        base_path = self._settings.base_path
        try:
            check_answers(base_path)
            file_system, inner = resolve(base_path)
            found = file_system.get_file_info(inner).type
        except OSError as error:
            raise ProgramError(f"FileSink: {base_path} can't be reached: {error}") from error
        if found is fs.FileType.File:
            raise ProgramError(f"FileSink: {base_path} is a file; expected a directory or a path to create one")
        if isinstance(file_system, fs.LocalFileSystem):
            _check_directory(Path(inner))
        elif file_system.type_name == "s3":
            _check_bucket(file_system, base_path, inner)


def _check_directory(path: Path) -> None:
    """Raise ProgramError if nothing can be created there. Creates nothing: that is for who writes."""
    existing = next(part for part in (path, *path.parents) if os.access(part, os.F_OK))
    if not existing.is_dir():
        raise ProgramError(f"FileSink: {path} can't be created: {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ProgramError(f"FileSink: {path} can't be written to: this user may not create files in {existing}")


def _check_bucket(file_system: fs.FileSystem, base_path: str, inner: str) -> None:
    """Raise ProgramError if the bucket does not exist; say what is not done without boto3."""
    bucket = bucket_and_key(inner)[0]
    # Who may write objects need not be allowed to ask for the bucket.
    with contextlib.suppress(OSError):
        if file_system.get_file_info(bucket).type is fs.FileType.NotFound:
            raise ProgramError(f"FileSink: {base_path} can't be written to: there is no bucket {bucket}")
    if client_of(base_path) is None:
        _log.warning(
            "FileSink: without boto3 files in %s are closed with each checkpoint, and what a job with boto3 has begun "
            "there can't be gone on with: pip install '%s'",
            without_passwords(base_path),
            S3,
        )


class _Builder:
    """Settings common to all formats; each method returns the builder. Default: hourly buckets."""

    def __init__(self, base_path: str | os.PathLike[str], make_writer: MakeWriter, policy: RollingPolicy) -> None:
        assigner = BucketAssigner.date_time_bucket_assigner()
        self._settings = FileSinkSettings(absolute(base_path), assigner, policy, OutputFileConfig())
        self._make_writer = make_writer

    def with_bucket_assigner(self, bucket_assigner: Any) -> Self:
        """Set the bucket assigner: a BucketAssigner, or any object with `get_bucket_id(element, context)`."""
        if not callable(getattr(bucket_assigner, "get_bucket_id", None)):
            raise TypeError(f"a bucket assigner needs a method get_bucket_id, got {bucket_assigner!r}")
        return self._with(assigner=bucket_assigner)

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Set the policy that decides when a file is closed and the next one opened."""
        if not isinstance(rolling_policy, RollingPolicy):
            raise TypeError(f"expected a RollingPolicy, got {rolling_policy!r}")
        return self._with(policy=rolling_policy)

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepted for compatibility with PyFlink and ignored: files are closed at their deadline, without polling."""
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Set prefix and suffix of file names."""
        return self._with(names=output_file_config)

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
        """Make larger files of small ones before they become visible; each subtask compacts its own.

        So records become visible later, by some checkpoints. Source: Flink docs, "FileSystem", Compaction.
        """
        if not isinstance(strategy, FileCompactStrategy):
            raise TypeError(f"expected a FileCompactStrategy, got {strategy!r}")
        if not isinstance(compactor, FileCompactor):
            raise TypeError(f"expected a FileCompactor, got {compactor!r}")
        return self._with(compaction=(strategy, compactor))

    def disable_compact(self) -> Self:
        """Don't compact. What a job with compaction has left to compact is committed as it is."""
        return self._with(compaction=None)

    def build(self) -> FileSink:
        """Create the sink."""
        return FileSink(self._settings, self._make_writer)

    def _with(self, **changes: Any) -> Self:
        self._settings = msgspec.structs.replace(self._settings, **changes)
        return self


class RowFormatBuilder(_Builder):
    """Builds a FileSink of appended records. Defaults: hourly buckets, default rolling policy."""

    def __init__(self, base_path: str | os.PathLike[str], encoder: Encoder | Callable[[Any], bytes]) -> None:
        encode = encoder.encode if isinstance(encoder, Encoder) else encoder
        if not callable(encode):
            raise TypeError(f"expected an Encoder or a function from a record to bytes, got {encoder!r}")
        check_result_kind(encode, "the encoder")
        super().__init__(base_path, partial(RowFileWriter, encode=encode), RollingPolicy.default_rolling_policy())
        self._encoder = encoder if isinstance(encoder, Encoder) else None

    def with_compression(self, compression: str) -> RowFormatBuilder:
        """Compress the files: by `gzip`, `zstd`, `snappy` (Hadoop's blocks), `lz4`, `bzip2` or `xz`. Not in PyFlink.

        Names end with the codec's suffix, by which `FileSource` and others know it. A file goes on over checkpoints as
        others do: a checkpoint ends a member (of gzip; a frame of others), and members behind each other are one file.
        Raises ValueError for another name. Source: Flink's `CompressWriterFactory`, whose files roll at checkpoints.
        """
        codec_named(compression)
        return self._with(compression=compression)

    def build(self) -> FileSink:
        """Create the sink. Raises ValueError if compressed files are to be compacted with bytes between them."""
        settings = self._settings
        if settings.compression is not None:
            compactor = settings.compaction[1] if settings.compaction is not None else None
            if isinstance(compactor, ConcatFileCompactor) and compactor.delimiter:
                raise ValueError("compressed files are compacted without a delimiter: it would not be compressed")
            prefix, suffix = settings.names.get_part_prefix(), settings.names.get_part_suffix()
            own = codec_named(settings.compression).suffix
            self._with(names=OutputFileConfig(prefix, suffix if suffix.endswith(own) else suffix + own))
        sink = super().build()
        sink._encoder = self._encoder
        return sink


class BulkFormatBuilder(_Builder):
    """Builds a FileSink of records written in batches. Defaults: hourly buckets, files closed at each checkpoint."""

    def __init__(self, base_path: str | os.PathLike[str], writer_factory: BulkWriterFactory) -> None:
        if not isinstance(writer_factory, BulkWriterFactory):
            raise TypeError(
                f"expected a BulkWriterFactory such as ParquetBulkWriters.for_row_type(...), got {writer_factory!r}"
            )
        policy = RollingPolicy.on_checkpoint_rolling_policy()
        super().__init__(base_path, partial(BulkFileWriter, factory=writer_factory), policy)

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Set an OnCheckpointRollingPolicy or a subclass: records buffered in memory have neither size nor age.

        Raises ValueError for any other policy. `size_limit` counts bytes already written, and closes the file after the
        chunk that reached it.
        """
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            raise ValueError(
                f"bulk formats roll at checkpoints: expected an OnCheckpointRollingPolicy, got {rolling_policy!r}"
            )
        return super().with_rolling_policy(rolling_policy)
