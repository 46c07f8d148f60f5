"""What a slot advises those that send to it: by what it takes while it does not wait for input."""

from __future__ import annotations

import pytest

from penstock.runtime.network.intake import AIM, BUDGET_BYTES_MIN, FIRST_MS, Advice, Intake, budget_of

TARGET_MS = 800
INTERVAL_MS = 100


def begun(now_ms: int = 0) -> Intake:
    """That of a slot to which something has come."""
    intake = Intake(TARGET_MS, now_ms)
    intake.took(0, 0)
    intake.advice(now_ms)
    return intake


def after(intake: Intake, now_ms: int, taken: dict[int, int], idle_ms: int = 0) -> dict[int, Advice]:
    """So much was taken by `now_ms`, and the slot has waited in between."""
    for sender, size in taken.items():
        intake.took(sender, size)
    intake.idle(idle_ms * 1_000_000)
    return intake.advice(now_ms)


def test_a_budget_is_what_is_taken_in_the_target_time() -> None:
    """A sender would have more in flight than its target allows, or a fast receiver would run dry."""
    assert budget_of(50_000, 100_000, 2, busy_ms=500, target_ms=1_000) == 100_000
    assert budget_of(100_000, 100_000, 2, busy_ms=500, target_ms=1_000) == 200_000


def test_who_sends_little_may_send_as_much_as_others() -> None:
    """A sender that was quiet could not become loud again: its budget would be what it sent while it was quiet."""
    assert budget_of(0, 100_000, 2, busy_ms=500, target_ms=1_000) == 100_000


def test_a_budget_holds_some_records_at_least() -> None:
    """Before a sink of a few records a second each record would go alone."""
    assert after(begun(), FIRST_MS, {0: 1})[0].budget_bytes == BUDGET_BYTES_MIN


def test_a_slot_that_has_no_time_left_advises_each_sender() -> None:
    """Senders would fill all buffers on the way: seconds of records, where the sink is slow."""
    intake = begun()
    first = after(intake, FIRST_MS, {0: 10_000, 1: 10_000})
    assert first == dict.fromkeys((0, 1), Advice(10_000, int(1_000 * TARGET_MS * AIM)))
    for at in range(FIRST_MS + INTERVAL_MS, 6_000, INTERVAL_MS):
        latest = after(intake, at, {0: 10_000, 1: 30_000})
    assert latest.keys() == {0, 1}
    # 40,000 bytes in 100 ms: an equal share for one, its own rate for the other.
    shares = [one.budget_bytes / (400 * TARGET_MS * AIM) for one in latest.values() if one.budget_bytes is not None]
    assert shares == [pytest.approx(1 / 2, rel=0.05), pytest.approx(3 / 4, rel=0.05)]


def test_a_slot_that_waits_for_input_limits_nobody_and_is_silent() -> None:
    """A job without back pressure would pay for messages, and its bursts would be held."""
    intake = begun()
    said = [after(intake, at, {0: 500}, idle_ms=90) for at in range(10, 2_000, INTERVAL_MS)]
    lifted = next(n for n, one in enumerate(said) if one and one[0].budget_bytes is None)
    assert lifted <= TARGET_MS / INTERVAL_MS
    assert not any(said[lifted + 1 :])
    assert intake.due_ms() is None


def test_to_wait_for_the_first_records_is_no_reason_to_limit_nobody() -> None:
    """A source that is fast would fill all buffers before its slow sink has spoken a second time."""
    intake = Intake(TARGET_MS, 0)
    assert after(intake, 5_000, {0: 100}, idle_ms=5_000) == {}
    assert intake.due_ms() == 5_000 + FIRST_MS
    assert after(intake, 5_000 + FIRST_MS, {0: 100}, idle_ms=9)[0].budget_bytes is not None


def test_a_limit_is_lifted_when_the_slot_has_time_again() -> None:
    """Senders would be held to what the slot has taken while it was slow."""
    intake = begun()
    for at in range(10, 2_000, INTERVAL_MS):
        assert after(intake, at, {0: 500})[0].budget_bytes is not None
    said = [after(intake, at, {0: 500}, idle_ms=INTERVAL_MS) for at in range(2_010, 4_000, INTERVAL_MS)]
    assert [one[0].budget_bytes for one in said if one][-1] is None
    assert intake.due_ms() is None


def test_while_it_limits_it_speaks_though_it_has_taken_nothing() -> None:
    """What it says last may be lost, and what it takes next may come much later."""
    intake = begun()
    after(intake, FIRST_MS, {0: 500})
    assert intake.due_ms() == FIRST_MS + INTERVAL_MS
    assert intake.advice(FIRST_MS + INTERVAL_MS - 1) == {}
    assert intake.advice(FIRST_MS + INTERVAL_MS)[0].taken_bytes == 500


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
    assert after(intake, 10 + INTERVAL_MS, {0: 500})[0].taken_bytes == 1_500


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
        intake.took(sender, 100)
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
                intake.took(sender, each // 200)
            budget = max((said.budget_bytes or 0 for said in intake.advice(now_ms).values()), default=budget)
    assert budget <= 2 * BUDGET_BYTES_MIN
