"""A sink that adds records to an Iceberg table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import msgspec
import pyarrow

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.doors.extras import ICEBERG, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.common.files.file_systems import is_url
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.files.formats.parquet_format import ParquetWriterFactory
from penstock.connectors.files.sink.bucket import (
    BucketAssigner,
    BucketContext,
    FoldersOfValues,
    folder_of,
    partition_values,
)
from penstock.connectors.files.sink.part import OutputFileConfig
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.sink.writer import FileSinkSettings
from penstock.connectors.tables.committer import TableChangedError, TableCommitter
from penstock.connectors.tables.record_schema import RecordType, check_columns, check_partitions, schema_of
from penstock.connectors.tables.writer import TableFile, TableFileWriter, table_takes

_HIDDEN = "***"
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]*@")


def pyiceberg() -> ModuleType:
    """Return the package. Raise ConfigurationError if it is not installed."""
    return package_of(
        ICEBERG, "tables of Iceberg need pyiceberg", "pyiceberg.catalog", "pyiceberg.exceptions", "pyiceberg.transforms"
    )


class IcebergTable(msgspec.Struct, frozen=True):
    """A table by catalog and name. Its text omits the properties of the catalog, which may be secrets."""

    name: str
    catalog: str
    properties: dict[str, str]

    def __repr__(self) -> str:
        return f"IcebergTable({self})"

    def __str__(self) -> str:
        return f"the Iceberg table {self.name} of the catalog '{self.catalog}'"

    def reason_of(self, error: BaseException) -> str:
        """Return the text of an error of pyiceberg, without passwords and urls that may contain one."""
        text = str(error)
        for name, value in self.properties.items():
            if len(value) > 1 and name not in ("type", "warehouse"):
                text = text.replace(value, _HIDDEN)
        return _CREDENTIALS.sub(f"{_HIDDEN}@", text)

    def load(self) -> Any:
        """Return the present table. Raise JobError if it, or the catalog, cannot be loaded."""
        try:
            return self._catalog().load_table(self.name)
        except Exception as error:
            raise JobError(f"cannot load {self}: {self.reason_of(error)}") from None

    def data_path(self) -> str:
        """Return the folder for files of new data."""
        table = self.load()
        path: str = table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data"
        # Connectors use local paths without a scheme.
        return path.removeprefix("file://") if path.startswith("file:///") else path

    def create(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Create the table if it does not exist. Raise ConfigurationError if it cannot have these columns."""
        check_partitions(partitions, schema, str(self))
        package = pyiceberg()
        try:
            catalog = self._catalog()
            if catalog.table_exists(self.name):
                return
            catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
            with catalog.create_table_transaction(self.name, schema) as creation, creation.update_spec() as spec:
                for name in partitions:
                    spec.add_identity(name)
        except package.exceptions.TableAlreadyExistsError:
            return
        except Exception as error:
            raise ConfigurationError(f"cannot create {self}: {self.reason_of(error)}") from None

    def check(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Raise ConfigurationError if records with these columns cannot be added to the table."""
        table = self.load()
        columns = table.schema()
        if others := [field for field in table.spec().fields if str(field.transform) != "identity"]:
            raise ConfigurationError(
                f"{self} is partitioned by {[str(field.transform) for field in others]}: penstock supports only "
                "partitions by values of columns"
            )
        found = [columns.find_column_name(field.source_id) for field in table.spec().fields]
        if found != list(partitions):
            raise ConfigurationError(
                f"{self} is partitioned by {found}, but the sink by {list(partitions)}: set its partition_columns"
            )
        wide = {field.name: field.type for field in columns.as_arrow()}
        check_columns(_widened(schema, wide), columns.as_arrow(), str(self))

    def _catalog(self) -> Any:
        return pyiceberg().catalog.load_catalog(self.catalog, **self.properties)


def _widened(schema: pyarrow.Schema, wide: Mapping[str, pyarrow.DataType]) -> pyarrow.Schema:
    """Widen small integers to 32 bits, the least size in Iceberg. Parquet stores them in this size anyway."""
    small = (pyarrow.int8(), pyarrow.int16())
    return pyarrow.schema(
        [
            field.with_type(pyarrow.int32())
            if field.type in small and wide.get(field.name) == pyarrow.int32()
            else field
            for field in schema
        ]
    )


_MARK = "penstock.file."
_NO_RETRIES = ("commit.retry.num-retries", "0")


class IcebergCommitter(TableCommitter):
    """Add files in a snapshot for each commit, whose summary contains the marks.

    Marks are searched from the current snapshot back. Source: Flink's Iceberg sink, which stores the greatest committed
    checkpoint of a job in the same place.
    """

    def __init__(self, table: IcebergTable) -> None:
        self._table = table

    def base_path(self) -> str:
        return self._table.data_path()

    def load(self) -> Any:
        table = self._table.load()
        # A retry must check the marks again, which the library's own retries do not. Set only in this object: no update
        # of the table contains it.
        table.metadata.properties.update([_NO_RETRIES])
        return table

    def mark_of(self, table: Any, writer: str) -> int | None:
        # Without snapshot_by_id, which searches all snapshots in each call.
        snapshots = {one.snapshot_id: one for one in table.snapshots()}
        snapshot = table.current_snapshot()
        while snapshot is not None:
            found = (snapshot.summary or {}).get(_MARK + writer)
            if found is not None:
                return int(found)
            snapshot = snapshots.get(snapshot.parent_snapshot_id)
        return None

    def add(self, table: Any, files: Sequence[TableFile], marks: dict[str, int]) -> None:
        summary = {_MARK + writer: str(number) for writer, number in marks.items()}
        paths = [one.file.final_path for one in files]
        try:
            with table.transaction() as transaction:
                transaction.add_files(
                    [path if is_url(path) else f"file://{path}" for path in paths],
                    snapshot_properties=summary,
                    check_duplicate_files=False,
                )
        except pyiceberg().exceptions.CommitFailedException as error:
            raise TableChangedError(f"{self._table}: {self._table.reason_of(error)}") from None
        except Exception as error:
            raise JobError(f"cannot add files to {self._table}: {self._table.reason_of(error)}") from None


class IcebergSink(Sink[Any], HasFormerBuilder):
    """Add records to an Iceberg table, each once.

    Subtasks write Parquet files; the driver adds those of a checkpoint to the table, in one snapshot of it, when the
    checkpoint is complete; without checkpoints, after the job has succeeded.
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

        * `table`: the table with its namespace, such as `air.delays`. It is created if it does not exist.
        * `record_type`: the columns: `Types.ROW_NAMED(...)`, a dataclass or NamedTuple with type hints, or a
          pyarrow.Schema.
        * `catalog`: the name of the catalog. `catalog_properties`: pyiceberg's properties of it, such as
          `{"type": "sql", "uri": ..., "warehouse": ...}`, never shown. Default: those of pyiceberg's own
          configuration, in a file or the environment.
        * `partition_columns`: the columns by whose values the table is partitioned: texts, integers, booleans or dates.
          Default: none.
        """
        if not all(checked_text("table", table).split(".")) or "." not in table:
            raise ValueError(f"table must be a name with its namespace, such as air.delays, got {table!r}")
        # Raises TypeError for an invalid type.
        schema_of(record_type)
        self._table = IcebergTable(table, checked_text("catalog", catalog), dict(catalog_properties or {}))
        self._record_type = record_type
        self._partitions = checked_names("partition_columns", partition_columns) if partition_columns else ()
        self._factory = ParquetWriterFactory(record_type)

    def describe(self) -> str:
        return f"{self._table.catalog}.{self._table.name}"

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether these columns are those of the records, and the values of partitions divide a batch."""
        return table_takes(columns, self._record_type, self._partitions)

    def validate(self) -> None:
        """Create the table if it does not exist. Raise ConfigurationError if the records do not fit it."""
        schema = schema_of(self._record_type)
        self._table.create(schema, self._partitions)
        self._table.check(schema, self._partitions)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of one subtask. It queries the catalog for the folder of the files."""
        assigner = IcebergFolders(self._partitions) if self._partitions else BucketAssigner.base_path_bucket_assigner()
        settings = FileSinkSettings(
            self._table.data_path(),
            assigner,
            RollingPolicy.on_checkpoint_rolling_policy(),
            OutputFileConfig("part", ".parquet"),
        )
        return TableFileWriter(context, settings, self._factory)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        """Create a writer: there is no state, because all files of the previous writer were committables."""
        return self.create_writer(context)

    def create_committer(self) -> Committer:
        """Create a committer, which adds files to the table."""
        return IcebergCommitter(self._table)


class IcebergFolders(FoldersOfValues):
    """Assign a folder for each combination of values.

    The files contain the values too, and the table reads them there.
    """

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return `column=value/…`."""
        values = partition_values(element, self.columns)
        # Iceberg distinguishes an empty text from null. A single % is unambiguous: in names it only begins an escape.
        return "/".join(
            f"{folder_of(name, '-')[:-1]}%" if value == "" else folder_of(name, value)
            for name, value in zip(self.columns, values, strict=True)
        )
