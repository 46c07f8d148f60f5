"""Whether a slot may send more: by what it has sent, and what those it sends to say that they have taken."""

from __future__ import annotations

import pytest
from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header
from penstock.engine.runtime.network.debloating import (
    BUFFER_BYTES_MIN,
    BUFFERS_IN_FLIGHT,
    FIRST_BYTES,
    FIRST_LAPSE_MS,
    FIRST_LAPSES_MAX,
    LAPSE_MS,
    STALLED_WAITS_MAX,
    Advice,
    InFlight,
)


def said(taken: int, budget: int, has_set_aside: bool = False) -> Advice:
    """What a busy receiver says."""
    return Advice(taken, budget, budget // BUFFERS_IN_FLIGHT, has_set_aside)


def advised(sent: dict[int, int], advice: dict[int, Advice], now_ms: int = 0) -> InFlight:
    """A slot that has sent something and heard of all of it."""
    in_flight = InFlight(sent)
    in_flight.update(now_ms)
    for target, one in advice.items():
        in_flight.advise(target, one, now_ms)
    return in_flight


def room(in_flight: InFlight, sent: dict[int, int], target: int = 0) -> int | None:
    """How many bytes may be sent to a target now; None: as many as there are."""
    begun = sent.get(target, 0)
    if in_flight.allows(target, 1 << 60):
        return None
    return next(more for more in range(1 << 20) if not in_flight.allows(target, begun + more))


def test_more_than_a_budget_is_not_sent() -> None:
    """Seconds of records would wait between two slots."""
    in_flight = advised(sent := {0: 50_000}, {0: said(40_000, 20_000)})
    assert not in_flight.update(1)
    assert room(in_flight, sent) == 10_000
    sent[0] = 60_000
    assert in_flight.update(1)
    in_flight.advise(0, said(50_000, 20_000), 2)
    assert not in_flight.update(2)


def test_one_target_that_is_slow_holds_the_slot() -> None:
    """What goes to the slow one would pile up while the others take."""
    in_flight = advised({0: 50_000, 1: 50_000}, {0: said(20_000, 20_000), 1: said(50_000, 20_000)})
    assert in_flight.update(1)


def test_without_news_it_goes_on_by_one_budget_after_a_second_and_then_more_slowly() -> None:
    """Advice that is lost would stop the job; and a call of eight seconds is no reason to send an hour's work."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 20_000)})
    begun_ms = 10
    for wait in (1, 2, *[4] * FIRST_LAPSES_MAX):
        assert in_flight.update(begun_ms)
        lapse_ms = in_flight.lapse_ms()
        assert lapse_ms == begun_ms + wait * LAPSE_MS
        assert in_flight.update(lapse_ms - 1)
        assert not in_flight.update(lapse_ms)
        assert room(in_flight, sent) == 20_000
        assert in_flight.lapse_ms() is None
        sent[0] += 20_000
        begun_ms = lapse_ms
    assert in_flight.buffer_sizes()(0) == 20_000 // BUFFERS_IN_FLIGHT


def lapsed(in_flight: InFlight, sent: dict[int, int], begun_ms: int) -> int:
    """It holds from then on, until it lapses; then it sends a budget. Returns how long that took."""
    assert in_flight.update(begun_ms)
    lapse_ms = in_flight.lapse_ms()
    assert lapse_ms is not None and not in_flight.update(lapse_ms)
    sent[0] += 20_000
    return lapse_ms - begun_ms


def test_where_all_calls_take_long_it_learns_to_wait() -> None:
    """With a budget for each second of each call, hours of work would be in flight after ten minutes."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 20_000)})
    waits = []
    for call in range(10):
        waits.append(lapsed(in_flight, sent, call * 100_000))
        in_flight.advise(0, said(30_001 + call, 20_000), call * 100_000 + 70_000)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, *[64_000] * 4]
    taken = sent[0]
    assert lapsed(in_flight, sent, 1_000_000) == 64_000
    in_flight.advise(0, said(taken, 20_000), 1_070_000)
    assert lapsed(in_flight, sent, 1_100_000) == LAPSE_MS, "all had been taken: what was late is its advice"


