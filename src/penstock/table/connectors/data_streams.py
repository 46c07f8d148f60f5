"""`'connector' = 'data-stream'`: tables of streams of the program."""

from __future__ import annotations

import itertools
import weakref

from penstock.common.config_options import option
from penstock.common.config_values import TextType
from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.table_connector import ScanRequest, TableConnector, TableScan
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns

NAME = "data-stream"
_ID = option("id", TextType(), "")
_CHANGES = option("changelog-mode", TextType(), "")


class StreamData:
    """A stream as a table reads it: its rows on columns, among them event time and kinds."""

    def __init__(self, stream: Transformation, columns: TableColumns) -> None:
        self.stream = stream
        self.columns = columns
        self.id = str(next(_ids))
        _known[self.id] = self


_ids = itertools.count(1)
_known: weakref.WeakValueDictionary[str, StreamData] = weakref.WeakValueDictionary()


class DataStreamConnector(TableConnector):
    """Reads a stream of the same program."""

    def scan(self, request: ScanRequest) -> TableScan:
        options = TableOptions(request.table.identifier, request.options, [_ID, _CHANGES])
        data = _known.get(options.get(_ID))
        if data is None:
            raise options.error("its stream belongs to another program: convert the stream again, by from_data_stream")
        return TableScan(None, data.columns, stream=data.stream, has_watermarks=True)
