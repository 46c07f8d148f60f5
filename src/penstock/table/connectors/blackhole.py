"""`'connector' = 'blackhole'`: takes all rows, and drops them."""

from __future__ import annotations

from typing import Any

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common.columns.record_columns import RecordColumns
from penstock.table.connectors.table_connector import SinkRequest, TableConnector, TableSink
from penstock.table.connectors.table_options import TableOptions


class BlackholeConnector(TableConnector):
    """Drops rows, of any kind."""

    def sink(self, request: SinkRequest) -> TableSink:
        TableOptions(request.table.identifier, request.options, [])
        return TableSink(BlackholeSink())


class BlackholeSink(Sink[Any]):
    """Drops records and batches."""

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Return a writer that drops."""
        return _BlackholeWriter()

    def takes_columns(self, columns: RecordColumns) -> bool:
        return True


class _BlackholeWriter(SinkWriter[Any]):
    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        pass

    def write(self, value: Any, timestamp: int | None) -> None:
        pass

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        pass