def test_it_waits_less_again_for_who_is_fast_again() -> None:
    """A task that called something slow for once would be waited for a minute when its advice is lost."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 20_000)})
    for call in range(2):
        lapsed(in_flight, sent, call * 100_000)
        in_flight.advise(0, said(30_001 + call, 20_000), call * 100_000 + 70_000)
    for turn in range(2):
        assert in_flight.update(300_000 + turn * 1_000)
        in_flight.advise(0, said(40_000 + turn, 20_000), 300_100 + turn * 1_000)
    assert lapsed(in_flight, sent, 400_000) == LAPSE_MS


def test_a_barrier_is_waited_for_by_the_second() -> None:
    """It may be behind what is not sent: waits that double would keep a checkpoint for minutes."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 20_000)})
    for call in range(3):
        lapsed(in_flight, sent, call * 100_000 - 1_000_000)
        in_flight.advise(0, said(30_001 + call, 20_000), call * 100_000 - 930_000)
    for call in range(5):
        in_flight.advise(0, said(40_001 + call, 10_000, has_set_aside=True), call * 10_000)
        assert lapsed(in_flight, sent, call * 10_000) == LAPSE_MS


def test_time_in_which_it_does_not_hold_is_no_silence() -> None:
    """A receiver that has nothing to say, as nothing comes, would be sent as much as there is after a quiet hour."""
    in_flight = advised(sent := {0: 50_000}, {0: said(50_000, 20_000)})
    assert not in_flight.update(3_600_000)
    sent[0] += 20_000
    assert in_flight.update(3_600_001)
    assert in_flight.update(3_600_000 + LAPSE_MS)
    assert not in_flight.update(3_600_001 + LAPSE_MS)


def test_time_that_passed_unseen_counts_once() -> None:
    """A sender that was stopped itself, or whose clock was set forward, would send all that it has."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 20_000)})
    assert in_flight.update(10)
    assert not in_flight.update(3_600_000)
    sent[0] += 20_000
    assert in_flight.update(3_600_000)
    assert in_flight.lapse_ms() == 3_600_000 + 2 * LAPSE_MS


def test_who_has_never_advised_is_waited_for_while_a_sink_may_open_but_not_for_ever() -> None:
    """Where advice does not get through, each exchange would crawl."""
    in_flight = InFlight(sent := {0: FIRST_BYTES})
    assert in_flight.update(0)
    for lapse in range(1, FIRST_LAPSES_MAX):
        assert not in_flight.update(lapse * FIRST_LAPSE_MS)
        assert room(in_flight, sent) == FIRST_BYTES
        sent[0] += FIRST_BYTES
        assert in_flight.update(lapse * FIRST_LAPSE_MS)
    assert not in_flight.update(FIRST_LAPSES_MAX * FIRST_LAPSE_MS)
    assert room(in_flight, sent) is None and in_flight.buffer_sizes()(0) is None
    sent[0] += 50_000
    in_flight.advise(0, said(sent[0] - 20_000, 20_000), FIRST_LAPSES_MAX * FIRST_LAPSE_MS)
    assert in_flight.update(FIRST_LAPSES_MAX * FIRST_LAPSE_MS)
    assert in_flight.buffer_sizes()(0) == 20_000 // BUFFERS_IN_FLIGHT


def test_a_receiver_that_takes_again_limits_again() -> None:
    """After one pause of its sink a job would go on with all buffers full."""
    in_flight = advised(sent := {0: 50_000}, {0: said(20_000, 20_000)})
    for second in range(10):
        in_flight.update(second * LAPSE_MS)
        sent[0] += 20_000
    in_flight.advise(0, said(25_000, 20_000), 9 * LAPSE_MS)
    assert in_flight.update(10 * LAPSE_MS)
    assert in_flight.lapse_ms() == 14 * LAPSE_MS, "it had waited for four seconds, and too short"


def test_who_speaks_and_takes_nothing_is_waited_for() -> None:
    """It is held by what comes behind it. Each second a budget more would come on top, in each exchange before it."""
    in_flight = advised({0: 50_000}, {0: said(30_000, 20_000)})
    for now_ms in range(0, STALLED_WAITS_MAX * LAPSE_MS - 100, 100):
        in_flight.advise(0, said(30_000, 20_000), now_ms)
        assert in_flight.update(now_ms)
    assert in_flight.lapse_ms() == STALLED_WAITS_MAX * LAPSE_MS
    assert in_flight.update(STALLED_WAITS_MAX * LAPSE_MS - 1)
    assert not in_flight.update(STALLED_WAITS_MAX * LAPSE_MS), "one that is wrong would stop the job"


def test_who_speaks_no_more_is_given_up_a_second_later() -> None:
    """Its process is gone, or in a long call: what may come then is one budget a second."""
    in_flight = advised({0: 50_000}, {0: said(30_000, 20_000)})
    assert in_flight.update(0)
    in_flight.advise(0, said(30_000, 20_000), 500)
    assert in_flight.update(900)
    assert in_flight.lapse_ms() == 900 + LAPSE_MS
    assert in_flight.update(899 + LAPSE_MS)
    assert not in_flight.update(900 + LAPSE_MS)


def test_who_waits_for_a_barrier_is_not_waited_for() -> None:
    """The barrier may have to come by the slot that holds: it would wait for itself."""
    in_flight = advised({0: 50_000}, {0: said(30_000, 20_000)})
    for now_ms in range(0, LAPSE_MS, 100):
        in_flight.advise(0, said(30_000, 20_000, has_set_aside=True), now_ms)
        assert in_flight.update(now_ms)
    assert not in_flight.update(LAPSE_MS)


def test_a_smaller_budget_holds_at_once_and_lapses_like_any_other() -> None:
    """A receiver that finds how slow it is would be sent as much as it once took; one that is wrong stop the job."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 40_000)})
    assert not in_flight.update(1)
    in_flight.advise(0, said(30_000, 0), 1)
    assert in_flight.update(1)
    assert in_flight.update(LAPSE_MS)
    assert not in_flight.update(1 + LAPSE_MS)
    assert room(in_flight, sent) == 1


