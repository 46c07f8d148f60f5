"""What joins find by time: the rows that are due, at a cost that does not depend on the others."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.state.arrays.row_keys import IntegerKeys
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.rows_by_time import RowsByTime
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime
from penstock.table.operators.table_columns import TableColumns

ROWS = pyarrow.schema([("k", pyarrow.int64()), ("ts", pyarrow.timestamp("ms"))])


@pytest.mark.parametrize("seed", range(10))
def test_numbers_are_those_of_the_time(seed: int) -> None:
    """A join would give a row with NULL before its time, or keep it for ever."""
    chance, kept, there = Random(seed), NumbersByTime(), dict[int, int]()
    for step in range(100):
        times = [
            chance.randrange(step, step + chance.choice([1, 10, 200])) for _ in range(chance.choice([0, 1, 7, 40]))
        ]
        numbers = range(1_000 * step, 1_000 * step + len(times))
        kept.add(numpy.array(times, numpy.int64), numpy.array(numbers, numpy.int64))
        there.update(zip(numbers, times, strict=True))
        due = [number for number, time in there.items() if time <= step]
        assert kept.take(step).tolist() == due
        for number in due:
            del there[number]
        assert (len(kept), kept.first) == (len(there), min(there.values(), default=None))
        assert kept.numbers().tolist() == list(there)


def test_numbers_are_replaced() -> None:
    """Rows that moved together would be taken for others."""
    kept = NumbersByTime()
    kept.add(numpy.array([5, 3]), numpy.array([1, 2]))
    kept.renumber(numpy.array([-1, 0, 1]))
    assert (kept.take(3).tolist(), kept.take(5).tolist()) == ([1], [0])


def test_a_far_time_is_no_error() -> None:
    """The first watermark is lower than all times, and a delay makes it lower still."""
    kept = NumbersByTime()
    kept.add(numpy.array([5]), numpy.array([1]))
    assert kept.take(-(1 << 63) - 1_000).tolist() == []


def rows_at(times: list[int]) -> tuple[IntegerKeys, pyarrow.RecordBatch, Any, Any]:
    """Return rows of other keys with these times, as `RowsByTime.add` takes them."""
    keys = numpy.arange(len(times))
    batch = pyarrow.record_batch([pyarrow.array(keys), pyarrow.array(times, ROWS.types[1])], schema=ROWS)
    return IntegerKeys(keys), batch, numpy.array(times), numpy.zeros(len(times), numpy.int64)


def test_rows_are_found_after_they_have_got_other_numbers() -> None:
    """A row would stay for ever, or another one go in its place, when most have gone and the rest is moved together."""
    side = JoinSide(TableColumns(ROWS), None)
    kept = RowsByTime(side, "ts")
    kept.add(*rows_at(list(range(2_000))))
    kept.retract(kept.take(1_499))
    # The side is moved together by the first call that finds it large enough.
    kept.add(*rows_at([5_000] * 100))
    assert side.next_number == 600
    kept.add(*rows_at([1_600]))
    due = kept.take(1_600)
    assert kept.times(due).tolist() == [*range(1_500, 1_601), 1_600]
    kept.retract(due)
    kept.retract(kept.take(1_999))
    assert kept.times(side.numbers()).tolist() == [5_000] * 100


def test_rows_that_are_not_due_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each watermark would look at all rows that a join has kept for hours."""
    side = JoinSide(TableColumns(ROWS), None)
    kept = RowsByTime(side, "ts")
    kept.add(*rows_at(list(range(5_000))))
    looked_at: list[int] = []
    rows = side.rows
    monkeypatch.setattr(
        side, "rows", lambda numbers, names=None: looked_at.append(len(numbers)) or rows(numbers, names)
    )
    monkeypatch.setattr(side, "numbers", lambda: pytest.fail("all rows"))
    for time in range(100):
        kept.retract(kept.take(time))
        kept.add(*rows_at([10_000]))
    assert (kept.first, sum(looked_at)) == (100, 0)
