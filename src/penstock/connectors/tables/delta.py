"""A sink that adds records to a Delta Lake table."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow
from pyarrow import parquet

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import python_values
from penstock.common.doors.extras import DELTA, package_of
from penstock.common.errors import ConfigurationError, JobError, ProgramError
from penstock.common.files.file_systems import absolute
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.files.formats.parquet_format import ParquetWriterFactory
from penstock.connectors.files.sink.bucket import (
    NULL_FOLDER,
    BucketAssigner,
    BucketContext,
    FoldersOfValues,
    folder_of,
    partition_values,
)
from penstock.connectors.files.sink.part import OutputFileConfig
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.sink.writer import FileSinkSettings
from penstock.connectors.files.storage import resolve
from penstock.connectors.tables.committer import TableChangedError, TableCommitter
from penstock.connectors.tables.record_schema import RecordType, check_columns, check_partitions, schema_of, without
from penstock.connectors.tables.writer import TableFile, TableFileWriter, table_takes

# Folders of a table whose files do not have the partition columns: only the names of folders contain their values.

_KNOWN_MAX = 1_000


class DeltaFolders(FoldersOfValues):
    """Assign folders by values that are converted to the columns' types. Readers fail on one `2.0` among integers."""

    def __init__(self, columns: tuple[str, ...], record_type: RecordType) -> None:
        super().__init__(columns)
        self._record_type = record_type
        # Created by the worker. The check of the records' columns is made at submission, by the table.
        self._typed: RecordColumns | None = None
        self._known: dict[Any, str] = {}

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return `column=value/…`. Raise TypeError for a record without names, or a value of another type."""
        values = tuple(partition_values(element, self.columns))
        # 1, 1.0 and True are equal keys of a dict.
        key = (values, tuple(map(type, values)))
        folder = self._known.get(key)
        if folder is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            folder = self._known[key] = self._folder_of(dict(zip(self.columns, values, strict=True)))
        return folder

    def _folder_of(self, values: dict[str, Any]) -> str:
        if self._typed is None:
            others = [name for name in schema_of(self._record_type).names if name not in self.columns]
            self._typed = RecordColumns(without(self._record_type, others))
        names = self._typed.names
        batch = self._typed.batch([[values[name]] for name in names])
        converted = {name: python_values(column)[0] for name, column in zip(names, batch.columns, strict=True)}
        return "/".join(folder_of(name, converted[name]) for name in self.columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_typed": None, "_known": {}}


_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE = "↳"
_NOT_WRITTEN = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


def deltalake() -> ModuleType:
    """Return the package. Raise ConfigurationError if it is not installed."""
    return package_of(
        DELTA, "tables of Delta Lake need deltalake", "deltalake", "deltalake.exceptions", "deltalake.transaction"
    )


def reason_of(error: BaseException) -> str:
    """Return the text of an error of deltalake, with its causes, each after an arrow, and without a stack."""
    first, *others = _COLORS.sub("", str(error)).splitlines() or [""]
    causes = itertools.takewhile(lambda line: line.startswith(_CAUSE), map(str.strip, others))
    return ": ".join([first, *(line.removeprefix(_CAUSE).strip() for line in causes)])


class DeltaLakeTable(msgspec.Struct, frozen=True):
    """The location of a table. Its text omits `storage_options`, which may be secrets."""

    uri: str
    storage_options: dict[str, str]

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self})"

    def __str__(self) -> str:
        return f"the Delta table {self.uri}"

    def load(self) -> Any:
        """Return the present table. Raise JobError if it cannot be loaded."""
        package = deltalake()
        try:
            return package.DeltaTable(self.uri, storage_options=self.storage_options or None)
        except Exception as error:
            raise JobError(f"cannot load {self}: {reason_of(error)}") from None

    def create(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Create the table if it does not exist. Raise ConfigurationError if it cannot have these columns."""
        package = deltalake()
        check_partitions(partitions, schema, str(self))
        nanoseconds = [
            field.name for field in schema if pyarrow.types.is_timestamp(field.type) and field.type.unit == "ns"
        ]
        if nanoseconds:
            raise ConfigurationError(f"{self} has timestamps in microseconds: declare {nanoseconds} with microseconds")
        try:
            if package.DeltaTable.is_deltatable(self.uri, self.storage_options or None):
                return
            columns = package.Schema.from_arrow(schema)
            package.DeltaTable.create(
                self.uri,
                columns,
                mode="ignore",
                partition_by=list(partitions) or None,
                storage_options=self.storage_options or None,
            )
        except Exception as error:
            raise ConfigurationError(f"cannot create {self}: {reason_of(error)}") from None

    def check(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Raise ConfigurationError if records with these columns cannot be added to the table."""
        table = self.load()
        found = table.metadata()
        if list(found.partition_columns) != list(partitions):
            raise ConfigurationError(
                f"{self} is partitioned by {list(found.partition_columns)}, but the sink by {list(partitions)}: "
                "set its partition_columns"
            )
        settings = found.configuration
        if settings.get("delta.columnMapping.mode", "none") != "none":
            raise ConfigurationError(
                f"{self} has a column mapping (delta.columnMapping.mode), which penstock does not support"
            )
        unsupported = sorted(name for name in settings if name.startswith("delta.constraints."))
        unsupported += [field.name for field in table.schema().fields if set(_NOT_WRITTEN) & set(field.metadata)]
        if unsupported:
            raise ConfigurationError(
                f"{self} has constraints or computed columns, which penstock does not check: {unsupported}"
            )
        check_columns(self._as_stored(schema), pyarrow.schema(table.schema().to_arrow()), str(self))

    def _as_stored(self, schema: pyarrow.Schema) -> pyarrow.Schema:
        """Return these columns as Delta has them: its integers have signs."""
        try:
            return pyarrow.schema(deltalake().Schema.from_arrow(schema).to_arrow())
        except Exception as error:
            raise ConfigurationError(f"{self} cannot have these columns: {reason_of(error)}") from None


class DeltaCommitter(TableCommitter):
    """Add files in a new version of the table for each commit. Application transactions are the marks.

    Of two concurrent commits that set one mark, Delta refuses the second. Source: Delta transaction log protocol,
    "Transaction Identifiers".
    """

    def __init__(self, table: DeltaLakeTable) -> None:
        self._table = table

    def base_path(self) -> str:
        return self._table.uri

    def load(self) -> Any:
        return self._table.load()

    def mark_of(self, table: Any, writer: str) -> int | None:
        number: int | None = table.transaction_version(_application(writer))
        return number

    def add(self, table: Any, files: Sequence[TableFile], marks: dict[str, int]) -> None:
        package = deltalake()
        now_ms = int(time.time() * 1000)
        transactions = [package.Transaction(_application(writer), number, now_ms) for writer, number in marks.items()]
        try:
            table.create_write_transaction(
                [self._action(one, now_ms) for one in files],
                "append",
                table.schema(),
                list(table.metadata().partition_columns) or None,
                commit_properties=package.CommitProperties(app_transactions=transactions),
            )
        except package.exceptions.CommitFailedError as error:
            raise TableChangedError(f"{self._table}: {reason_of(error)}") from None
        except package.exceptions.DeltaError as error:
            raise JobError(f"cannot add files to {self._table}: {reason_of(error)}") from None

    def _action(self, one: TableFile, now_ms: int) -> Any:
        path = self.relative(one)
        with self.opened(one) as file:
            size = file.size()
            records = parquet.read_metadata(file).num_rows
        values = dict(_value(folder) for folder in path.split("/")[:-1])
        stats = json.dumps({"numRecords": records})
        return deltalake().transaction.AddAction(
            path=path, size=size, partition_values=values, modification_time=now_ms, data_change=True, stats=stats
        )


def _application(writer: str) -> str:
    return f"penstock/{writer}"


def _value(folder: str) -> tuple[str, str | None]:
    name, _, value = folder.partition("=")
    return unquote(name), None if value == NULL_FOLDER else unquote(value)


class DeltaSink(Sink[Any], HasFormerBuilder):
    """Add records to a Delta Lake table, each once.

    Subtasks write Parquet files; the driver adds those of a checkpoint to the table, in one version of it, when the
    checkpoint is complete; without checkpoints, after the job has succeeded.
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
          does not exist.
        * `record_type`: the columns: `Types.ROW_NAMED(...)`, a dataclass or NamedTuple with type hints, or a
          pyarrow.Schema.
        * `partition_columns`: the columns by which the table is partitioned: texts, integers, booleans or dates.
          Default: none.
        * `storage_options`: options of deltalake for access to the log of the table, in addition to the environment.
          Never shown. Penstock writes the files of rows as FileSink does, with options from the environment only.
        """
        # Raises TypeError for an invalid type.
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

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether these columns are those of the records, and the values of partitions divide a batch."""
        return table_takes(columns, self._record_type, self._partitions)

    def validate(self) -> None:
        """Create the table if it does not exist. Raise ConfigurationError if the records do not fit it.

        Raise ProgramError for a path without a file system.
        """
        schema = schema_of(self._record_type)
        try:
            resolve(self._table.uri)
        except OSError as error:
            raise ProgramError(f"cannot reach {self._table}: {error}") from error
        self._table.create(schema, self._partitions)
        self._table.check(schema, self._partitions)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of one subtask."""
        return TableFileWriter(context, self._settings, self._factory)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        """Create a writer: there is no state, because all files of the previous writer were committables."""
        return self.create_writer(context)

    def create_committer(self) -> Committer:
        """Create a committer, which adds files to the table."""
        return DeltaCommitter(self._table)