@pytest.mark.parametrize("wrong", [said(50_001, 1), said(19_999, 1), said(-1, 1)])
def test_advice_that_is_late_or_cannot_be_true_is_dropped(wrong: Advice) -> None:
    """What is in flight would be counted wrong from then on."""
    in_flight = advised(sent := {0: 50_000}, {0: said(20_000, 100_000)})
    in_flight.advise(0, wrong, 1)
    assert not in_flight.update(1)
    assert room(in_flight, sent) == 70_000


def test_advice_of_a_slot_that_nothing_was_sent_to_is_dropped() -> None:
    """It would be an error, and fail the job."""
    in_flight = InFlight({})
    in_flight.advise(7, said(0, 1), 0)
    assert not in_flight.update(0)


def test_with_nothing_in_flight_something_may_be_sent() -> None:
    """A budget of nothing would stop the job."""
    in_flight = advised(sent := {0: 50_000}, {0: said(50_000, 0)})
    assert not in_flight.update(1)
    assert room(in_flight, sent) == 1


def test_the_first_limit_is_few_records_even_of_small_ones() -> None:
    """A sink of 1,000 records/s behind three exchanges would begin seconds behind: no checkpoint completes."""
    records = [(key, 1) for key in range(1_000)]
    bytes_each = len(encoded(Header(NO_KEY_GROUP, 0, 0, 0, 0, 0), [(records, None)])) / len(records)
    exchanges, channels = 3, 16
    assert FIRST_BYTES / bytes_each * channels * exchanges < 1_000


def test_the_first_limit_is_there_before_any_advice() -> None:
    """A job before a slow sink would begin with many seconds in flight, before its sink has spoken once."""
    in_flight = InFlight(sent := {})
    assert room(in_flight, sent) == FIRST_BYTES
    assert in_flight.buffer_sizes()(0) == BUFFER_BYTES_MIN
    sent[0] = 10
    assert not in_flight.update(5)
    assert room(in_flight, sent) == FIRST_BYTES - 10
    assert in_flight.buffer_sizes()(0) == BUFFER_BYTES_MIN
    sent[0] = FIRST_BYTES + 1
    assert in_flight.update(6)
    assert not in_flight.update(6 + FIRST_LAPSE_MS)


def test_a_target_that_gets_little_does_not_end_the_steps_of_others() -> None:
    """A slot would send a handful of records in each turn, as one of those it sends to is seldom sent anything."""
    in_flight = advised(sent := {0: 50_000, 1: 100}, {0: said(50_000, 100_000), 1: said(100, 1_000)})
    assert not in_flight.update(1)
    assert room(in_flight, sent) == 100_000
    assert room(in_flight, sent, 1) == 1_000


def test_buffers_are_parts_of_the_smallest_budget() -> None:
    """A single buffer would be the whole budget, and the receiver would take it in one piece."""
    in_flight = advised({0: 10, 1: 10}, {0: said(10, 80_000), 1: said(10, 8_000)})
    assert in_flight.buffer_sizes()(0) == in_flight.buffer_sizes()(1) == 8_000 // BUFFERS_IN_FLIGHT


def test_who_takes_little_makes_no_buffers_to_others_small() -> None:
    """Where all rows have one key, the other subtask has nothing to do, and the busy one got 256 rows at a time."""
    in_flight = advised({0: 10, 1: 10}, {0: said(10, 8_000_000), 1: Advice(10, 16, 4_096, has_set_aside=False)})
    assert in_flight.buffer_sizes()(0) == 8_000_000 // BUFFERS_IN_FLIGHT
    assert in_flight.buffer_sizes()(1) == 4_096
    assert in_flight.buffer_sizes()(2) == BUFFER_BYTES_MIN


