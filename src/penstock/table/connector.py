"""The parts of a connector of your own: one class, registered by the name in `'connector' = '...'`."""

from __future__ import annotations

from penstock.common.doors.door import publish
from penstock.table.connectors.lookup import Found, LookupRequest, TableLookup
from penstock.table.connectors.rows_as_columns import scan_of_rows
from penstock.table.connectors.table_connector import (
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    register_connector,
)
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns

__all__ = [
    "Found",
    "LookupRequest",
    "ScanRequest",
    "SinkRequest",
    "TableColumns",
    "TableConnector",
    "TableLookup",
    "TableOptions",
    "TableScan",
    "TableSink",
    "register_connector",
    "scan_of_rows",
]
publish(__name__, __all__)
