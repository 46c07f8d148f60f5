"""DeltaSink and its builder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import ProgramError
from penstock.common.files.file_systems import absolute
from penstock.connectors.files.formats.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.sink.bucket import BucketAssigner
from penstock.connectors.files.sink.part import OutputFileConfig
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.sink.writer import FileSinkSettings
from penstock.connectors.files.storage import resolve
from penstock.connectors.tables.delta.committer import DeltaCommitter
from penstock.connectors.tables.delta.table import DeltaLakeTable
from penstock.connectors.tables.delta.typed_partitions import DeltaFolders
from penstock.connectors.tables.record_schema import RecordType, schema_of, without
from penstock.connectors.tables.writer import TableFileWriter


class DeltaSink(Sink[Any]):
    """Adds records to a table of Delta Lake, each once. Made by `DeltaSink.builder()`.

    Subtasks write Parquet files; the driver adds those of a checkpoint to the table, in one version of it, when the
    checkpoint is complete; without checkpoints, when the job has succeeded.
    """

    def __init__(self, table: DeltaLakeTable, record_type: RecordType, partitions: tuple[str, ...]) -> None:
        self._table = table
        self._record_type = record_type
        self._partitions = partitions
        columns = DeltaFolders(partitions, record_type) if partitions else None
        self._settings = FileSinkSettings(
            table.uri,
            columns or BucketAssigner.base_path_bucket_assigner(),
            RollingPolicy.on_checkpoint_rolling_policy(),
            OutputFileConfig("part", ".parquet"),
        )
        self._factory = ParquetWriterFactory(without(record_type, partitions))

    @staticmethod
    def builder() -> DeltaSinkBuilder:
        """Start to build one."""
        return DeltaSinkBuilder()

    def describe(self) -> str:
        return self._table.uri

    def validate(self) -> None:
        """Create the table unless it is there. Raises ConfigurationError if the records do not fit it.

        And ProgramError for a path in no file system.
        """
        schema = schema_of(self._record_type)
        try:
            resolve(self._table.uri)
        except OSError as error:
            raise ProgramError(f"{self._table} can't be reached: {error}") from error
        self._table.create(schema, self._partitions)
        self._table.check(schema, self._partitions)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of one subtask."""
        return TableFileWriter(context, self._settings, self._factory)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        """Create one: nothing of the writer before goes on, all its files were handed over."""
        return self.create_writer(context)

    def create_committer(self) -> Committer:
        """Create a committer, which adds files to the table."""
        return DeltaCommitter(self._table)


class DeltaSinkBuilder:
    """Settings of a DeltaSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._uri: str | None = None
        self._record_type: RecordType | None = None
        self._partitions: tuple[str, ...] = ()
        self._storage_options: dict[str, str] = {}

    def set_table(self, uri: str | os.PathLike[str]) -> DeltaSinkBuilder:
        """Set the folder of the table: a path, or a URL such as `s3://bucket/table`. It is created if there is none."""
        self._uri = absolute(os.fspath(uri))
        return self

    def set_record_type(self, record_type: RecordType) -> DeltaSinkBuilder:
        """Set the columns: `Types.ROW_NAMED(...)`, a dataclass or NamedTuple with type hints, or a pyarrow.Schema."""
        # Raises here what is wrong with it.
        schema_of(record_type)
        self._record_type = record_type
        return self

    def set_partition_columns(self, *columns: str) -> DeltaSinkBuilder:
        """Set by which columns the table is partitioned: texts, integers, booleans or dates. Default: none."""
        self._partitions = columns
        return self

    def set_storage_options(self, storage_options: Mapping[str, str]) -> DeltaSinkBuilder:
        """Set how deltalake reaches the log of the table, beyond what the environment says. Never shown.

        The files of rows are written by penstock, as FileSink writes them: what it needs is in the environment.
        """
        self._storage_options = dict(storage_options)
        return self

    def build(self) -> DeltaSink:
        """Create the sink. Raises ValueError if something necessary is missing."""
        if self._uri is None:
            raise ValueError("a DeltaSink needs a table: set_table('/tables/delays')")
        if self._record_type is None:
            raise ValueError("a DeltaSink needs the type of its records: set_record_type(Types.ROW_NAMED(...))")
        return DeltaSink(DeltaLakeTable(self._uri, self._storage_options), self._record_type, self._partitions)
