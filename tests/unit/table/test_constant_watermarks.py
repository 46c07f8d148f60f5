"""Watermarks of an expression that is the same in all rows: a literal, or NULL."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig

from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.logical_types import parse
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.sources.watermarks import WatermarkOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.data_types import DataType
from penstock.table.planner.rex_nodes import RexInputRef, RexLiteral

TIME = DataType(parse("TIMESTAMP(3)"))
COLUMNS = TableColumns(pyarrow.schema([("ts", pyarrow.timestamp("ms"))]))


class Watermarks(Rig):
    """What an operator emits: numbers of rows and watermarks."""

    def emit(self, chunk: Any) -> bool:
        self.log.append(len(chunk))
        return True


@pytest.mark.parametrize(("value", "watermarks"), [("1970-01-01 00:00:01", [("watermark", 1_000)]), (None, [])])
def test_a_watermark_that_no_row_changes(value: str | None, watermarks: list[Any]) -> None:
    """WATERMARK FOR ts AS TIMESTAMP '1970-01-01 00:00:01' would fail the job with an error of Python's."""
    expressions = RowExpressions([RexLiteral(value=value, type=TIME), RexInputRef(index=0, type=TIME)])
    rig = Watermarks(WatermarkOperator("Watermarks", expressions, columns=COLUMNS, interval_ms=0))
    batch = pyarrow.record_batch([pyarrow.array([0, 5_000], pyarrow.timestamp("ms"))], schema=COLUMNS.schema)
    found = rig.do(lambda: rig.operator.process(Columns(batch)))
    assert sum(one for one in found if isinstance(one, int)) == 2
    assert [one for one in found if not isinstance(one, int)] == watermarks
