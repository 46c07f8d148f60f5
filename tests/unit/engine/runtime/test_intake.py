"""What a slot advises those that send to it: by what it takes while it does not wait for input."""

from __future__ import annotations

import pytest

from penstock.engine.runtime.network.debloating import (
    BUDGET_BYTES_MIN,
    BUFFERS_IN_FLIGHT,
    FIRST_MS,
    FREE_MS,
    TARGET_SHARE,
    URGENT,
    Advice,
    Intake,
    budget_of,
)

TARGET_MS = 800
INTERVAL_MS = 100


def takes(intake: Intake, sender: int, size: int) -> None:
    """A buffer comes, and is processed."""
    intake.received(sender, size)
    intake.started(sender, size)


def begun(now_ms: int = 0) -> Intake:
    """That of a slot to which something has come."""
    intake = Intake(TARGET_MS, now_ms)
    takes(intake, 0, 0)
    intake.advice(now_ms)
    return intake


def after(intake: Intake, now_ms: int, taken: dict[int, int], idle_ms: int = 0) -> dict[int, Advice]:
    """So much was taken by `now_ms`, and the slot has waited in between."""
    for sender, size in taken.items():
        takes(intake, sender, size)
    intake.idle(idle_ms * 1_000_000)
    return intake.advice(now_ms)


def test_a_budget_is_what_is_taken_in_the_target_time() -> None:
    """A sender would have more in flight than its target allows, or a fast receiver would run dry."""
    assert budget_of(500_000, 1_000_000, senders=2, busy_ms=5_000, target_ms=1_000) == 100_000
    assert budget_of(1_000_000, 1_000_000, senders=2, busy_ms=5_000, target_ms=1_000) == 200_000


def test_who_has_taken_little_is_sent_as_much_again() -> None:
    """Ten milliseconds of a cheap stage, before what is behind it holds it, would ask for minutes of a slow sink."""
    assert budget_of(50_000, 100_000, senders=2, busy_ms=10, target_ms=1_000) == 50_000


def test_who_sends_little_may_send_as_much_as_others() -> None:
    """A sender that was quiet could not become loud again: its budget would be what it sent while it was quiet."""
    assert budget_of(0, 1_000_000, senders=2, busy_ms=5_000, target_ms=1_000) == 100_000


def test_a_budget_holds_some_records_at_least() -> None:
    """Before a sink of a few records a second each record would go alone."""
    assert after(begun(), FIRST_MS, {0: 1})[0].budget_bytes == BUDGET_BYTES_MIN


