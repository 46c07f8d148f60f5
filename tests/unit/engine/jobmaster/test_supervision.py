"""Deadlines of an attempt: which one passes, when, and when the host has to look."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.errors import JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.region import Supervision
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.runtime.ids import AttemptId

SETTINGS = JobSettings(
    heartbeat_timeout_ms=500, cancellation_timeout_ms=2_000, registration_timeout_ms=3_000, failure_grace_ms=100
)
GRAPH = plan(2)
START_MS = 1_000


def attempt_of(registered: bool = True, deployed_ms: int = START_MS) -> Attempt:
    """An attempt that was deployed; `registered`: whether all its slots have registered at that time."""
    attempt = Attempt(AttemptId(0, 0), GRAPH, lambda effect: None, START_MS)
    attempt.deploy_if_started(deployed_ms)
    if registered:
        for slot in attempt.slots:
            attempt.reported(slot, deployed_ms)
            attempt.registered(slot)
    return attempt


def test_slots_have_their_time_from_the_deployment_on() -> None:
    """A job that lists its input for minutes would fail before Spark had started one of its tasks."""
    supervision = Supervision(SETTINGS)
    waiting = Attempt(AttemptId(0, 0), GRAPH, lambda effect: None, START_MS)
    assert supervision.find_fault(waiting, 1_000_000) is None and supervision.wake_at_ms(waiting) is None
    attempt = attempt_of(registered=False, deployed_ms=50_000)
    assert supervision.find_fault(attempt, 53_000) is None
    fault = supervision.find_fault(attempt, 53_001)
    assert fault is not None and fault.slot is None, "no single slot is to blame: the attempt has failed as a whole"


def test_the_message_names_the_slots_that_are_missing_and_what_to_look_for() -> None:
    """A user with too few slots would not know what to change."""
    attempt = attempt_of(registered=False)
    *first, last = sorted(attempt.slots)
    for slot in first:
        attempt.registered(slot)
    fault = Supervision(SETTINGS).find_fault(attempt, 100_000)
    assert fault is not None
    assert f"these slots sent no message for 3 s: level {last.level} slot {last.index}. " in str(fault.error)
    assert f"Check that Spark has {len(attempt.slots)} free slots" in str(fault.error)


def test_a_slot_that_is_silent_is_lost_and_the_others_are_not() -> None:
    """The tasks of slots that are alive would not be canceled, or those of a lost one would be waited for."""
    attempt = attempt_of()
    silent, *others = sorted(attempt.slots)
    for slot in others:
        attempt.reported(slot, START_MS + 400)
    supervision = Supervision(SETTINGS)
    assert supervision.find_fault(attempt, START_MS + 500) is None
    fault = supervision.find_fault(attempt, START_MS + 501)
    assert fault is not None and fault.slot == silent
    assert str(fault.error) == f"no heartbeat from level {silent.level} slot {silent.index} for 500 ms"


@pytest.mark.parametrize(
    ("first", "second", "abandoned_ms"),
    [
        ("failed", None, 100),
        ("canceled", None, 2_000),
        ("failed", "canceled", 100),
        ("canceled", "failed", 2_000),
        ("failed", "failed", 100),
        ("canceled", "canceled", 2_000),
    ],
)
def test_the_first_deadline_to_close_by_is_the_one_that_holds(
    first: str, second: str | None, abandoned_ms: int
) -> None:
    """Each further failure, or click on cancel, would give a worker that hangs more time."""
    attempt, supervision = attempt_of(), Supervision(SETTINGS)
    getattr(supervision, first)(START_MS)
    attempt.failed(JobError("a failure")) if first == "failed" else attempt.cancel()
    if second is not None:
        getattr(supervision, second)(START_MS + 50)
    assert not supervision.abandons(attempt, START_MS + abandoned_ms - 1)
    assert supervision.wake_at_ms(attempt) == START_MS + abandoned_ms
    assert supervision.abandons(attempt, START_MS + abandoned_ms)


def test_tasks_that_closed_in_time_are_not_abandoned() -> None:
    """A user would be informed of killed workers although all of them ended by themselves."""
    attempt, supervision = attempt_of(), Supervision(SETTINGS)
    supervision.canceled(START_MS)
    attempt.cancel()
    for tasks in attempt.slots.values():
        for task in tasks:
            attempt.finished(task)
    assert attempt.status is JobStatus.CANCELED
    assert not supervision.abandons(attempt, 1_000_000) and supervision.wake_at_ms(attempt) is None


def test_without_a_timeout_a_canceled_job_waits_for_its_tasks() -> None:
    """A function that needs an hour to close would be killed, although its user has set that it must not be."""
    attempt = attempt_of()
    supervision = Supervision(dataclasses.replace(SETTINGS, cancellation_timeout_ms=0))
    supervision.canceled(START_MS)
    attempt.cancel()
    assert supervision.wake_at_ms(attempt) is None and not supervision.abandons(attempt, 10**9)


def test_the_deadline_of_one_attempt_does_not_hold_for_the_next() -> None:
    """A restarted job would be abandoned in its first second."""
    supervision = Supervision(SETTINGS)
    supervision.failed(START_MS)
    supervision.attempt_begins()
    attempt = attempt_of(deployed_ms=50_000)
    assert not supervision.abandons(attempt, 50_000)
    assert supervision.wake_at_ms(attempt) == 50_501, "only heartbeats are watched"


@given(
    heard_ms=st.lists(st.integers(0, 1_000), min_size=8, max_size=8),
    registered=st.integers(0, 8),
    end=st.sampled_from([None, "failed", "canceled"]),
    end_ms=st.integers(0, 1_000),
)
def test_the_host_is_woken_exactly_when_a_deadline_passes(
    heard_ms: list[int], registered: int, end: str | None, end_ms: int
) -> None:
    """A worker that hangs would go unnoticed until something else happens, or the driver would never rest."""
    attempt, supervision = attempt_of(registered=False), Supervision(SETTINGS)
    for slot, slot_heard_ms in list(zip(sorted(attempt.slots), heard_ms, strict=False))[:registered]:
        attempt.reported(slot, START_MS + slot_heard_ms)
        attempt.registered(slot)
    if end == "failed":
        supervision.failed(START_MS + end_ms)
        attempt.failed(TaskLostError("a worker"))
    elif end == "canceled":
        supervision.canceled(START_MS + end_ms)
        attempt.cancel()
    at_ms = supervision.wake_at_ms(attempt)
    assert at_ms is not None, "an attempt that is not over always has a deadline"
    assert supervision.find_fault(attempt, at_ms - 1) is None and not supervision.abandons(attempt, at_ms - 1)
    assert supervision.find_fault(attempt, at_ms) is not None or supervision.abandons(attempt, at_ms)
