"""What a slot advises those that send to it: by what it takes while it does not wait for input."""

from __future__ import annotations

from penstock.runtime.network.intake import BUDGET_BYTES_MIN, FIRST_MS, Advice, Intake, budget_of

TARGET_MS = 800
INTERVAL_MS = 100


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
    assert budget_of(1, 1, 1, busy_ms=1_000, target_ms=1_000) == BUDGET_BYTES_MIN


def test_a_slot_that_has_no_time_left_advises_each_sender() -> None:
    """Senders would fill all buffers on the way: seconds of records, where the sink is slow."""
    intake = Intake(TARGET_MS, 0)
    assert after(intake, FIRST_MS, {0: 10_000, 1: 10_000}) == {
        0: Advice(10_000, 800_000),
        1: Advice(10_000, 800_000),
    }
    for at in range(FIRST_MS + INTERVAL_MS, 3_000, INTERVAL_MS):
        latest = after(intake, at, {0: 10_000, 1: 30_000})
    assert latest.keys() == {0, 1}
    # 40,000 bytes in 100 ms: an equal share for one, its own rate for the other.
    assert latest[0].budget_bytes is not None
    assert latest[1].budget_bytes is not None
    assert abs(latest[0].budget_bytes - 160_000) < 20_000
    assert abs(latest[1].budget_bytes - 240_000) < 20_000


def test_a_slot_that_waits_for_input_limits_nobody_and_is_silent() -> None:
    """A job without back pressure would pay for messages, and its bursts would be held."""
    intake = Intake(TARGET_MS, 0)
    assert after(intake, FIRST_MS, {0: 500}, idle_ms=9) == {0: Advice(500, None)}
    for at in range(FIRST_MS + INTERVAL_MS, 2_000, INTERVAL_MS):
        assert after(intake, at, {0: 500}, idle_ms=90) == {}
    assert intake.due_ms() is None


def test_a_limit_is_lifted_when_the_slot_has_time_again() -> None:
    """Senders would be held to what the slot has taken while it was slow."""
    intake = Intake(TARGET_MS, 0)
    assert after(intake, FIRST_MS, {0: 500})[0].budget_bytes is not None
    said = [after(intake, at, {0: 500}, idle_ms=INTERVAL_MS) for at in range(110, 500, INTERVAL_MS)]
    lifted = next(one for one in said if one and one[0].budget_bytes is None)
    assert said[said.index(lifted) + 1 :] == [{}] * (len(said) - said.index(lifted) - 1)


def test_while_it_limits_it_speaks_though_it_has_taken_nothing() -> None:
    """The limit of a slot that waits for its own receivers would lapse, and its input would fill up."""
    intake = Intake(TARGET_MS, 0)
    after(intake, FIRST_MS, {0: 500})
    assert intake.due_ms() == FIRST_MS + INTERVAL_MS
    assert intake.advice(FIRST_MS + INTERVAL_MS - 1) == {}
    assert intake.advice(FIRST_MS + INTERVAL_MS)[0].taken_bytes == 500


def test_nothing_is_said_before_something_has_come() -> None:
    """A slot would begin with advice by a rate of nothing."""
    intake = Intake(TARGET_MS, 0)
    assert intake.due_ms() is None
    assert intake.advice(5_000) == {}
    # The time before does not count as time in which it was slow.
    assert after(intake, 5_000, {0: 100}) == {}
    assert intake.due_ms() == 5_000 + FIRST_MS


def test_a_clock_that_is_set_back() -> None:
    """Nothing would be said until the clock is where it was: hours."""
    intake = Intake(TARGET_MS, 1_000_000)
    after(intake, 1_000_010, {0: 500})
    assert after(intake, 10, {0: 500}) == {}
    assert after(intake, 10 + INTERVAL_MS, {0: 500})[0].taken_bytes == 1_500
