"""FileSink and its builders."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from pyarrow import fs

from penstock.api.sink import Sink, SinkContext
from penstock.common.doors.extras import S3
from penstock.common.errors import ProgramError
from penstock.common.files.file_systems import absolute
from penstock.common.files.s3 import bucket_and_key, check_answers
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.serialization import BulkWriterFactory, Encoder
from penstock.common.text.secrets import without_secrets
from penstock.common.typeinfo import TypeInformation
from penstock.connectors.base.options import checked_instance, is_uncalled
from penstock.connectors.files.formats.compression import codec_by_name
from penstock.connectors.files.sink.bucket import (
    BasePathBucketAssigner,
    BucketAssigner,
    DateTimeBucketAssigner,
    FoldersOfValues,
)
from penstock.connectors.files.sink.bulk_writer import BulkFileWriter
from penstock.connectors.files.sink.committer import FileCommitter
from penstock.connectors.files.sink.compaction import ConcatFileCompactor, FileCompactor, FileCompactStrategy
from penstock.connectors.files.sink.part import OutputFileConfig
from penstock.connectors.files.sink.rolling import OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.files.sink.row_writer import RowFileWriter
from penstock.connectors.files.sink.uploads import client_of
from penstock.connectors.files.sink.writer import FileSinkSettings, FileWriter
from penstock.connectors.files.storage import resolve

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

_log = logging.getLogger(__name__)

MakeWriter = Callable[[SinkContext, FileSinkSettings, Sequence[Any]], FileWriter[Any]]


class FileSink(Sink[Any]):
    """Write records to part files below a base path; each file becomes visible as a whole, when it is committed.

    Create it with a builder: `FileSink.for_row_format("/out", Encoder.simple_string_encoder()).build()`. Files in
    progress have hidden names (`.part-….inprogress`), or no names in S3: readers must ignore names that begin with a
    dot. Closed files are committed with the next checkpoint, at the end of the data, and in batched mode when the job
    has succeeded; others stay open across checkpoints. Source: Flink docs, "FileSystem", File Sink.
    """

    def __init__(self, settings: FileSinkSettings, make_writer: MakeWriter) -> None:
        self._settings = settings
        self._make_writer = make_writer
        self._encoder: Encoder | None = None
        self._factory: BulkWriterFactory | None = None

    def describe(self) -> str:
        return self._settings.base_path

    def event_time_warning(self) -> str:
        if type(self._settings.assigner) is not DateTimeBucketAssigner:
            return ""
        return (
            "folders are named by the clock, not by event time: a replay writes to other folders. For event time, use "
            "with_bucket_assigner(BucketAssigner.event_time_bucket_assigner())"
        )

    def for_type(self, type_info: TypeInformation) -> FileSink:
        """Return this sink with an encoder for values of this type."""
        if self._encoder is None:
            return self
        typed = copy(self)
        typed._encoder = self._encoder.for_type(type_info)
        typed._make_writer = partial(
            RowFileWriter, encode=typed._encoder.encode, encode_columns=typed._encoder.encode_columns
        )
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

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the format takes these columns, and buckets depend on the clock, or on values of columns."""
        format = self._encoder or self._factory
        if format is None or not format.takes_columns(columns):
            return False
        assigner = self._settings.assigner
        if isinstance(assigner, FoldersOfValues):
            # Programs on rows import nothing of columns.
            from penstock.connectors.files.sink.divided import can_divide

            return can_divide(columns, assigner.columns)
        return type(assigner) in (BasePathBucketAssigner, DateTimeBucketAssigner)

    def create_writer(self, context: SinkContext) -> FileWriter[Any]:
        """Create the writer of one subtask."""
        return self._make_writer(context, self._settings, ())

    def restore_writer(self, context: SinkContext, state: list[Any]) -> FileWriter[Any]:
        """Create a writer that continues the files of a checkpoint."""
        return self._make_writer(context, self._settings, state)

    def create_committer(self) -> FileCommitter:
        """Create a committer that makes files visible."""
        return FileCommitter(self._settings.base_path)

    def validate(self) -> None:
        """Raise ProgramError if the base path cannot be a directory, or its file system is unknown."""
        base_path = self._settings.base_path
        try:
            check_answers(base_path)
            file_system, inner = resolve(base_path)
            found = file_system.get_file_info(inner).type
        except OSError as error:
            raise ProgramError(f"FileSink: cannot reach {base_path}: {error}") from error
        if found is fs.FileType.File:
            raise ProgramError(f"FileSink: expected a directory or a path to create one, got the file {base_path}")
        if isinstance(file_system, fs.LocalFileSystem):
            _check_directory(Path(inner))
        elif file_system.type_name == "s3":
            _check_bucket(file_system, base_path, inner)


