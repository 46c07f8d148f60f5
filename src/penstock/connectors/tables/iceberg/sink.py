"""IcebergSink and its builder."""

from __future__ import annotations

from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
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
    """Adds records to a table of Iceberg, each once. Made by `IcebergSink.builder()`.

    Subtasks write Parquet files; the driver adds those of a checkpoint to the table, in one snapshot of it, when the
    checkpoint is complete; without checkpoints, when the job has succeeded.
    """

    def __init__(self, table: IcebergTable, record_type: RecordType, partitions: tuple[str, ...]) -> None:
        self._table = table
        self._record_type = record_type
        self._partitions = partitions
        self._factory = ParquetWriterFactory(record_type)

    @staticmethod
    def builder() -> IcebergSinkBuilder:
        """Start to build one."""
        return IcebergSinkBuilder()

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


class IcebergSinkBuilder:
    """Settings of an IcebergSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._table: str | None = None
        self._catalog = "default"
        self._properties: dict[str, str] = {}
        self._record_type: RecordType | None = None
        self._partitions: tuple[str, ...] = ()

    def set_catalog(self, name: str, **properties: str) -> IcebergSinkBuilder:
        """Set the catalog, with pyiceberg's properties: `type="sql", uri=..., warehouse=...`. They are never shown.

        What they do not say is in pyiceberg's own configuration, a file or the environment. Default: `default`.
        """
        self._catalog = name
        self._properties = properties
        return self

    def set_table(self, name: str) -> IcebergSinkBuilder:
        """Set the table, with its namespace: `air.delays`. It is created if there is none. Raises ValueError."""
        if not all(name.split(".")) or "." not in name:
            raise ValueError(f"a table of Iceberg is named with its namespace, as air.delays, got {name!r}")
        self._table = name
        return self

    def set_record_type(self, record_type: RecordType) -> IcebergSinkBuilder:
        """Set the columns: `Types.ROW_NAMED(...)`, a dataclass or NamedTuple with type hints, or a pyarrow.Schema."""
        # Raises here what is wrong with it.
        schema_of(record_type)
        self._record_type = record_type
        return self

    def set_partition_columns(self, *columns: str) -> IcebergSinkBuilder:
        """Set by whose values the table is partitioned: texts, integers, booleans or dates. Default: none."""
        self._partitions = columns
        return self

    def build(self) -> IcebergSink:
        """Create the sink. Raises ValueError if something necessary is missing."""
        if self._table is None:
            raise ValueError("an IcebergSink needs a table: set_table('air.delays')")
        if self._record_type is None:
            raise ValueError("an IcebergSink needs the type of its records: set_record_type(Types.ROW_NAMED(...))")
        return IcebergSink(
            IcebergTable(self._table, self._catalog, self._properties), self._record_type, self._partitions
        )
