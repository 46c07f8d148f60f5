"""Whether a slot may send more: by what it has sent, and what those it sends to say that they have taken."""

from __future__ import annotations

import pytest

from penstock.runtime.network.buffer import NO_KEY_GROUP, Header, encode
from penstock.runtime.network.in_flight import FIRST_BYTES, LAPSE_FACTOR, LAPSES_MAX, InFlight
from penstock.runtime.network.intake import LAPSE_MS, PARTS, Advice


def advised(sent: dict[int, int], advice: dict[int, Advice], now_ms: int = 0) -> InFlight:
    """A slot that has sent something and heard of all of it."""
    in_flight = InFlight(sent)
    in_flight.holds(now_ms)
    for target, one in advice.items():
        in_flight.heard(target, one, now_ms)
    return in_flight


def test_more_than_a_budget_is_not_sent() -> None:
    """Seconds of records would wait between two slots."""
    in_flight = advised(sent := {0: 50_000}, {0: Advice(40_000, 20_000)})
    assert not in_flight.holds(1)
    assert in_flight.room() == 10_000
    sent[0] = 60_000
    assert in_flight.holds(1)
    in_flight.heard(0, Advice(50_000, 20_000), 2)
    assert not in_flight.holds(2)


def test_one_target_that_is_slow_holds_the_slot() -> None:
    """What goes to the slow one would pile up while the others take."""
    in_flight = advised({0: 50_000, 1: 50_000}, {0: Advice(20_000, 20_000), 1: Advice(50_000, 20_000)})
    assert in_flight.holds(1)


def test_without_news_for_a_second_it_goes_on() -> None:
    """Advice that is lost would stop the job."""
    in_flight = advised(sent := {0: 50_000}, {0: Advice(30_000, 20_000)}, now_ms=10)
    assert in_flight.holds(10 + LAPSE_MS - 1)
    assert in_flight.lapse_ms() == 10 + LAPSE_MS
    assert not in_flight.holds(10 + LAPSE_MS)
    assert in_flight.room() == 20_000 * LAPSE_FACTOR - 20_000
    sent[0] += 1 << 30
    assert in_flight.holds(10 + LAPSE_MS)
    assert in_flight.lapse_ms() == 10 + 2 * LAPSE_MS
    assert not in_flight.holds(10 + LAPSES_MAX * LAPSE_MS)
    assert in_flight.room() is None
    assert in_flight.buffer_bytes is None


def test_a_lapse_that_nobody_has_seen_is_still_due() -> None:
    """A slot that is not looked at in the very millisecond would be asked to wait for the next one, each time."""
    in_flight = advised({0: 50_000}, {0: Advice(30_000, 20_000)}, now_ms=10)
    assert in_flight.holds(20)
    due_ms = in_flight.lapse_ms()
    assert due_ms == 10 + LAPSE_MS
    in_flight.heard(0, Advice(30_000, 20_000), 10 + 3 * LAPSE_MS)
    assert in_flight.lapse_ms() == due_ms
    assert not in_flight.holds(10 + 3 * LAPSE_MS)
    assert in_flight.lapse_ms() == 10 + 4 * LAPSE_MS


def test_a_receiver_that_takes_again_limits_again() -> None:
    """After one pause of its sink a job would go on with all buffers full."""
    in_flight = advised({0: 50_000}, {0: Advice(20_000, 20_000)})
    assert not in_flight.holds(LAPSES_MAX * LAPSE_MS)
    in_flight.heard(0, Advice(25_000, 20_000), LAPSES_MAX * LAPSE_MS + 1)
    assert in_flight.holds(LAPSES_MAX * LAPSE_MS + 1)


def test_news_without_progress_do_not_count() -> None:
    """A receiver that always says the same, because it waits for something else or is wrong, would stop the job."""
    in_flight = advised({0: 50_000}, {0: Advice(30_000, 20_000)})
    for now_ms in range(0, LAPSE_MS, 100):
        in_flight.heard(0, Advice(30_000, 20_000), now_ms)
        assert in_flight.holds(now_ms)
    assert not in_flight.holds(LAPSE_MS)


