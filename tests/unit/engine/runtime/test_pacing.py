"""Pacing: a call takes about two milliseconds, whatever the function does."""

from __future__ import annotations

from penstock.engine.runtime.task.budget import CHUNK_RECORDS_MAX, TARGET_NS, Pacing


def test_a_fast_function_gets_more_records_at_a_time_up_to_a_limit() -> None:
    """The price of a call would be paid for a few records each time."""
    pacing = Pacing()
    for _ in range(20):
        pacing.adapt(pacing.records_max, 1)
    assert pacing.records_max == CHUNK_RECORDS_MAX


def test_a_slow_function_gets_as_many_as_it_can_do_in_time() -> None:
    """A function that asks another service would delay barriers, flushes and cancellation by seconds."""
    pacing = Pacing()
    pacing.adapt(64, 64 * TARGET_NS // 4)
    assert pacing.records_max == 4
    pacing.adapt(4, 100 * TARGET_NS)
    assert pacing.records_max == 1


def test_the_first_record_goes_alone() -> None:
    """A newcomer with a `time.sleep(1)` in a function would see nothing for a minute, and think that nothing runs."""
    assert Pacing().records_max == 1


def test_what_says_nothing_changes_nothing() -> None:
    """A poll that waits for its file system without a record, or a small chunk, would be taken for the usual case."""
    pacing = Pacing()
    before = pacing.records_max
    pacing.adapt(0, 100 * TARGET_NS)
    pacing.adapt(before - 1, 1)
    pacing.adapt(before, TARGET_NS)
    assert pacing.records_max == before


def test_a_long_chain_gets_more_time() -> None:
    """A chain of 2,000 operators takes milliseconds for a chunk of any size, and would get one record at a time."""
    pacing = Pacing(64, sections=40)
    pacing.adapt(64, 40 * TARGET_NS)
    assert pacing.records_max == 64
    pacing.adapt(64, 160 * TARGET_NS)
    assert pacing.records_max == 16
