"""The job master: events in, effects out."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, plan, savepoint_requested, sent

from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.errors import (
    DamagedCheckpointError,
    JobCancelledError,
    JobError,
    NotEnoughSlotsError,
    ProgramError,
    TaskLostError,
)
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import (
    Commit,
    DeleteJob,
    RecordEnd,
    RetainOnly,
    StoreManifest,
)
from penstock.engine.jobmaster.effects import (
    Deploy,
    Finish,
    JobEffect,
    Reply,
    SendToSlot,
    StopAttempt,
)
from penstock.engine.jobmaster.events import (
    CancelRequested,
    CommitEnded,
    Tick,
)
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.messages import Heartbeat, Register, SlotFailed
from penstock.engine.runtime.task.events import (
    Acknowledge,
    Cancel,
    CheckpointComplete,
    Close,
    DataEnded,
    Drain,
    Finished,
    Senders,
    TriggerCheckpoint,
)

# The life of a job.


def test_a_job_that_ends_by_itself() -> None:
    """A job would end before its last output is committed, or never."""
    job = Job()
    job.commits = False
    job.runs()
    assert TriggerCheckpoint in sent(job.of_tasks(lambda v: DataEnded(v, 0)))
    effects = job.acknowledges(1, "file")
    assert Close not in sent(effects), "not before its commits are done"
    assert Close in sent(job.handle(CommitEnded(job.open_commits[0].operation)))
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish == Finish(JobStatus.FINISHED, None)
    assert job.master.status is JobStatus.FINISHED


def test_without_checkpoints_the_tasks_are_closed_at_once() -> None:
    """A job without checkpoints would wait for one at its end."""
    job = Job(JobSettings()).runs()
    assert Close in sent(job.of_tasks(lambda v: DataEnded(v, 0)))
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish == Finish(JobStatus.FINISHED, None)


def test_a_last_checkpoint_that_fails_is_tried_again() -> None:
    """What came after the last checkpoint that completed would never be committed."""
    job = Job(dataclasses.replace(SETTINGS, checkpoints=dataclasses.replace(SETTINGS.checkpoints, timeout_ms=500)))
    job.runs().of_tasks(lambda v: DataEnded(v, 0))
    effects = job.waits(500)
    assert TriggerCheckpoint in sent(effects)
    assert Close in sent(job.acknowledges(2))


def test_cancel_ends_tasks_and_says_who_was_killed() -> None:
    """A job could not be stopped, or its user would not learn that a worker was killed."""
    job = Job().runs()
    assert sent(job.handle(CancelRequested())) == {Cancel}
    first, *_ = job.graph.vertices
    job.report(first.level, Finished(first.id, 0))
    job.waits(SETTINGS.cancellation_timeout_ms)
    assert isinstance(job.finish and job.finish.error, JobCancelledError)
    assert "level 1 slot 0" in str(job.finish and job.finish.error)


def test_cancel_while_it_waits_for_its_restart() -> None:
    """A cancelled job would start once more."""
    job = Job().runs()
    job.fails(TaskLostError("a worker"))
    job.handle(CancelRequested())
    assert job.finish and job.finish.status is JobStatus.CANCELED
    assert not job.waits(10_000)


def test_programs_that_are_wrong_are_not_restarted() -> None:
    """A wrong program would be deployed for ever."""
    job = Job().runs()
    job.fails(ProgramError("two operators with one uid"))
    assert job.finish and isinstance(job.finish.error, ProgramError)


def test_restarts_end_with_the_strategy() -> None:
    """A job that can't run would be tried for ever."""
    job = Job(attempts=1).runs()
    job.fails(TaskLostError("once"))
    job.restarts().runs()
    job.fails(TaskLostError("twice"))
    assert job.finish and "twice" in str(job.finish.error)


def test_a_restart_waits_for_slots_without_counting() -> None:
    """An executor that is replaced after minutes would cost the job all its restarts."""
    job = Job(attempts=1).runs()
    job.fails(TaskLostError("an executor"))
    job.restarts()
    for _ in range(5):
        job.fails(NotEnoughSlotsError("too few"))
        assert job.master.status is JobStatus.RESTARTING
        job.waits(SETTINGS.slots_retry_ms)
    job.now_ms += SETTINGS.slot_request_timeout_ms
    job.fails(NotEnoughSlotsError("too few"))
    assert job.finish and job.finish.status is JobStatus.FAILED