def test_a_smaller_budget_holds_at_once_and_lapses_like_any_other() -> None:
    """A receiver that finds how slow it is would be sent as much as it once took; one that is wrong stop the job."""
    in_flight = advised({0: 50_000}, {0: Advice(30_000, 40_000)})
    assert not in_flight.holds(1)
    for now_ms in range(0, LAPSES_MAX * LAPSE_MS, 100):
        in_flight.heard(0, Advice(30_000, 0), now_ms)
        assert in_flight.holds(now_ms)
    assert not in_flight.holds(LAPSES_MAX * LAPSE_MS)


@pytest.mark.parametrize("wrong", [Advice(50_001, 1), Advice(19_999, 1), Advice(-1, 1)])
def test_advice_that_is_late_or_cannot_be_true_is_dropped(wrong: Advice) -> None:
    """What is in flight would be counted wrong from then on."""
    in_flight = advised({0: 50_000}, {0: Advice(20_000, 100_000)})
    in_flight.heard(0, wrong, 1)
    assert not in_flight.holds(1)
    assert in_flight.room() == 70_000


def test_advice_of_a_slot_that_nothing_was_sent_to_is_dropped() -> None:
    """It would be an error, and fail the job."""
    in_flight = InFlight({})
    in_flight.heard(7, Advice(0, 1), 0)
    assert not in_flight.holds(0)


def test_with_nothing_in_flight_something_may_be_sent() -> None:
    """A budget of nothing would stop the job."""
    in_flight = advised({0: 50_000}, {0: Advice(50_000, 0)})
    assert not in_flight.holds(1)
    assert in_flight.room() == 1


def test_the_first_limit_is_few_records_even_of_small_ones() -> None:
    """A sink of 1,000 records/s behind three exchanges would begin half a minute behind: no checkpoint completes."""
    records = [(key, 1) for key in range(1_000)]
    bytes_each = len(encode(Header(NO_KEY_GROUP, 0, 0, 0, 0, 0), [(records, None)])) / len(records)
    exchanges, channels = 3, 4
    assert FIRST_BYTES / bytes_each * channels * exchanges < 4_000


def test_the_first_limit_is_there_before_any_advice() -> None:
    """A job before a slow sink would begin with many seconds in flight, before its sink has spoken once."""
    in_flight = InFlight(sent := {})
    assert in_flight.room() == FIRST_BYTES
    assert in_flight.buffer_bytes == FIRST_BYTES // PARTS
    sent[0] = 100
    assert not in_flight.holds(5)
    assert in_flight.room() == FIRST_BYTES - 100
    assert in_flight.buffer_bytes == FIRST_BYTES // PARTS
    sent[0] = FIRST_BYTES + 1
    assert in_flight.holds(6)
    assert not in_flight.holds(5 + LAPSE_MS)


def test_a_limit_that_is_lifted() -> None:
    """A sender would be held to what its receiver took while it was slow."""
    in_flight = advised({0: 50_000}, {0: Advice(20_000, 20_000)})
    in_flight.heard(0, Advice(20_000, None), 1)
    assert not in_flight.holds(1)
    assert in_flight.room() is None


def test_buffers_are_parts_of_the_smallest_budget() -> None:
    """A single buffer would be the whole budget, and the receiver would take it in one piece."""
    in_flight = advised({0: 10, 1: 10}, {0: Advice(10, 80_000), 1: Advice(10, 8_000)})
    assert in_flight.buffer_bytes == 8_000 // PARTS


def test_a_clock_that_is_set_back() -> None:
    """The slot would be held until the clock is where it was: hours."""
    in_flight = advised({0: 50_000}, {0: Advice(30_000, 20_000)}, now_ms=1_000_000)
    assert in_flight.holds(10)
    assert not in_flight.holds(10 + LAPSE_MS)
