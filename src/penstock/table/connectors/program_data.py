"""`'connector' = 'python-input-format'`: tables of values that the program holds, such as those of `from_elements`."""

from __future__ import annotations

import itertools
import weakref

import pyarrow

from penstock.common.config_options import option
from penstock.common.config_values import TextType
from penstock.table.connectors.batch_source import BatchSource
from penstock.table.connectors.table_connector import ScanRequest, TableConnector, TableScan
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns

NAME = "python-input-format"
ID = option("id", TextType(), "")


class ProgramData:
    """Columns of a table, which live as long as its environment."""

    def __init__(self, table: pyarrow.Table) -> None:
        self.table = table
        self.id = str(next(_ids))
        _known[self.id] = self


_ids = itertools.count(1)
_known: weakref.WeakValueDictionary[str, ProgramData] = weakref.WeakValueDictionary()


class ProgramDataConnector(TableConnector):
    """Reads columns of the program, in order, by one subtask."""

    def scan(self, request: ScanRequest) -> TableScan:
        options = TableOptions(request.table.identifier, request.options, [ID])
        data = _known.get(options.get(ID))
        if data is None:
            raise options.error(
                "its values belong to another program: create the table again, by from_elements or from_pandas"
            )
        names = request.whole.names
        table = data.table.select(names).cast(request.whole)
        return TableScan(BatchSource(table), TableColumns(request.whole), parallelism=1)