def test_every_change_of_a_size_has_a_version() -> None:
    """A slot looks at sizes when the version has changed: its buffers would keep those of the first advice."""
    in_flight = InFlight(sent := {})
    seen = [in_flight.version]
    sent[0] = 10
    in_flight.update(0)
    seen.append(in_flight.version)
    in_flight.advise(0, said(10, 80_000), 1)
    seen.append(in_flight.version)
    in_flight.update(1)
    assert in_flight.version == seen[-1]
    in_flight.advise(0, said(10, 8_000), 2)
    seen.append(in_flight.version)
    assert len(set(seen)) == len(seen)


def test_a_limit_that_ends_has_a_version() -> None:
    """Where advice does not get through, buffers would stay tiny for ever."""
    in_flight = InFlight(sent := {0: FIRST_BYTES})
    in_flight.update(0)
    for lapse in range(1, FIRST_LAPSES_MAX + 1):
        before = in_flight.version
        in_flight.update(lapse * FIRST_LAPSE_MS)
        sent[0] += FIRST_BYTES
        in_flight.update(lapse * FIRST_LAPSE_MS)
    assert in_flight.buffer_sizes()(0) is None
    assert in_flight.version != before


def test_a_clock_that_is_set_back() -> None:
    """The slot would be held until the clock is where it was: hours."""
    in_flight = advised({0: 50_000}, {0: said(30_000, 20_000)}, now_ms=1_000_000)
    assert in_flight.update(10)
    assert not in_flight.update(10 + LAPSE_MS)


def test_a_clock_that_is_set_back_after_a_target_has_spoken() -> None:
    """When it spoke would be in the future, and it would be waited for as one that speaks."""
    in_flight = advised({0: 50_000}, {0: said(30_000, 20_000)})
    assert in_flight.update(1_000_000)
    in_flight.advise(0, said(30_000, 20_000), 1_000_050)
    assert in_flight.update(1_000_100)
    assert in_flight.update(10)
    assert in_flight.lapse_ms() == 10 + LAPSE_MS


def test_a_lapse_does_not_count_for_the_next_hold() -> None:
    """A target that has had room for an hour would get a second budget at once, by the lapse before it."""
    in_flight = advised(sent := {0: 50_000}, {0: said(30_000, 20_000)})
    assert in_flight.update(0)
    assert not in_flight.update(LAPSE_MS)
    assert not in_flight.update(3_600_000)
    sent[0] += 20_000
    assert in_flight.update(3_600_001)
    assert in_flight.update(3_600_000 + LAPSE_MS)


def test_a_target_that_is_free_again_has_the_buffers_that_it_asks_for() -> None:
    """One that got a single record would get buffers of sixteen bytes, until it got another one."""
    sent = {0: 0, 1: 20}
    in_flight = advised(sent, {1: Advice(20, 20, 2, False)})
    in_flight.advise(1, Advice(20, 20, 4096, False), 500)
    in_flight.advise(0, Advice(0, 1 << 20, 1 << 18, False), 500)
    assert in_flight.buffer_sizes()(1) == 4096
    in_flight.advise(1, Advice(20, 5_000, 8192, False), 1_500)
    in_flight.update(1_500)
    assert room(in_flight, sent, 1) == 5_000, "its next burst waits for the budget of the one before"


def test_what_is_heard_before_the_next_look_counts() -> None:
    """A free target says once that it is: a slot that had flushed its first record by a timer held for five seconds."""
    in_flight = InFlight(sent := {})
    in_flight.update(0)
    sent[1] = FIRST_BYTES + 40
    in_flight.advise(1, Advice(sent[1], 500, 4096, False), 12)
    assert not in_flight.update(50)


def test_a_wait_that_was_learned_is_forgotten_without_holding() -> None:
    """An hour after the last long call a message that is lost would cost a minute."""
    in_flight = advised(sent := {0: 1_000}, {0: said(0, 100)})
    now_ms = 0
    for _ in range(8):
        while in_flight.update(now_ms):
            now_ms += 500
        sent[0] += 100
        in_flight.update(now_ms)
        in_flight.advise(0, said(sent[0] - 1_050, 100), now_ms)
    for _ in range(20):
        sent[0] += 10
        now_ms += 100
        in_flight.advise(0, said(sent[0], 10_000), now_ms)
        assert not in_flight.update(now_ms)
    sent[0] += 20_000
    assert in_flight.update(now_ms)
    lapse_ms = in_flight.lapse_ms()
    assert lapse_ms is not None and lapse_ms - now_ms <= LAPSE_MS
