"""`'connector' = 'print'`: prints rows in the program's process, as Flink's prints them: `+I[1, Hi]`."""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import BooleanType, IntegerType, TextType
from penstock.engine.jobmaster.results.result_sinks import PrintResults
from penstock.table.connectors.table_connector import SinkRequest, TableConnector, TableSink
from penstock.table.connectors.table_options import TableOptions
from penstock.table.row_text import RowText

_IDENTIFIER = option("print-identifier", TextType(), "")
_STANDARD_ERROR = option("standard-error", BooleanType(), False)
_PARALLELISM = option("sink.parallelism", IntegerType(least=1), None)
OPTIONS = (_IDENTIFIER, _STANDARD_ERROR, _PARALLELISM)


class PrintConnector(TableConnector):
    """Prints rows of any kind."""

    def sink(self, request: SinkRequest) -> TableSink:
        options = TableOptions(request.table.identifier, request.options, OPTIONS)
        if options.get(_STANDARD_ERROR):
            raise options.error("standard-error is not supported: rows are printed to the standard output")
        parallelism = options.get(_PARALLELISM)
        results = PrintResults(
            options.get(_IDENTIFIER) or None,
            parallel=parallelism is not None and parallelism > 1,
            text_of=RowText(request.row_type),
        )
        return TableSink(results=results, parallelism=parallelism)