def _check_directory(path: Path) -> None:
    """Raise ProgramError if files cannot be created in the directory. Create nothing: writers do that."""
    existing = next(part for part in (path, *path.parents) if os.access(part, os.F_OK))
    if not existing.is_dir():
        raise ProgramError(f"FileSink: cannot create {path}: {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ProgramError(f"FileSink: cannot write to {path}: this user may not create files in {existing}")


def _check_bucket(file_system: fs.FileSystem, base_path: str, inner: str) -> None:
    """Raise ProgramError if the bucket does not exist; warn about the limits without boto3."""
    bucket = bucket_and_key(inner)[0]
    # A user who may write objects may lack the right to query the bucket.
    with contextlib.suppress(OSError):
        if file_system.get_file_info(bucket).type is fs.FileType.NotFound:
            raise ProgramError(f"FileSink: cannot write to {base_path}: the bucket {bucket} does not exist")
    if client_of(base_path) is None:
        _log.warning(
            "FileSink: without boto3 each checkpoint closes the files in %s, and files that a job with boto3 has begun "
            "cannot be continued: pip install '%s'",
            without_secrets(base_path),
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
        """Set the policy that decides when to close a file and open the next one."""
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
        """Compact small files to larger ones before they become visible; each subtask compacts its own.

        Records become visible some checkpoints later. Source: Flink docs, "FileSystem", Compaction.
        """
        if not isinstance(strategy, FileCompactStrategy):
            raise TypeError(f"expected a FileCompactStrategy, got {strategy!r}")
        if not isinstance(compactor, FileCompactor):
            raise TypeError(f"expected a FileCompactor, got {compactor!r}")
        return self._with(compaction=(strategy, compactor))

    def disable_compact(self) -> Self:
        """Do not compact. Files of a job with compaction that are not compacted yet are committed unchanged."""
        return self._with(compaction=None)

    def build(self) -> FileSink:
        """Create the sink."""
        return FileSink(self._settings, self._make_writer)

    def _with(self, **changes: Any) -> Self:
        self._settings = msgspec.structs.replace(self._settings, **changes)
        return self


class RowFormatBuilder(_Builder):
    """Build a FileSink of appended records. Defaults: hourly buckets, default rolling policy."""

    def __init__(self, base_path: str | os.PathLike[str], encoder: Encoder | Callable[[Any], bytes]) -> None:
        if is_uncalled(Encoder, encoder):
            checked_instance(Encoder, "Encoder.json_encoder()", encoder)
        encode = encoder.encode if isinstance(encoder, Encoder) else encoder
        if not callable(encode):
            raise TypeError(f"expected an Encoder or a function from a record to bytes, got {encoder!r}")
        check_result_kind(encode, "the encoder")
        self._encoder = encoder if isinstance(encoder, Encoder) else None
        encode_columns = None if self._encoder is None else self._encoder.encode_columns
        make_writer = partial(RowFileWriter, encode=encode, encode_columns=encode_columns)
        super().__init__(base_path, make_writer, RollingPolicy.default_rolling_policy())

    def with_compression(self, compression: str) -> RowFormatBuilder:
        """Compress the files with `gzip`, `zstd`, `snappy` (Hadoop's blocks), `lz4`, `bzip2` or `xz`. Not in PyFlink.

        Names end with the codec's suffix, by which readers such as `FileSource` recognize it. Like other files, a
        compressed file stays open across checkpoints: a checkpoint ends a member (of gzip; a frame of others), and
        consecutive members are a valid file. Raise ValueError for another name. Source: Flink's
        `CompressWriterFactory`, whose files roll at checkpoints.
        """
        codec_by_name(compression)
        return self._with(compression=compression)

    def build(self) -> FileSink:
        """Create the sink. Raise ValueError for compressed files with a delimiter in their compaction."""
        settings = self._settings
        if settings.compression is not None:
            compactor = settings.compaction[1] if settings.compaction is not None else None
            if isinstance(compactor, ConcatFileCompactor) and compactor.delimiter:
                raise ValueError(
                    "a compactor of compressed files must not have a delimiter, which would not be compressed"
                )
            prefix, suffix = settings.names.get_part_prefix(), settings.names.get_part_suffix()
            suffix_of_codec = codec_by_name(settings.compression).suffix
            self._with(
                names=OutputFileConfig(prefix, suffix if suffix.endswith(suffix_of_codec) else suffix + suffix_of_codec)
            )
        sink = super().build()
        sink._encoder = self._encoder
        return sink


class BulkFormatBuilder(_Builder):
    """Build a FileSink of records written in batches. Defaults: hourly buckets, files closed at each checkpoint."""

    def __init__(self, base_path: str | os.PathLike[str], writer_factory: BulkWriterFactory) -> None:
        if not isinstance(writer_factory, BulkWriterFactory):
            raise TypeError(
                f"expected a BulkWriterFactory such as ParquetBulkWriters.for_row_type(...), got {writer_factory!r}"
            )
        policy = RollingPolicy.on_checkpoint_rolling_policy()
        super().__init__(base_path, partial(BulkFileWriter, factory=writer_factory), policy)
        self._factory = writer_factory

    def build(self) -> FileSink:
        """Create the sink."""
        sink = super().build()
        sink._factory = self._factory
        return sink

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Set an OnCheckpointRollingPolicy or a subclass: records buffered in memory have neither size nor age.

        Raise ValueError for any other policy. `size_limit` counts bytes already written, and closes the file after the
        chunk that reached it.
        """
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            raise ValueError(f"a bulk format needs an OnCheckpointRollingPolicy, got {rolling_policy!r}")
        return super().with_rolling_policy(rolling_policy)
