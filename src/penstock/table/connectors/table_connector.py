"""Define the interface of table connectors: one class each, registered by the name in `'connector' = '...'`.

class Lines(TableConnector):
    def sink(self, request): ...

register_connector("lines", Lines())
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow

from penstock.api.sink import Sink
from penstock.api.source import Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.lookup import LookupRequest, TableLookup
from penstock.table.connectors.table_options import CONNECTOR
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import LogicalType
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.errors import SqlError
from penstock.table.planner.nodes.tables import ContextResolvedTable

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"
"""Kinds of rows, as plans name them."""
METADATA = "$metadata_"
"""The beginning of names of columns of metadata, between connector and plan."""


@dataclass(frozen=True)
class ScanRequest:
    """A table to read.

    `schema`: the physical columns that are read, of rows only the fields that are. `whole`: the same columns with all
    of their fields. A connector may give either. `metadata`: columns of metadata, by the connector's keys; the source
    gives them with METADATA in front of the key.
    """

    table: ContextResolvedTable
    schema: pyarrow.Schema
    whole: pyarrow.Schema
    metadata: Mapping[str, pyarrow.DataType]
    zone: str = "UTC"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the table."""
        return self.table.resolved.options


@dataclass(frozen=True)
class TableScan:
    """How a table is read. `source` gives batches of `columns`: those of the request, its metadata, perhaps KIND.

    `parallelism`: None: that of the program. `stream`: in place of a source, a stream with these columns.
    `watermarks_by_split`: whether a subtask reads several splits side by side, such as partitions of a topic: then each
    has watermarks, and the slowest holds back the others. `has_watermarks`: whether watermarks come with the rows, for
    tables that declare SOURCE_WATERMARK().
    """

    source: Source[Any] | None
    columns: RecordColumns
    parallelism: int | None = None
    stream: Transformation | None = None
    watermarks_by_split: bool = False
    has_watermarks: bool = False


@dataclass(frozen=True)
class SinkRequest:
    """A table to write. `columns`: its columns, whose types are `row_type`; `kinds`: those of rows that may come.

    `metadata`: the connector's keys of the last columns. `partition`: the values that INSERT INTO ... PARTITION gives;
    rows have them, too. `overwrites`: whether it is INSERT OVERWRITE.
    """

    table: ContextResolvedTable
    columns: TableColumns
    row_type: LogicalType
    kinds: tuple[str, ...]
    zone: str = "UTC"
    metadata: tuple[str, ...] = ()
    partition: Mapping[str, str] = field(default_factory=dict)
    overwrites: bool = False

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the table."""
        return self.table.resolved.options

    def check_inserts(self) -> None:
        """Raise SqlError if rows are updated or deleted, which the connector can't write."""
        if set(self.kinds) != {INSERT}:
            raise SqlError(
                f"the table {self.table.identifier} takes insertions only, and the query gives "
                f"{', '.join(kind for kind in self.kinds if kind != INSERT)}. Use a connector that takes changes, "
                "such as print, or a query that only inserts, such as one of windows (TUMBLE)"
            )


@dataclass(frozen=True)
class TableSink:
    """How a table is written: by a Sink in tasks, or by a receiver of Rows in the program's process.

    `takes_kinds`: whether the sink's columns have KIND at the end. `parallelism`: None: that of its input.
    """

    sink: Sink[Any] | None = None
    results: ResultSink | None = None
    takes_kinds: bool = False
    parallelism: int | None = None


class TableConnector:
    """Base of connectors. Raises SqlError for options that are wrong, and for what it can't do."""

    sink_abilities: frozenset[str] = frozenset()
    """Which of WritingMetadata, Partitioning and Overwrite the sink heeds. Others are refused."""

    def scan(self, request: ScanRequest) -> TableScan:
        """Return how to read a table."""
        raise self.cannot(request.table, "read")

    def sink(self, request: SinkRequest) -> TableSink:
        """Return how to write into a table."""
        raise self.cannot(request.table, "written")

    def lookup(self, request: LookupRequest) -> TableLookup:
        """Return how to look up rows of a table by key."""
        raise self.cannot(request.table, "looked up")

    def cannot(self, table: ContextResolvedTable, what: str) -> SqlError:
        """Return the error of a table that can't be read, or written."""
        name = table.resolved.options.get(CONNECTOR)
        return SqlError(f"the table {table.identifier} can't be {what}: its connector {name!r} does not do that")


_BUILT_IN = {
    "blackhole": "blackhole:BlackholeConnector",
    "data-stream": "data_streams:DataStreamConnector",
    "datagen": "datagen:DatagenConnector",
    "filesystem": "filesystem:FilesystemConnector",
    "jdbc": "jdbc:JdbcConnector",
    "kafka": "kafka:KafkaConnector",
    "nexmark": "nexmark_connector:NexmarkConnector",
    "print": "print_connector:PrintConnector",
    "python-input-format": "program_data:ProgramDataConnector",
    "upsert-kafka": "kafka:UpsertKafkaConnector",
}
"""Connector -> module of this package and class."""
_OF_PROGRAMS = ("data-stream", "python-input-format")
"""Connectors of tables that `from_data_stream`, `from_elements` and their like make."""
_registered: dict[str, TableConnector] = {}


def built_in_connectors() -> list[str]:
    """Return the names of connectors that users write in `'connector' = '...'`."""
    return sorted(set(_BUILT_IN) - set(_OF_PROGRAMS))


def register_connector(name: str, connector: TableConnector) -> None:
    """Make a connector known by name, in this process. It takes the place of another one of that name."""
    if not isinstance(connector, TableConnector):
        raise TypeError(f"expected a TableConnector for {name!r}, got {connector!r}")
    _registered[name] = connector


def connector_of(table: ContextResolvedTable) -> TableConnector:
    """Return the connector of a table. Raises SqlError if there is none of that name."""
    resolved = table.resolved_table
    name = None if resolved is None else resolved.options.get(CONNECTOR)
    if name is None:
        raise SqlError(f"the table {table.identifier} has no option 'connector'")
    if name not in _registered:
        if name not in _BUILT_IN:
            known = ", ".join(sorted({*built_in_connectors(), *_registered} - set(_OF_PROGRAMS)))
            raise SqlError(
                f"the table {table.identifier} has the connector {name!r}, which does not exist. Connectors: {known}"
            )
        module, _, attribute = _BUILT_IN[name].partition(":")
        _registered[name] = getattr(import_module(f"penstock.table.connectors.{module}"), attribute)()
    return _registered[name]


def physical_columns(table: ContextResolvedTable) -> list[pyarrow.Field]:
    """Return the physical columns of a table."""
    row = table.resolved.schema.physical_row
    return [pyarrow.field(name, arrow_type(kind)) for name, kind in zip(row.names, row.children, strict=True)]
