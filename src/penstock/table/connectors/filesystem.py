"""`'connector' = 'filesystem'`: Parquet files of a folder. Other formats, partitions and rolling are not there yet."""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, TextType
from penstock.connectors.files.formats.parquet_format import ParquetFormat, ParquetWriterFactory
from penstock.connectors.files.sink.sink import FileSink
from penstock.connectors.files.source.source import FileSource
from penstock.table.connectors.table_connector import (
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
)
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.tables import ContextResolvedTable

_PATH = option("path", TextType(), None)
_FORMAT = option("format", TextType(), None)
_MONITOR = option("source.monitor-interval", DurationType(), None)


class FilesystemConnector(TableConnector):
    """Reads and writes Parquet files."""

    def scan(self, request: ScanRequest) -> TableScan:
        options, path = _checked(request.table)
        columns = TableColumns(request.whole)
        builder = FileSource.for_bulk_file_format(ParquetFormat(list(columns.names)), path)
        if (interval_ms := options.get(_MONITOR)) is not None:
            builder.monitor_continuously(interval_ms)
        source = builder.build().on_columns(columns)
        if source is None:
            raise options.error("its columns have types that Parquet files do not have")
        return TableScan(source, columns)

    def sink(self, request: SinkRequest) -> TableSink:
        options, path = _checked(request.table)
        request.check_inserts()
        sink = FileSink.for_bulk_format(path, ParquetWriterFactory(request.columns.schema)).build()
        if not sink.takes_columns(request.columns):
            raise options.error("its columns have types that Parquet files do not have")
        return TableSink(sink)


def _checked(table: ContextResolvedTable) -> tuple[TableOptions, str]:
    """Return the options of a table, and its path. Raises SqlError for what is not supported."""
    resolved = table.resolved_table
    assert resolved is not None
    options = TableOptions(table.identifier, resolved.options, (_PATH, _FORMAT, _MONITOR))
    path, form = options.get(_PATH), options.get(_FORMAT)
    if path is None or form is None:
        missing = _PATH if path is None else _FORMAT
        raise options.error(f"the option {missing.key!r} is required: write it in WITH (...)")
    if form != "parquet":
        raise options.error(f"the format {form!r} is not supported yet: use 'parquet'")
    if resolved.partition_keys:
        raise options.error("PARTITIONED BY is not supported yet")
    return options, path
