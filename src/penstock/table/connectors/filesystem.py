"""`'connector' = 'filesystem'`: files of a folder, in any format. Source: Flink docs, "FileSystem SQL Connector"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, DurationType, IntegerType, MemorySizeType, TextType
from penstock.common.files.file_systems import absolute
from penstock.connectors.files.formats.avro_format import AvroFormat as AvroFiles
from penstock.connectors.files.formats.avro_format import AvroWriterFactory
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat, ParquetWriterFactory
from penstock.connectors.files.sink.bucket import BasePathBucketAssigner
from penstock.connectors.files.sink.compaction import ConcatFileCompactor, FileCompactStrategy
from penstock.connectors.files.sink.rolling import DefaultRollingPolicy, PartInfo, RollingPolicy
from penstock.connectors.files.sink.sink import BulkFormatBuilder, FileSink, RowFormatBuilder
from penstock.connectors.files.source.source import FileSource
from penstock.connectors.files.split import DEFAULT_SPLIT_BYTES
from penstock.connectors.formats.avro_columns import columns_of
from penstock.table.connectors.file_reading import METADATA_OF_FILES, MessageLines, PartitionedFiles
from penstock.table.connectors.file_writing import LinesOfMessages, PartitionFolders, WritersOfColumns
from penstock.table.connectors.formats.avro_format import CODEC, AvroFormat
from penstock.table.connectors.formats.chosen_format import ChosenFormat
from penstock.table.connectors.formats.csv_format import CsvFormat
from penstock.table.connectors.formats.message_format import MessageFormat, format_names
from penstock.table.connectors.partition_commit import (
    PARTITION_OPTIONS,
    POLICY,
    CommittedPartitions,
    commit_of,
)
from penstock.table.connectors.table_connector import (
    METADATA,
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    physical_columns,
)
from penstock.table.connectors.table_options import TableOptions
from penstock.table.functions import java_regex
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.errors import SqlError
from penstock.table.planner.nodes.tables import ContextResolvedTable

PATH = option("path", TextType(), None)
FORMAT = option("format", TextType(), None)
MONITOR = option("source.monitor-interval", DurationType(), None)
PATH_PATTERN = option("source.path.regex-pattern", TextType(), None)
STATISTICS = option("source.report-statistics", TextType(), "ALL")
"""Accepted without an effect: plans of streams do not use statistics."""
NULL_PARTITION = option("partition.default-name", TextType(), "__DEFAULT_PARTITION__")
PART_BYTES = option("sink.rolling-policy.file-size", MemorySizeType(), 128 * 1024 * 1024)
ROLLOVER = option("sink.rolling-policy.rollover-interval", DurationType(1), 30 * 60_000)
CHECK = option("sink.rolling-policy.check-interval", DurationType(1), 60_000)
INACTIVITY = option("sink.rolling-policy.inactivity-interval", DurationType(1), 30 * 60_000)
COMPACTS = option("auto-compaction", BooleanType(), False)
COMPACTED_BYTES = option("compaction.file-size", MemorySizeType(), None)
SHUFFLES = option("sink.shuffle-by-partition.enable", BooleanType(), False)
PARALLELISM = option("sink.parallelism", IntegerType(least=1), None)
OPTIONS: tuple[ConfigOption[Any], ...] = (
    PATH,
    FORMAT,
    MONITOR,
    PATH_PATTERN,
    STATISTICS,
    NULL_PARTITION,
    PART_BYTES,
    ROLLOVER,
    CHECK,
    INACTIVITY,
    COMPACTS,
    COMPACTED_BYTES,
    SHUFFLES,
    PARALLELISM,
    *PARTITION_OPTIONS,
)
_PARQUET = "parquet"
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "LZ4_RAW": "lz4", "BROTLI": "brotli"}


@dataclass(frozen=True)
class _Table:
    """A table's options and columns. `messages`: its format; None: Parquet."""

    options: TableOptions
    path: str
    messages: MessageFormat | None
    columns: pyarrow.Schema
    partitions: tuple[str, ...]

    @property
    def in_files(self) -> pyarrow.Schema:
        """The columns that files have."""
        return pyarrow.schema([field for field in self.columns if field.name not in self.partitions])


class FilesystemConnector(TableConnector):
    """Reads and writes files, whose folders may be partitions of the table."""

    sink_abilities = frozenset({"Partitioning"})

    def scan(self, request: ScanRequest) -> TableScan:
        table = _table(request.table)
        for key in request.metadata:
            if key not in METADATA_OF_FILES:
                raise table.options.error(f"files have no metadata {key!r}. There is {', '.join(METADATA_OF_FILES)}")
        read = [name for name in request.whole.names if name not in table.partitions]
        try:
            files = _reader(table, read or table.in_files.names[:1])
        except ValueError as error:
            raise table.options.error(str(error)) from None
        metadata = {METADATA + key: key for key in request.metadata}
        fields = [*request.whole, *(pyarrow.field(METADATA + key, kind) for key, kind in request.metadata.items())]
        schema = pyarrow.schema(fields)
        format_of_files = PartitionedFiles(
            files,
            schema,
            partitions=table.partitions,
            metadata=metadata,
            null=table.options.get(NULL_PARTITION),
        )
        monitor_ms = table.options.get(MONITOR)
        try:
            text = table.options.get(PATH_PATTERN)
            pattern = None if text is None else java_regex.compiled(text)
        except re.error as error:
            raise table.options.error(f"{PATH_PATTERN.key} is not a pattern: {error}") from None
        source = FileSource(
            format_of_files, (absolute(table.path),), DEFAULT_SPLIT_BYTES, monitor_ms, path_pattern=pattern
        )
        return TableScan(source, TableColumns(schema))

    def sink(self, request: SinkRequest) -> TableSink:
        table = _table(request.table)
        request.check_inserts()
        folders = PartitionFolders(table.partitions, table.options.get(NULL_PARTITION))
        commit = commit_of(table.options, table.partitions)
        try:
            sink = _sink(table, folders)
        except ValueError as error:
            raise table.options.error(str(error)) from None
        committed = sink if commit is None else CommittedPartitions(sink, absolute(table.path), folders, commit)
        return TableSink(committed, parallelism=table.options.get(PARALLELISM))


