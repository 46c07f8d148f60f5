"""A sink that adds records to a table of Iceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.files.formats.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.sink.bucket import BucketAssigner, BucketContext
from penstock.connectors.files.sink.part import OutputFileConfig
from penstock.connectors.files.sink.partitions import folder_of, partition_values
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.sink.writer import FileSinkSettings
from penstock.connectors.tables.iceberg.committer import IcebergCommitter
from penstock.connectors.tables.iceberg.table import IcebergTable
from penstock.connectors.tables.record_schema import RecordType, schema_of
from penstock.connectors.tables.writer import TableFileWriter


class IcebergSink(Sink[Any]):
    """Adds records to a table of Iceberg, each once.

    Subtasks write Parquet files; the driver adds those of a checkpoint to the table, in one snapshot of it, when the
    checkpoint is complete; without checkpoints, when the job has succeeded.
    """

    def __init__(
        self,
        *,
        table: str,
        record_type: RecordType,
        catalog: str = "default",
        catalog_properties: Mapping[str, str] | None = None,
        partition_columns: Sequence[str] = (),
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `table`: the table with its namespace, `air.delays`. It is created if there is none.
        * `record_type`: the columns: `Types.ROW_NAMED(...)`, a dataclass or NamedTuple with type hints, or a
          pyarrow.Schema.
        * `catalog`: the name of the catalog. `catalog_properties`: pyiceberg's properties of it, such as
          `{"type": "sql", "uri": ..., "warehouse": ...}`. They are never shown. What they do not say is in pyiceberg's
          own configuration, a file or the environment.
        * `partition_columns`: the columns by whose values the table is partitioned: texts, integers, booleans or dates.
          Default: none.
        """
        if not all(checked_text("table", table).split(".")) or "." not in table:
            raise ValueError(f"table must be named with its namespace, such as air.delays, got {table!r}")
        # Raises here what is wrong with it.
        schema_of(record_type)
        self._table = IcebergTable(table, checked_text("catalog", catalog), dict(catalog_properties or {}))
        self._record_type = record_type
        self._partitions = checked_names("partition_columns", partition_columns) if partition_columns else ()
        self._factory = ParquetWriterFactory(record_type)

    def describe(self) -> str:
        return f"{self._table.catalog}.{self._table.name}"

    def validate(self) -> None:
        """Create the table unless it is there. Raises ConfigurationError if the records do not fit it."""
        schema = schema_of(self._record_type)
        self._table.create(schema, self._partitions)
        self._table.check(schema, self._partitions)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of one subtask. It asks the catalog for the place of the files."""
        assigner = IcebergFolders(self._partitions) if self._partitions else BucketAssigner.base_path_bucket_assigner()
        settings = FileSinkSettings(
            self._table.data_path(),
            assigner,
            RollingPolicy.on_checkpoint_rolling_policy(),
            OutputFileConfig("part", ".parquet"),
        )
        return TableFileWriter(context, settings, self._factory)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        """Create one: nothing of the writer before goes on, all its files were handed over."""
        return self.create_writer(context)

    def create_committer(self) -> Committer:
        """Create a committer, which adds files to the table."""
        return IcebergCommitter(self._table)


class IcebergFolders(BucketAssigner):
    """A folder for each combination of values. The files have the values, too, from which the table takes them."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return `column=value/…`."""
        values = partition_values(element, self._columns)
        # Iceberg tells an empty text from none. A sole % is no other value's: in a name it begins the code of one.
        return "/".join(
            f"{folder_of(name, '-')[:-1]}%" if value == "" else folder_of(name, value)
            for name, value in zip(self._columns, values, strict=True)
        )
