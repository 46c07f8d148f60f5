"""The pacing of batches: a row never costs much more because its batch is small."""

from __future__ import annotations

from random import Random

import pytest

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX, TARGET_NS
from penstock.engine.runtime.task.column_pacing import ColumnPacing, pacing_clock


def after(calls: int, per_call_ns: int, per_row_ns: int, first: int = 1) -> tuple[ColumnPacing, int]:
    """Return the pacing after calls of a function with these costs, and the number of rows that it got."""
    pacing, rows = ColumnPacing(first), 0
    for _ in range(calls):
        size = pacing.records_max
        rows += size
        pacing.adapt(size, per_call_ns + per_row_ns * size)
    return pacing, rows


def test_a_fast_function_gets_many_rows() -> None:
    """The price of a call would be paid for a few rows each time."""
    assert after(20, 1_000, 1)[0].records_max == COLUMN_RECORDS_MAX


@pytest.mark.parametrize("first", [1, 64, 2_000])
def test_a_model_whose_call_takes_long_gets_large_batches(first: int) -> None:
    """Each call would get one row, and the job would take as many calls as there are rows."""
    pacing, rows = after(50, 100_000_000, 1_000, first)
    assert pacing.records_max >= 30_000 and rows > 1_000_000


@pytest.mark.parametrize(("per_row_ns", "most"), [(80_000, 50), (1_000_000, 4), (50_000_000, 1)])
def test_rows_that_take_long_come_in_small_batches(per_row_ns: int, most: int) -> None:
    """Barriers, flushes and cancellation would wait for a whole batch."""
    pacing, rows = after(500, 0, per_row_ns, 1)
    assert pacing.records_max <= most and rows <= 500 * most + 100
    assert after(500, 0, per_row_ns, 4_096)[0].records_max <= most


def test_batches_are_no_larger_than_they_are_worth() -> None:
    """A call would take long for rows that cost as much in smaller batches."""
    pacing, _ = after(200, 10_000_000, 1_000_000)
    assert 8 <= pacing.records_max <= 32


def test_small_chunks_say_nothing_of_a_size_that_is_tried() -> None:
    """At a low rate the first small chunk would end the search."""
    pacing = ColumnPacing(1)
    pacing.adapt(1, 50 * TARGET_NS)
    assert pacing.records_max == 2
    pacing.adapt(1, 50 * TARGET_NS)
    pacing.adapt(0, 50 * TARGET_NS)
    assert pacing.records_max == 2
    pacing.adapt(2, 51 * TARGET_NS)
    pacing.adapt(2, 51 * TARGET_NS)
    assert pacing.records_max == 4


def test_a_function_that_becomes_slow_is_noticed() -> None:
    """Batches would keep the size that was right before."""
    pacing, _ = after(100, 0, 50_000)
    before = pacing.records_max
    for _ in range(3_000):
        pacing.adapt(pacing.records_max, 5_000_000 * pacing.records_max)
    assert pacing.records_max == 1 < before


def test_rows_that_take_longer_are_noticed_by_a_size_that_was_settled() -> None:
    """A thousand calls would take as long as the whole batch: hours, in which no checkpoint completes."""
    pacing, _ = after(60, 100_000_000, 1_000)
    assert pacing.records_max == COLUMN_RECORDS_MAX
    slow_ns = 0
    for _ in range(20):
        slow_ns += pacing.records_max * 5_000_000
        pacing.adapt(pacing.records_max, pacing.records_max * 5_000_000)
    assert pacing.records_max == 1 and slow_ns <= 2 * COLUMN_RECORDS_MAX * 5_000_000


def test_rows_that_take_longer_are_noticed_while_no_chunk_has_the_size_that_is_tried() -> None:
    """Chunks of one size would never complete the try, and the size would never change again."""
    pacing = ColumnPacing(256)
    for _ in range(10):
        pacing.adapt(min(256, pacing.records_max), 100_000_000)
    assert pacing.records_max == 512
    for _ in range(20):
        records = min(256, pacing.records_max)
        pacing.adapt(records, records * 50_000_000)
    assert pacing.records_max == 1


@pytest.mark.parametrize("first", [1, 64, 1_000, 30_000])
def test_a_chain_whose_call_takes_half_a_target_gets_rows_that_cost_little(first: int) -> None:
    """A chain of SQL takes a millisecond for one row: each row would take many times what it costs in a large batch."""
    pacing, rows = after(300, 1_200_000, 1_000, first)
    assert 3_000 <= pacing.records_max <= 16_384 and rows > 300 * 2_000


def test_calls_that_are_not_long_by_themselves_do_not_change_what_fits() -> None:
    """Barriers would wait for more rows, without a gain."""
    assert after(300, 0, 40_000, 4_096)[0].records_max <= 100


def test_a_bad_call_does_not_end_a_try() -> None:
    """Where others need the core now and then, batches would stay small."""
    random, pacing = Random(1), ColumnPacing(1)
    for _ in range(400):
        size = pacing.records_max
        slow = 3_000_000 if random.random() < 0.1 else 0
        pacing.adapt(size, 1_200_000 + 1_000 * size + slow)
    assert pacing.records_max >= 2_048


def test_time_without_a_core_does_not_count_for_columns() -> None:
    """The busier the machine, the smaller the batches, and the more each row would cost."""
    now, waited = 0, 0
    columns, rows = (pacing_clock(kind, lambda: now, lambda: waited) for kind in (ChunkKind.COLUMNS, ChunkKind.ROWS))
    before = columns(), rows()
    now, waited = 50, 30
    assert (columns() - before[0], rows() - before[1]) == (20, 50)
