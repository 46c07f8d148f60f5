"""What who stops a job with a savepoint is answered, and when; and what sinks prepare for one that fails."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, delivered, plan, savepoint_requested, sent

from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.effects import Finish, JobEffect, Reply
from penstock.engine.jobmaster.ending import StopFailedError
from penstock.engine.jobmaster.events import CancelRequested, CommitEnded
from penstock.engine.jobmaster.notices import Stopping
from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.task.events import Acknowledge, Close, DataEnded, Decline, Finished, Opaque
from penstock.hosts.simulator.sinks import RecordingSink

STOP = savepoint_requested(5, "/sp", stop=True)


def replies(effects: list[JobEffect]) -> list[Reply]:
    return [effect for effect in effects if isinstance(effect, Reply)]


def test_who_stops_a_job_is_answered_when_it_has_ended() -> None:
    """A script that goes on with the path would start a job beside one that still commits, and holds its slots."""
    job = Job().runs()
    job.commits = False
    job.handle(STOP)
    assert not replies(job.acknowledges(1, "file"))
    job.handle(CommitEnded(job.open_commits.pop(0).operation))
    effects = job.of_tasks(lambda v: Finished(v, 0))
    assert [type(effect) for effect in effects][-2:] == [Reply, Finish] and replies(effects) == [Reply(5, "/sp")]


def test_who_stops_a_job_is_told_that_its_output_is_not_committed() -> None:
    """The output would be missing, and nobody know that a job from the savepoint commits it. Source: Flink,
    StopWithSavepointTerminationHandlerImpl: the operation fails, and its error names the savepoint."""
    job = Job().runs()
    job.commits = False
    job.handle(STOP)
    job.acknowledges(1, "file")
    commit = job.open_commits.pop(0).operation
    job.handle(CommitEnded(commit, OSError("the target is away")))
    job.of_tasks(lambda v: Finished(v, 0))
    (answer,) = replies(job.effects)
    assert isinstance(answer.error, StopFailedError) and job.finish
    assert "savepoint /sp" in str(answer.error) and "the target is away" in str(answer.error)


def test_who_stops_a_job_that_is_cancelled_when_all_is_committed_is_told_so() -> None:
    """He would look for output that is missing."""
    job = Job().runs()
    job.handle(STOP)
    job.acknowledges(1, "file")
    job.handle(CancelRequested())
    job.of_tasks(lambda v: Finished(v, 0))
    (answer,) = replies(job.effects)
    assert isinstance(answer.error, StopFailedError)
    assert "the savepoint /sp is stored and all output before it is committed" in str(answer.error)
    assert "canceled" in str(answer.error)


def test_who_stops_a_job_is_told_that_a_task_could_not_send_its_last_part() -> None:
    """A write-ahead sink sends when it hears that the savepoint is complete: its target was away, and nobody knew that
    output is missing. Source: Flink, StopWithSavepointStoppingException."""
    job = Job().runs()
    job.handle(STOP)
    job.acknowledges(1, "file")
    job.fails(JobError("the batch could not be sent"))
    (answer,) = replies(job.effects)
    assert isinstance(answer.error, StopFailedError) and job.finish
    assert "savepoint /sp, but then tasks failed" in str(answer.error) and "the batch could not" in str(answer.error)


def test_the_path_is_told_as_soon_as_it_is_stored() -> None:
    """Who stops a job whose commits hang, and then kills it, would have to look for the savepoint."""
    job = Job().runs()
    job.commits = False
    job.handle(STOP)
    effects = job.acknowledges(1, "file")
    assert Stopping("/sp") in effects and not replies(effects)


def test_who_stops_a_job_that_is_cancelled_then_is_answered() -> None:
    """It would wait for ever; and the path says that all is committed."""
    job = Job().runs()
    job.commits = False
    job.handle(STOP)
    job.acknowledges(1, "file")
    job.handle(CancelRequested())
    job.of_tasks(lambda v: Finished(v, 0))
    (answer,) = replies(job.effects)
    assert isinstance(answer.error, StopFailedError) and "/sp" in str(answer.error)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_is_acknowledged_while_the_job_ends_without_a_checkpoint_is_delivered(is_late: bool) -> None:
    """A savepoint was declined by one task, and the sink's part of it written meanwhile: its output was missing."""
    settings = dataclasses.replace(SETTINGS, checkpoints=CheckpointSettings(interval_ms=None))
    job = Job(settings, graph=plan(sink=RecordingSink("sink"))).runs()
    source, last = job.graph.vertices[0], job.graph.vertices[-1]
    job.handle(savepoint_requested(5, "/sp"))
    job.report(source.level, Decline(source.id, 0, 1, DeclineReason.STATE, "the disk is full"))
    acknowledge = Acknowledge(last.id, 0, 1, commits=Opaque([(job.sink, ["before the savepoint"])]))
    if not is_late:
        job.report(last.level, acknowledge)
    job.of_tasks(lambda v: DataEnded(v, 0))
    assert Close in sent(job.effects)
    if is_late:
        job.report(last.level, acknowledge)
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish == Finish(JobStatus.FINISHED, None)
    assert delivered(job.effects) == ["before the savepoint"]