def test_slots_that_never_register() -> None:
    """A job would wait for ever for an executor that can't reach its driver."""
    job = Job()
    job.waits(SETTINGS.registration_timeout_ms + 1)
    assert isinstance(job.attempt.error, TaskLostError)
    assert "slots sent no message for 120 s: level 0 slot 0, level 1 slot 0. Check" in str(job.attempt.error)


def test_a_restore_takes_as_long_as_it_needs() -> None:
    """A job with large state would be restarted in the middle of its restore, again and again."""
    job = Job()
    for _ in range(20):
        for vertex in job.graph.vertices:
            job.report(vertex.level, Heartbeat([]))
        job.waits(SETTINGS.heartbeat_timeout_ms // 2)
    assert job.now_ms > 2 * SETTINGS.registration_timeout_ms
    assert job.master.status is JobStatus.CREATED
    job.runs()


def test_a_slot_that_falls_silent_while_it_restores_is_lost() -> None:
    """A worker that hangs in its restore would be waited for for ever."""
    job = Job()
    for vertex in job.graph.vertices:
        job.report(vertex.level, Heartbeat([]))
    job.waits(SETTINGS.heartbeat_timeout_ms + 1)
    assert "no heartbeat" in str(job.attempt.error)


def test_a_silent_slot_is_lost() -> None:
    """A worker that hangs would block the job for ever."""
    job = Job().runs()
    job.waits(40_000)
    job.report(1, Heartbeat([]))
    job.waits(10_001)
    assert "no heartbeat from level 0 slot 0" in str(job.attempt.error)


def test_a_slot_that_registers_twice_has_lost_its_state() -> None:
    """Spark started it again with nothing: its records would be counted from zero."""
    job = Job().runs()
    job.report(1, Register())
    assert "started it again" in str(job.attempt.error)


def test_a_slot_that_spark_has_started_again_finds_no_damage() -> None:
    """A user would look for a bad disk. A worker was killed, and newer checkpoints have replaced what it restores."""
    for runs in (True, False):
        job = Job()
        if runs:
            job.runs()
        job.report(1, SlotFailed("DamagedCheckpointError", "the snapshot file chk-1/x is missing"))
        found = job.attempt.error
        assert ("started it again" in str(found)) if runs else isinstance(found, DamagedCheckpointError)


def test_tasks_of_a_failed_attempt_have_time_to_close() -> None:
    """Connections of users' functions would stay open; or a function that hangs would block the restart for ever."""
    job = Job().runs()
    effects = job.report(1, SlotFailed("UserFunctionError", "it raised"))
    assert sent(effects) == {Cancel} and not any(isinstance(effect, StopAttempt) for effect in effects)
    assert any(isinstance(effect, StopAttempt) for effect in job.waits(SETTINGS.failure_grace_ms))
    assert job.master.status is JobStatus.RESTARTING


def test_a_cancelled_job_that_fails_meanwhile_is_cancelled_in_time() -> None:
    """A worker that hangs would hold the job for as long as a user cancels it again, and it would end as failed."""
    job = Job().runs()
    job.master.fail_all(TaskLostError("a worker"))
    assert job.master.status is JobStatus.FAILING
    for _ in range(5):
        job.handle(CancelRequested())
        job.waits(SETTINGS.failure_grace_ms // 5 + 1)
    assert job.finish == Finish(JobStatus.CANCELED, job.master.error)


def test_cancelling_again_postpones_nothing() -> None:
    """Workers would never be killed while a user is impatient."""
    job = Job().runs()
    for _ in range(4):
        job.handle(CancelRequested())
        job.waits(SETTINGS.cancellation_timeout_ms // 4 + 1)
    assert job.finish is not None and "killed" in str(job.finish.error)


def test_workers_killed_in_an_earlier_attempt_are_not_reported_again() -> None:
    """A user would look for a hanging function that has long been mended."""
    job = Job().runs()
    job.master.fail_all(TaskLostError("a worker"))
    job.waits(SETTINGS.failure_grace_ms)
    job.restarts().runs().handle(CancelRequested())
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and "killed" not in str(job.finish.error)


def test_the_next_attempt_may_have_another_graph() -> None:
    """A job could not be rescaled without starting it again."""
    job = Job().runs()
    job.takes_checkpoint("before")
    job.master.graph = job.graph = plan(parallelism=2)
    job.fails(TaskLostError("a worker"))
    job.restarts()
    assert next(effect for effect in reversed(job.effects) if isinstance(effect, Deploy)).graph is job.graph
    for vertex in job.graph.vertices:
        for index in range(vertex.parallelism):
            job.report(vertex.level, Register(), index=index)
    assert job.master.status is JobStatus.RUNNING
    number = job.begins_checkpoint()
    for vertex in job.graph.vertices:
        for index in range(vertex.parallelism):
            job.report(vertex.level, Acknowledge(vertex.id, index, number), index=index)
    assert job.completed[-1] == number


def test_heartbeats_and_results_do_not_displace_what_led_to_an_error() -> None:
    """The journal in an error of the job master's own would show nothing but heartbeats."""
    job = Job().runs()
    for _ in range(300):
        job.report(0, Heartbeat([]))
    assert "Register" in str(job.master.journal) and "Heartbeat" not in str(job.master.journal)


def test_slots_learn_where_those_are_that_send_to_them() -> None:
    """What a slot takes could not be told to its senders: seconds of records would be in flight before a slow one."""
    job = Job(graph=plan(parallelism=2))
    levels = len(job.graph.widths)
    for level in range(levels):
        for index in range(2):
            # Those of the last level send nothing, so nobody has to reach them.
            job.report(level, Register(f"tcp://{level}:{index}" if level < levels - 1 else ""), index=index)
    told = {
        (job.graph.vertices[effect.message.vertex].level, effect.slot.index): effect.message.event.slots
        for effect in job.effects
        if isinstance(effect, SendToSlot) and isinstance(effect.message.event, Senders)
    }
    assert told == {
        (level, index): [(level - 1, sender, f"tcp://{level - 1}:{sender}") for sender in range(2)]
        for level in range(1, levels)
        for index in range(2)
    }


def test_slots_that_cannot_be_reached_are_told_of_to_nobody() -> None:
    """A job without buffer debloating would send as many messages as it has slots, at each start."""
    assert Senders not in sent(Job().runs().effects)


# Savepoints.


def test_a_savepoint_is_answered_with_its_path() -> None:
    """Its user would wait for ever."""
    job = Job().runs()
    job.handle(savepoint_requested(5, "/sp"))
    effects = job.acknowledges(1)
    assert Reply(5, "/sp") in effects and job.master.status is JobStatus.RUNNING


def test_a_job_stops_with_a_savepoint() -> None:
    """What was written last would never be seen, or the job would emit more after it."""
    job = Job().runs()
    job.takes_checkpoint()
    job.handle(savepoint_requested(5, "/sp", stop=True))
    effects = job.acknowledges(2, "file")
    order = [type(effect) for effect in effects if isinstance(effect, (StoreManifest, RetainOnly, Commit, Reply))]
    assert order == [StoreManifest, RetainOnly, Commit]
    assert Close in sent(effects)
    assert Reply(5, "/sp") in job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish == Finish(JobStatus.FINISHED, None)


def test_a_job_that_fails_while_it_stops_has_stopped() -> None:
    """It would be restarted from before its savepoint, and write everything since a second time."""
    job = Job().runs()
    job.takes_checkpoint()
    job.handle(savepoint_requested(5, "/sp", stop=True))
    job.acknowledges(2, "file")
    job.fails(TaskLostError("a worker"))
    assert job.finish == Finish(JobStatus.FINISHED, None)


def test_a_drain_ends_the_sources_first() -> None:
    """Windows would not fire before a job that is not to go on."""
    job = Job().runs()
    assert sent(job.handle(savepoint_requested(5, "/sp", stop=True, drain=True))) == {Drain}
    job.of_tasks(lambda v: DataEnded(v, 0))
    effects = job.acknowledges(1)
    assert Close in sent(effects)
    assert Reply(5, "/sp") in job.of_tasks(lambda v: Finished(v, 0))


def test_a_drain_whose_savepoint_fails_restarts_the_job() -> None:
    """What has fired can't be taken back: without a restart the job would stand still for ever."""
    job = Job().runs()
    job.handle(savepoint_requested(5, "/sp", stop=True, drain=True))
    job.of_tasks(lambda v: DataEnded(v, 0))
    job.stores = False
    job.acknowledges(1)
    job.store("the disk is full")
    assert "savepoint after the drain failed" in str(job.attempt.error)
    assert any(isinstance(effect, Reply) and effect.error for effect in job.effects)


def test_a_savepoint_completes_while_a_drain_waits_for_the_end_of_the_data() -> None:
    """The drain would be forgotten: a job that stands still with its sources ended, and a user who waits for ever."""
    job = Job().runs()
    job.handle(savepoint_requested(4, "/earlier"))
    job.handle(savepoint_requested(5, "/sp", stop=True, drain=True))
    assert Reply(4, "/earlier") in job.acknowledges(1)
    job.of_tasks(lambda v: DataEnded(v, 0))
    effects = job.acknowledges(2)
    assert Close in sent(effects)
    assert Reply(5, "/sp") in job.of_tasks(lambda v: Finished(v, 0))


def test_savepoints_of_jobs_that_do_not_run_are_refused() -> None:
    """Their users would wait for ever."""
    job = Job()
    assert isinstance(_error(job.handle(savepoint_requested(1, "/sp"))), JobError)
    job.runs().handle(savepoint_requested(2, "/sp", stop=True, drain=True))
    assert isinstance(_error(job.handle(savepoint_requested(3, "/other"))), JobError)
    effects = job.fails(TaskLostError("a worker"))
    assert "before the savepoint" in str(_error(effects))
    job.handle(CancelRequested())
    assert job.finish
    assert isinstance(_error(job.handle(savepoint_requested(4, "/sp"))), JobError)


def _error(effects: list[JobEffect]) -> BaseException | None:
    return next(effect.error for effect in effects if isinstance(effect, Reply))


# What stays in the storage.


@pytest.mark.parametrize(
    ("retention", "dropped"),
    [
        (ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS, True),
        (ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION, True),
        (ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, False),
    ],
)
def test_checkpoints_of_a_cancelled_job(retention: ExternalizedCheckpointRetention, dropped: bool) -> None:
    """The storage would fill up with unneeded checkpoints, or the retained one would be deleted."""
    job = Job(dataclasses.replace(SETTINGS, checkpoint_retention=retention)).runs()
    job.takes_checkpoint()
    job.handle(CancelRequested())
    effects = job.of_tasks(lambda v: Finished(v, 0))
    assert any(isinstance(effect, DeleteJob) for effect in effects) == dropped
    assert [effect.status for effect in effects if isinstance(effect, RecordEnd)] == (["CANCELED"] if dropped else [])


def test_a_store_that_hangs_delays_checkpoints_and_nothing_else() -> None:
    """A job would be taken for dead, or could not be cancelled, because its storage is unavailable for a minute."""
    job = Job(dataclasses.replace(SETTINGS, checkpoints=dataclasses.replace(SETTINGS.checkpoints, interval_ms=100)))
    job.runs().stores = False
    job.waits(100)
    job.acknowledges(1)
    for _ in range(60):
        job.now_ms += 1_000
        for level in range(2):
            job.report(level, Heartbeat([]))
        job.handle(Tick())
    assert job.master.status is JobStatus.RUNNING and len(job.operations) == 1
    assert CheckpointComplete not in sent(job.effects)
    assert sent(job.handle(CancelRequested())) == {Cancel}
    job.of_tasks(lambda v: Finished(v, 0))
    assert any(isinstance(effect, StopAttempt) for effect in job.effects)
    while job.operations:
        job.store()
    assert job.finish and job.finish.status is JobStatus.CANCELED
