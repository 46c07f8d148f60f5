"""`'connector' = 'nexmark'`."""

from __future__ import annotations

from penstock.table.connectors.nexmark_table import NexmarkTable
from penstock.table.connectors.table_connector import ScanRequest, TableConnector, TableScan
from penstock.table.operators.table_columns import TableColumns


class NexmarkConnector(TableConnector):
    """Reads the events of the Nexmark benchmark. Only columns and fields that the query reads are generated."""

    def scan(self, request: ScanRequest) -> TableScan:
        table = NexmarkTable.of(request.table)
        columns = TableColumns(request.schema)
        source = table.source().on_columns(columns)
        assert source is not None, "NexmarkTable.of has checked the columns"
        return TableScan(source, columns)
