"""What bounds the rows that the write-ahead log of PostgresSink holds."""

from __future__ import annotations

import pytest

from penstock.connectors.postgres.sink.intake import Intake

CHUNK = 100


@pytest.mark.parametrize("table_rows_per_s", [1_000, 50_000])
def test_a_source_that_is_faster_than_the_table_is_held_back(table_rows_per_s: int) -> None:
    """Rows of a backlog would fill the memory, and checkpoints take longer with each."""
    intake = Intake(unlimited_rows=10_000)
    most = 0
    for _ in range(20):
        # A source that needs no time, and a checkpoint that is complete after two seconds.
        held, now_s = 0, 0.0
        while now_s < 2 and held < 1_000_000:
            held += CHUNK
            now_s += intake.buffered(CHUNK)
        intake.written(held, held / table_rows_per_s)
        most = held
    assert 10_000 < most <= 10_000 + 2 * table_rows_per_s + CHUNK


def test_a_source_that_is_slower_never_waits() -> None:
    """The log would add to the age of records, and hold up the chain of the sink."""
    intake = Intake(unlimited_rows=10_000)
    for _ in range(100):
        assert [intake.buffered(CHUNK) for _ in range(50)] == [0.0] * 50
        intake.written(50 * CHUNK, 0.1)


def test_large_chunks_of_a_slow_table_wait_for_all_of_their_time() -> None:
    """Each would wait no longer than the longest wait: rows would come many times as fast as the table takes them."""
    intake = Intake(unlimited_rows=0)
    intake.buffered(1_000)
    intake.written(1_000, 1.0)
    held, now_s = 0, 0.0
    for rows in [1_000, *[1] * 20]:
        held += rows
        now_s += intake.buffered(rows)
    assert now_s == pytest.approx(held / 1_000)
