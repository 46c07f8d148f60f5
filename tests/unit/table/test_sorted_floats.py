"""ORDER BY of a whole changelog: the rows that remain, in order."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.ordering.end_sort import EndSortOperator
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns

COLUMNS = TableColumns(pyarrow.schema([("x", pyarrow.float64())]))


class Sorted(Rig):
    """What an operator emits: the texts of numbers."""

    def emit(self, chunk: Any) -> bool:
        self.log += map(repr, chunk.batch.column(0).to_pylist())
        return True


@pytest.mark.parametrize(
    ("gone", "rest"),
    [(math.nan, ["-0.0", "0.0", "1.0"]), (-0.0, ["0.0", "1.0", "nan"]), (0.0, ["-0.0", "1.0", "nan"])],
)
def test_a_row_that_is_taken_back_is_found_by_its_bits(gone: float, rest: list[str]) -> None:
    """NaN would stay for ever, and 0.0 would go in place of -0.0."""
    rig = Sorted(EndSortOperator([SortColumn(0, ascending=True, nulls_last=False)], COLUMNS))
    values = pyarrow.array([math.nan, -0.0, 0.0, 1.0, gone])
    kinds = numpy.array([RowKind.INSERT.value] * 4 + [RowKind.DELETE.value], numpy.uint8)
    rig.do(lambda: rig.operator.process(Columns(pyarrow.record_batch([values], schema=COLUMNS.schema), None, kinds)))
    found = rig.do(lambda: rig.operator.watermark(MAX_TIMESTAMP))
    # 0.0 and -0.0 are equal in the order.
    assert sorted(one for one in found if isinstance(one, str)) == sorted(rest)
