"""What who stops a job with a savepoint is answered, and when."""

from __future__ import annotations

from tests.unit.jobmaster.played_job import Job, savepoint_requested

from penstock.common.errors import JobError
from penstock.jobmaster.effects import Finish, JobEffect, Reply
from penstock.jobmaster.ending import StopFailedError
from penstock.jobmaster.events import CancelRequested, CommitEnded
from penstock.jobmaster.notices import Stopping
from penstock.runtime.task.events import Finished

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
    assert "the savepoint /sp is there, and all output before it is committed" in str(answer.error)
    assert "cancelled" in str(answer.error)


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