def _table(given: ContextResolvedTable) -> _Table:
    """Return a table. Raises SqlError for options that are wrong."""
    resolved = given.resolved
    name = resolved.options.get(FORMAT.key)
    is_parquet = name == _PARQUET
    chosen = ChosenFormat({} if is_parquet or name is None else {FORMAT.key: name}, FORMAT.key)
    if not is_parquet:
        try:
            chosen.check(given.identifier)
        except SqlError as error:
            names = f"Formats: {', '.join(format_names())}"
            raise SqlError(str(error).replace(names, f"{names}, {_PARQUET}")) from None
    options = TableOptions(
        given.identifier, resolved.options, [*OPTIONS, *chosen.options], prefixes=("parquet.",) if is_parquet else ()
    )
    path = options.required(PATH)
    options.required(FORMAT)
    if options.get(SHUFFLES):
        raise options.error("sink.shuffle-by-partition.enable is not supported: each subtask writes its own files")
    columns = pyarrow.schema(physical_columns(given))
    if not set(columns.names) - set(resolved.partition_keys):
        raise options.error("all of its columns are partitions: files need at least one column")
    return _Table(
        options,
        path,
        messages=None if is_parquet else chosen.make(options),
        columns=columns,
        partitions=resolved.partition_keys,
    )


def _reader(table: _Table, names: Sequence[str]) -> FileFormat[Any]:
    """Return the reader of some columns of the files. Raises ValueError for types that a format does not have."""
    columns = TableColumns(pyarrow.schema([table.columns.field(name) for name in names]))
    messages = table.messages
    found: FileFormat[Any] | None
    if messages is None:
        found = ParquetFormat(list(columns.names)).on_columns(columns)
        if found is None:
            raise ValueError("its columns have types that Parquet files do not have")
        return found
    if isinstance(messages, AvroFormat):
        schema = messages.schema(table.in_files)
        # Times without a zone are instants in these files: `PartitionedFiles` converts them.
        in_avro = columns_of(schema)
        return AvroFiles(schema).on_columns(RecordColumns(pyarrow.schema([in_avro.field(name) for name in names])))
    quote = None
    in_lines = table.in_files if messages.reads_whole else columns.schema
    if isinstance(messages, CsvFormat):
        quote = messages.form.quote
    messages.decoder(in_lines)
    return MessageLines(messages, in_lines, quote)


def _sink(table: _Table, folders: PartitionFolders) -> FileSink:
    """Return the sink of a table. Raises ValueError for types that a format does not have."""
    options, messages, in_files = table.options, table.messages, table.in_files
    names = tuple(in_files.names)
    builder: RowFormatBuilder | BulkFormatBuilder
    if messages is None:
        codec = options.behind("parquet.").get("compression", "SNAPPY").upper()
        if codec not in {*_CODECS, "UNCOMPRESSED"}:
            raise ValueError(f"parquet.compression must be one of {', '.join(_CODECS)}, UNCOMPRESSED, got {codec}")
        bulk: Any = ParquetWriterFactory(in_files, compression=_CODECS.get(codec))
        builder = FileSink.for_bulk_format(table.path, WritersOfColumns(bulk, names, in_files))
    elif isinstance(messages, AvroFormat):
        schema = messages.schema(in_files)
        bulk = AvroWriterFactory(schema, codec=messages.get(CODEC))
        builder = FileSink.for_bulk_format(table.path, WritersOfColumns(bulk, names, columns_of(schema)))
    else:
        builder = FileSink.for_row_format(table.path, LinesOfMessages(messages.encoder(in_files), names))
        builder = builder.with_rolling_policy(_rolling(options))
    builder.with_bucket_assigner(folders if table.partitions else BasePathBucketAssigner())
    if options.get(COMPACTS):
        if messages is None or isinstance(messages, AvroFormat):
            raise ValueError("auto-compaction joins files of lines: it is not supported for this format")
        if options.get(POLICY) is not None:
            raise ValueError(f"auto-compaction and {POLICY.key} exclude each other")
        size = options.get(COMPACTED_BYTES) or options.get(PART_BYTES)
        strategy = FileCompactStrategy.builder().set_size_threshold(size).build()
        builder.enable_compact(strategy, ConcatFileCompactor(None))
    return builder.build()


class _ClosedAtCheckpoints(DefaultRollingPolicy):
    """Closes files at checkpoints, too: the files of a partition are there when it is committed."""

    def rolls_on_checkpoint(self, part: PartInfo) -> bool:
        """Return True."""
        return True


def _rolling(options: TableOptions) -> RollingPolicy:
    kind = DefaultRollingPolicy if options.get(POLICY) is None else _ClosedAtCheckpoints
    return kind(options.get(PART_BYTES), options.get(ROLLOVER), options.get(INACTIVITY))
