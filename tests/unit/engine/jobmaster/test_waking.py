"""When the host has to wake a job master, and that it does what it was woken for."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, sent
from tests.unit.engine.jobmaster.test_enumerators import call_of, plan_of

from penstock.common.errors import JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.effect_handler import make_call
from penstock.engine.jobmaster.effects import Deploy, StopAttempt
from penstock.engine.jobmaster.events import AttemptStopped, CancelRequested, DeliveryFailed, QueryFailed
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.messages import Heartbeat
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import AssignSplits, NoMoreSplits, RequestSplit, TriggerCheckpoint

PERIODIC = JobSettings(
    CheckpointSettings(interval_ms=10_000, timeout_ms=4_000, failures_tolerated=1), heartbeat_timeout_ms=60_000
)


def wakes(job: Job) -> int:
    at_ms = job.master.wake_at_ms()
    assert at_ms is not None
    return at_ms


def test_before_tasks_run_only_their_registration_is_awaited() -> None:
    """Checkpoints would be due of tasks that have not started."""
    job = Job(PERIODIC)
    assert wakes(job) == job.now_ms + PERIODIC.registration_timeout_ms + 1


def test_a_periodic_checkpoint_begins_when_it_was_announced() -> None:
    """Checkpoints would begin with the next heartbeat, and not at their time."""
    job = Job(PERIODIC).runs()
    assert wakes(job) == job.now_ms + 10_000
    assert job.master.wake_at_ms(checkpoints=False) == job.now_ms + 60_001, "the next deadline without them"
    assert TriggerCheckpoint not in sent(job.waits(9_999))
    assert TriggerCheckpoint in sent(job.waits(1))
    assert wakes(job) == job.now_ms + 4_000, "when it expires"


def test_checkpoints_that_expire_fail_the_job_when_there_are_too_many() -> None:
    """A job that can take no checkpoint would run on, and lose all of its state with the first worker."""
    job = Job(PERIODIC).runs()
    job.waits(10_000)
    job.waits(4_000)
    assert job.master.status is JobStatus.RUNNING, "one is tolerated"
    job.waits(6_000)
    job.waits(4_000)
    assert job.attempt.status is JobStatus.FAILING
    assert "2 in a row" in str(job.attempt.error)


def test_an_enumerator_is_asked_for_new_splits_at_its_time() -> None:
    """New files would be found when the next checkpoint begins."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    assert wakes(job) == 5_000


@pytest.mark.parametrize("stored", [True, False])
def test_a_restart_is_waited_for_but_not_while_the_storage_is_busy(stored: bool) -> None:
    """The driver would use a whole processor while it waits for a slow store."""
    job = Job().runs()
    job.stores = stored
    job.fails(TaskLostError("a worker"))
    assert job.master.status is JobStatus.RESTARTING
    assert job.master.wake_at_ms() == (job.now_ms + 100 if stored else None)
    assert any(isinstance(effect, Deploy) for effect in job.waits(100)) == stored
    while job.operations:
        job.store()
    assert job.attempt.number == 1, "it follows when the storage has answered"


def test_a_failed_attempt_is_stopped_when_its_grace_period_ends() -> None:
    """A function that does not close would hold up each restart until the next heartbeat."""
    job = Job().runs()
    job.handle(DeliveryFailed(AttemptId(0, 0), OSError("broken pipe")))
    assert wakes(job) == job.now_ms + SETTINGS.failure_grace_ms
    assert any(isinstance(effect, StopAttempt) for effect in job.waits(SETTINGS.failure_grace_ms))


def test_time_does_not_run_backwards() -> None:
    """A clock that is set back by an hour would stop all checkpoints for an hour, or take live slots for silent."""
    job = Job(PERIODIC).runs()
    job.waits(10_000)
    job.acknowledges(1)
    due_ms = wakes(job)
    job.now_ms -= 3_600_000
    job.handle(CancelRequested())
    assert job.master.now_ms == due_ms - 10_000
    assert wakes(job) == job.master.now_ms + PERIODIC.cancellation_timeout_ms


def test_heartbeats_of_an_attempt_that_is_gone_do_not_count() -> None:
    """A slot of the present attempt that hangs would be taken for alive, because one of the last attempt was."""
    job = Job(dataclasses.replace(SETTINGS, heartbeat_timeout_ms=500)).runs()
    job.fails(TaskLostError("a worker"))
    job.restarts().runs()
    job.now_ms += 501
    for level in (0, 1):
        job.report(level, Heartbeat([]), attempt=0)
    assert "no heartbeat from level 0 slot 0" in str(job.attempt.error)


def test_an_error_of_ours_is_not_taken_for_a_failure_of_the_job() -> None:
    """A fault of penstock would be restarted again and again, and its message hidden among those of users' code."""
    job = Job().runs()
    with pytest.raises(AssertionError, match="a rule is broken"):
        job.master.guarded(broken)
    assert job.master.status is JobStatus.RUNNING
    assert not job.master.guarded(lambda: (_ for _ in ()).throw(JobError("of a user")))
    assert job.attempt.status is JobStatus.FAILING


def broken() -> None:
    raise AssertionError("a rule is broken")


def test_queries_that_fail_one_after_the_other_are_one_failure() -> None:
    """A job of several queries would lose a restart for each of them."""
    job = Job(attempts=1).runs()
    job.master.handle(QueryFailed(AttemptId(0, 0), TaskLostError("first")), job.now_ms)
    job.handle(QueryFailed(AttemptId(0, 0), TaskLostError("second")))
    assert str(job.attempt.error) == "first"
    assert not any(isinstance(effect, StopAttempt) for effect in job.effects), "it was requested with the first one"
    job.handle(AttemptStopped(AttemptId(0, 0)))
    assert job.master.status is JobStatus.RESTARTING


def test_the_end_of_an_earlier_attempt_is_not_taken_for_that_of_the_present_one() -> None:
    """The next attempt would be deployed while tasks of this one still write to the same sinks."""
    job = Job().runs()
    job.fails(TaskLostError("a worker"))
    job.restarts().runs()
    job.master.handle(QueryFailed(AttemptId(0, 1), TaskLostError("another worker")), job.now_ms)
    job.handle(AttemptStopped(AttemptId(0, 0)))
    assert not any(isinstance(effect, Deploy) for effect in job.waits(60_000))
    job.handle(AttemptStopped(AttemptId(0, 1)))
    job.restarts()


def test_a_split_is_requested_until_there_are_no_more() -> None:
    """A reader would wait for a split for ever, and a job with an end would never come to it."""
    job = Job().runs()
    answers = [sent(job.report(0, RequestSplit(0, 0))) for _ in range(3)]
    assert answers[0] == {AssignSplits} and answers[-1] == {NoMoreSplits}
