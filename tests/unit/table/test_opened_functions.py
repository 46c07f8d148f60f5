"""Functions of the user's in expressions of all operators: each is opened in the task, and closed at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.connectors.batch_source import BatchSource
from penstock.table.connectors.lookup import Found, TableLookup
from penstock.table.logical_types import parse
from penstock.table.operators.grouping.changelog_normalize import ChangelogNormalizeOperator
from penstock.table.operators.joins.correlate import CorrelateOperator
from penstock.table.operators.joins.join import JoinOperator
from penstock.table.operators.joins.join_types import INNER
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.joins.lookup_join import Lookup, LookupJoinOperator
from penstock.table.operators.joins.lookup_memory import LookupMemoryOperator
from penstock.table.operators.joins.temporal_join import TemporalJoinOperator
from penstock.table.operators.rows.calc import CalcOperator
from penstock.table.operators.rows.expand import ExpandOperator
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.rows.table_functions import Unnest
from penstock.table.operators.sources.table_source import TableSourceOperator
from penstock.table.operators.sources.watermarks import WatermarkOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.window_join import WindowJoinOperator
from penstock.table.planner.data_types import DataType
from penstock.table.planner.rex_nodes import RexCall, RexInputRef
from penstock.table.user_functions import FunctionContext, ScalarFunction

COLUMNS = TableColumns(pyarrow.schema([("k", pyarrow.int64()), ("ts", pyarrow.timestamp("ms"))]))
BOTH = TableColumns(pyarrow.schema([*COLUMNS.schema, ("k0", pyarrow.int64()), ("ts0", pyarrow.timestamp("ms"))]))
INPUT = JoinInput(COLUMNS, ("k",), (False,), None)
INPUTS = (INPUT, INPUT)


class Noted(ScalarFunction):
    """Notes how it is opened and closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, function_context: FunctionContext) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def eval(self, value: int) -> bool:
        return value > 0


class NoRows(TableLookup):
    """Finds nothing."""

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        return Found(numpy.zeros(0, numpy.int64), COLUMNS.no_rows())


def lookup_join(noted: RowExpressions) -> LookupJoinOperator:
    lookup = Lookup(NoRows(), noted, COLUMNS.only(["k"]), COLUMNS, noted, noted, noted)
    return LookupJoinOperator("LookupJoin", lookup, is_left=False, condition=noted, received=COLUMNS, given=BOTH)


def table_source(noted: RowExpressions) -> TableSourceOperator:
    source = BatchSource(pyarrow.Table.from_batches([COLUMNS.no_rows()]))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return TableSourceOperator("Source", source, strategy, 200, columns=COLUMNS, watermark=noted, paths=[("k",)])


def correlate(noted: RowExpressions) -> CorrelateOperator:
    unnest = Unnest(parse("ARRAY<BIGINT>"), BOTH.only(["k0", "ts0"]), with_ordinality=False)
    return CorrelateOperator("Correlate", unnest, noted, is_left=False, condition=noted, received=COLUMNS, given=BOTH)


OPERATORS: dict[str, tuple[int, Callable[[RowExpressions], Operator]]] = {
    "Calc": (2, lambda noted: CalcOperator("Calc", noted, noted, received=COLUMNS, given=COLUMNS)),
    "Expand": (2, lambda noted: ExpandOperator("Expand", [noted, noted], received=COLUMNS, given=COLUMNS)),
    "ChangelogNormalize": (
        1, lambda noted: ChangelogNormalizeOperator("", ["k"], noted, columns=COLUMNS, update_before=True),
    ),
    "Join": (1, lambda noted: JoinOperator("Join", INNER, INPUTS, noted, given=BOTH)),
    "TemporalJoin": (
        1, lambda noted: TemporalJoinOperator("", INNER, INPUTS, times=("ts", "ts"), condition=noted, given=BOTH),
    ),
    "WindowJoin": (
        1, lambda noted: WindowJoinOperator("", INNER, INPUTS, ("ts", "ts"), noted, is_event_time=True, given=BOTH),
    ),
    "LookupJoin": (5, lookup_join),
    "LookupJoin of changes": (5, lambda noted: LookupMemoryOperator(lookup_join(noted), ["k"])),
    "Correlate": (2, correlate),
    "WatermarkAssigner": (1, lambda noted: WatermarkOperator("", noted, columns=COLUMNS, interval_ms=200)),
    "TableSourceScan": (1, table_source),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_is_opened_and_closed(name: str) -> None:
    """A model that `open` loads would be missing when the first row comes, and a connection would stay open."""
    count, operator_of = OPERATORS[name]
    function = Noted()
    column = RexInputRef(index=0, type=DataType(parse("BIGINT")))
    called: Any = RexCall(operands=(column,), type=DataType(parse("BOOLEAN")), catalog_name="noted")
    operator = operator_of(RowExpressions([called], functions={"noted": PythonCall("noted", function)}))
    Rig(operator)
    assert function.calls == ["open"] * count
    operator.close()
    assert function.calls == ["open"] * count + ["close"] * count