def test_a_slot_that_has_no_time_left_advises_each_sender() -> None:
    """Senders would fill all buffers on the way: seconds of records, where the sink is slow."""
    intake = begun()
    first = after(intake, FIRST_MS, {0: 10_000, 1: 10_000})
    assert first == dict.fromkeys(
        (0, 1), Advice(10_000, 10_000, 10_000 // (BUFFERS_IN_FLIGHT // 2), has_set_aside=False)
    )
    for at in range(FIRST_MS + INTERVAL_MS, 6_000, INTERVAL_MS):
        latest = after(intake, at, {0: 10_000, 1: 30_000})
    assert latest.keys() == {0, 1}
    # 40,000 bytes in 100 ms: an equal share for one, its own rate for the other.
    shares = [one.budget_bytes / (400 * TARGET_MS * TARGET_SHARE) for one in latest.values()]
    assert shares == [pytest.approx(1 / 2, rel=0.05), pytest.approx(3 / 4, rel=0.05)]


def test_a_slot_that_waits_for_input_is_almost_silent_and_asks_for_no_small_buffers() -> None:
    """A job without back pressure would pay for messages, and for small buffers."""
    intake = begun()
    said = [after(intake, at, {0: 500}, idle_ms=90) for at in range(10, 9_000, INTERVAL_MS)]
    free = next(
        n for n, one in enumerate(said) if one and one[0].buffer_bytes > one[0].budget_bytes // BUFFERS_IN_FLIGHT
    )
    assert free <= TARGET_MS / INTERVAL_MS
    latest = said[4_000 // INTERVAL_MS :]
    assert sum(map(bool, latest)) == len(latest) * INTERVAL_MS // FREE_MS
    assert after(intake, 9_010 + FREE_MS, {}, idle_ms=FREE_MS)
    assert intake.due_ms() is None


def test_what_waits_for_input_bounds_what_comes_by_what_it_takes_while_it_has_some() -> None:
    """Behind a source that was stopped for eight seconds, and has millions, a slow sink would be sent all of them."""
    intake = begun()
    for at in range(10, 4_010, INTERVAL_MS):
        after(intake, at, {0: 5_000})
    assert after(intake, 12_000, {}, idle_ms=8_000)[0].budget_bytes == pytest.approx(
        50 * TARGET_SHARE * TARGET_MS, rel=0.1
    )
    assert after(intake, 3_600_000, {}, idle_ms=3_588_000) == {}
    assert after(intake, 3_600_020, {0: 20_000}, idle_ms=0)[0].budget_bytes < 2 * 50 * TARGET_SHARE * TARGET_MS


def test_a_part_of_what_may_come_is_worth_a_message_soon() -> None:
    """A burst would wait for the next turn, held by a budget that is small because all that came before was slow."""
    intake = begun()
    latest: dict[int, Advice] = {}
    spoke_ms = 0
    for at in range(10, 4_010, INTERVAL_MS):
        if said := after(intake, at, {0: 500}, idle_ms=90):
            latest, spoke_ms = said, at
    assert intake.due_ms() == spoke_ms + FREE_MS
    assert after(intake, 4_000 - INTERVAL_MS + 10, {0: latest[0].budget_bytes // URGENT + 1}) == {}, (
        "just now it looked"
    )
    assert intake.due_ms() == 4_000 - INTERVAL_MS + 10 + FIRST_MS
    assert after(intake, 4_000 - INTERVAL_MS + 20, {0: 1})[0].budget_bytes > latest[0].budget_bytes


def test_what_is_in_hand_is_no_measure() -> None:
    """A buffer that takes a second, and was taken ten milliseconds ago, would ask for a hundred of its kind."""
    intake = begun()
    takes(intake, 0, 10_000)
    assert intake.advice(FIRST_MS)[0] == Advice(
        10_000, BUDGET_BYTES_MIN, BUDGET_BYTES_MIN // BUFFERS_IN_FLIGHT, has_set_aside=False
    )
    takes(intake, 0, 10_000)
    assert intake.advice(1_000)[0].budget_bytes == pytest.approx(10 * TARGET_MS * TARGET_SHARE, rel=0.1)


def test_to_wait_for_the_first_records_is_no_sign_that_it_is_free() -> None:
    """A source that is fast would send large buffers before its slow sink has spoken a second time."""
    intake = Intake(TARGET_MS, 0)
    assert after(intake, 5_000, {0: 100}, idle_ms=5_000) == {}
    assert intake.due_ms() == 5_000 + FIRST_MS
    (advice,) = after(intake, 5_000 + FIRST_MS, {0: 100}, idle_ms=9).values()
    assert advice.buffer_bytes == advice.budget_bytes // BUFFERS_IN_FLIGHT


def test_while_it_is_busy_it_speaks_though_it_has_taken_nothing() -> None:
    """What it says last may be lost, and what it takes next may come much later."""
    intake = begun()
    after(intake, FIRST_MS, {0: 500})
    assert intake.due_ms() == FIRST_MS + INTERVAL_MS
    assert intake.advice(FIRST_MS + INTERVAL_MS - 1) == {}
    assert intake.advice(FIRST_MS + INTERVAL_MS)[0].consumed_bytes == 500


def test_nothing_is_said_before_something_has_come() -> None:
    """A slot would begin with advice by a rate of nothing."""
    intake = Intake(TARGET_MS, 0)
    assert intake.advice(5_000) == {}
    assert intake.due_ms() is None


def test_a_clock_that_is_set_back() -> None:
    """Nothing would be said until the clock is where it was: hours."""
    intake = begun(1_000_000)
    after(intake, 1_000_010, {0: 500})
    assert after(intake, 10, {0: 500}) == {}
    assert after(intake, 10 + INTERVAL_MS, {0: 500})[0].consumed_bytes == 1_500


def test_what_is_set_aside_counts_as_taken_as_fast_as_it_could_be() -> None:
    """At once, a sender would be sent for all that it has; never, and it would hold what the barrier waits behind."""
    intake = begun()
    for at in range(10, 4_010, INTERVAL_MS):
        after(intake, at, {0: 5_000})
    taken = intake.consumed_bytes(0)
    intake.received(0, 100_000)
    for at in range(4_010, 5_010, INTERVAL_MS):
        assert intake.due_ms() == at
        said = after(intake, at, {}, idle_ms=INTERVAL_MS)
    assert said[0].consumed_bytes - taken == pytest.approx(1_000 * 50, rel=0.2)
    intake.received(0, 900_000)
    for at in range(5_010, 15_010, INTERVAL_MS):
        said = after(intake, at, {}, idle_ms=INTERVAL_MS)
    assert said[0].consumed_bytes - taken == 2 * said[0].budget_bytes
    before = intake.consumed_bytes(0)
    intake.started(0, 40_000)
    assert intake.consumed_bytes(0) == before, "that was counted"
    intake.started(0, 960_000)
    assert intake.consumed_bytes(0) == taken + 1_000_000


def test_a_clock_that_is_set_forward() -> None:
    """An hour in which nothing was taken would count as work: senders would be held to a trickle for seconds."""
    intake = begun()
    for at in range(10, 4_010, INTERVAL_MS):
        after(intake, at, {0: 5_000})
    budgets = [after(intake, 3_600_000 + at, {0: 5_000})[0].budget_bytes for at in range(0, 4_000, INTERVAL_MS)]
    assert budgets[-1] >= 50 * TARGET_SHARE * TARGET_MS * 3 / 4


@pytest.mark.parametrize(
    ("target_ms", "senders", "interval_ms"),
    [(800, 1, 100), (800, 2, 100), (800, 4, 200), (800, 50, 400), (9_000, 2, 500)],
)
def test_the_more_senders_there_are_the_more_rarely_it_speaks(target_ms: int, senders: int, interval_ms: int) -> None:
    """Eight slots that each speak to eight, eight times a second, would spend a fifth of two cores on it.

    And who is silent for longer than half a second would be taken for one whose limit has lapsed.
    """
    intake = Intake(target_ms, 0)
    for sender in range(senders):
        takes(intake, sender, 100)
    assert intake.interval_ms == interval_ms


@pytest.mark.parametrize("senders", [2, 8, 40])
def test_a_slower_rate_is_known_as_soon_with_many_senders(senders: int) -> None:
    """Ten seconds of records would be on their way to a sink that has become slow, where two senders have three."""
    intake = Intake(1_000, 0)
    budget, now_ms = 0, 0
    for second, each in ((10, 10_000), (14, 1_000)):
        while now_ms < second * 1_000:
            now_ms += 5
            for sender in range(senders):
                takes(intake, sender, each // 200)
            budget = max((said.budget_bytes for said in intake.advice(now_ms).values()), default=budget)
    assert budget <= 2 * 1_000 * TARGET_SHARE


def test_what_was_said_before_it_was_known_where_the_senders_are_is_said_again() -> None:
    """They would hold until their first limit lapses, in each exchange."""
    intake = begun()
    for at in range(10, 4_010, INTERVAL_MS):
        after(intake, at, {0: 500}, idle_ms=90)
    intake.resend()
    assert intake.due_ms() == 3_910 + FIRST_MS
    assert after(intake, 3_920, {})[0].consumed_bytes == 20_000


def test_a_call_after_a_long_wait_is_work() -> None:
    """Records that come rarely and take seconds counted as none: a thousand of them, and a backlog is hours of work."""
    intake = Intake(TARGET_MS, now_ms := 0)
    for count in range(100):
        takes(intake, 0, 4_000)
        if not count:
            intake.advice(now_ms)
        now_ms += 5_000
        intake.finished()
        advice = intake.advice(now_ms)
        now_ms += 12_000
        intake.idle(12_000 * 1_000_000)
    assert advice[0].budget_bytes <= 4_000 * TARGET_MS / 5_000
