"""A sink that adds records to a table of Delta Lake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import ProgramError
from penstock.common.files.file_systems import absolute
from penstock.connectors.base.options import checked_names, checked_text
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
    """Adds records to a table of Delta Lake, each once.

    Subtasks write Parquet files; the driver adds those of a checkpoint to the table, in one version of it, when the
    checkpoint is complete; without checkpoints, when the job has succeeded.
    """

    def __init__(
        self,
        *,
        table: str | os.PathLike[str],
        record_type: RecordType,
        partition_columns: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `table`: the folder of the table: a path, or a URL such as `s3://bucket/table`. It is created if it
          is not there.
        * `record_type`: the columns: `Types.ROW_NAMED(...)`, a dataclass or NamedTuple with type hints, or a
          pyarrow.Schema.
        * `partition_columns`: the columns by which the table is partitioned: texts, integers, booleans or dates.
          Default: none.
        * `storage_options`: how deltalake reaches the log of the table, beyond what the environment says. Never shown.
          The files of rows are written by penstock, as FileSink writes them: what it needs is in the environment.
        """
        # Raises here what is wrong with it.
        schema_of(record_type)
        partitions = checked_names("partition_columns", partition_columns) if partition_columns else ()
        self._table = DeltaLakeTable(absolute(checked_text("table", os.fspath(table))), dict(storage_options or {}))
        self._record_type = record_type
        self._partitions = partitions
        columns = DeltaFolders(partitions, record_type) if partitions else None
        self._settings = FileSinkSettings(
            self._table.uri,
            columns or BucketAssigner.base_path_bucket_assigner(),
            RollingPolicy.on_checkpoint_rolling_policy(),
            OutputFileConfig("part", ".parquet"),
        )
        self._factory = ParquetWriterFactory(without(record_type, partitions))

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
