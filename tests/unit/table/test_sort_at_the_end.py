"""ORDER BY at the end of bounded inputs: what it keeps of rows, and what a watermark costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig

from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.ordering.end_sort import EndSortOperator
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns

ROWS = TableColumns(pyarrow.schema([("n", pyarrow.int64())]))


class Sorted(Rig):
    """The operator, and the numbers that it emits."""

    def __init__(self) -> None:
        super().__init__(EndSortOperator([SortColumn(0, ascending=False, nulls_last=True)], ROWS))

    def emit(self, chunk: Any) -> bool:
        self.log += chunk.batch.column("n").to_pylist()
        return True

    def push(self, numbers: list[int], kind: int) -> None:
        """Process rows of one kind."""
        batch = pyarrow.record_batch([pyarrow.array(numbers)], schema=ROWS.schema)
        self.do(lambda: self.operator.process(Columns(batch, None, numpy.full(len(numbers), kind, numpy.uint8))))


def test_a_watermark_does_not_look_at_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five times in a second all rows would be listed, until the end."""
    looks: list[int] = []
    elements = Counter.elements

    def counted(self: Counter[Any]) -> Any:
        looks.append(len(self))
        return elements(self)

    monkeypatch.setattr(Counter, "elements", counted)
    one = Sorted()
    one.push([1, 3, 2, 3], 0)
    for watermark in range(10):
        one.until(watermark)
    assert (looks, one.log) == ([], [("watermark", watermark) for watermark in range(10)])
    one.until(MAX_TIMESTAMP)
    assert one.log[10:] == [3, 3, 2, 1, ("watermark", MAX_TIMESTAMP)]


def test_rows_that_were_taken_back_are_forgotten() -> None:
    """Each result of an aggregate that was ever there would stay in memory, and in each checkpoint."""
    one = Sorted()
    one.push([0], 0)
    for number in range(100):
        one.push([number], 1)
        one.push([number + 1], 2)
    one.push([7], 3)
    one.operator.prepare_snapshot(1, False)
    (stored,) = [of for name, table in one.operator.backend.tables.items() if table for _, of in table.items()]
    assert sorted(stored) == [((7,), -1), ((100,), 1)]
    one.push([7, 8], 0)
    one.until(MAX_TIMESTAMP)
    assert one.log == [100, 8, ("watermark", MAX_TIMESTAMP)]
