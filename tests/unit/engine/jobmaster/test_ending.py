"""The regular end of a job, and what becomes of it when a savepoint fails, the job fails, or a user changes plans."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, delivered, plan, savepoint_requested, sent

from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.errors import CheckpointError, DamagedCheckpointError, JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import Commit, DeleteJob, DeleteSavepoint, StoreManifest
from penstock.engine.jobmaster.checkpoint_vertices import vertex_of_sinks
from penstock.engine.jobmaster.effects import CloseResults, Finish, JobEffect, Reply
from penstock.engine.jobmaster.events import (
    CancelRequested,
    CheckpointRequested,
    ResultsClosed,
    SavepointRequested,
    StorageEnded,
    Tick,
)
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    CheckpointComplete,
    Close,
    DataEnded,
    Decline,
    Drain,
    Finished,
    Opaque,
    TriggerCheckpoint,
)
from penstock.hosts.simulator.sinks import RecordingSink

STOP = savepoint_requested(5, "/sp", stop=True)
DRAIN = savepoint_requested(5, "/sp", stop=True, drain=True)


def replies(effects: list[JobEffect]) -> list[Reply]:
    return [effect for effect in effects if isinstance(effect, Reply)]


def triggered(effects: list[JobEffect]) -> bool:
    return TriggerCheckpoint in sent(effects)


def declines(job: Job, number: int, detail: str) -> list[JobEffect]:
    """The last task of the job can't take part in a checkpoint."""
    vertex = job.graph.vertices[-1]
    return job.report(vertex.level, Decline(vertex.id, 0, number, DeclineReason.STATE, detail))


@pytest.mark.parametrize("stop", [False, True])
def test_a_job_goes_on_after_a_savepoint_that_failed(stop: bool) -> None:
    """A job would stand still because the disk for a savepoint was full."""
    job = Job().runs()
    job.handle(savepoint_requested(5, "/sp", stop=stop))
    (answer,) = replies(declines(job, 1, "the disk is full"))
    assert isinstance(answer.error, CheckpointError) and "the disk is full" in str(answer.error) and not answer.text
    assert job.master.status is JobStatus.RUNNING and Close not in sent(job.effects)
    job.takes_checkpoint()
    assert job.completed == [2]
    job.handle(savepoint_requested(6, "/other", stop=True))
    job.acknowledges(3)
    job.of_tasks(lambda v: Finished(v, 0))
    assert Reply(6, "/other") in job.effects, "it may be requested once more"


def test_a_savepoint_that_failed_leaves_no_directory() -> None:
    """A user would take half a savepoint for a whole one."""
    job = Job().runs()
    job.handle(savepoint_requested(5, "/sp"))
    effects = declines(job, 1, "no state")
    assert [effect.directory for effect in effects if isinstance(effect, DeleteSavepoint)] == ["/sp"]
    assert AbortCheckpoint in sent(effects)


def test_a_savepoint_does_not_end_the_job_by_itself() -> None:
    """A user who saves a job every night would find it stopped in the morning."""
    job = Job().runs()
    job.handle(savepoint_requested(5, "/sp"))
    effects = job.acknowledges(1)
    assert replies(effects) == [Reply(5, "/sp")] and Close not in sent(effects)
    assert triggered(job.handle(CheckpointRequested())), "it goes on taking checkpoints"


def test_a_job_that_stops_takes_no_other_checkpoint() -> None:
    """What is committed with the savepoint would be done again by a job that is restored from that checkpoint."""
    job = Job().runs()
    job.handle(STOP)
    job.acknowledges(1)
    assert not triggered(job.handle(CheckpointRequested()))
    assert not triggered(job.waits(3_600_000 // 80))


def test_savepoints_are_taken_one_after_the_other() -> None:
    """The second user would receive no answer, or a savepoint whose barriers have overtaken those of the first."""
    job = Job().runs()
    job.handle(savepoint_requested(1, "/a"))
    assert not triggered(job.handle(savepoint_requested(2, "/b")))
    assert not triggered(job.handle(CheckpointRequested())), "a checkpoint would overtake both"
    effects = job.acknowledges(1)
    assert replies(effects) == [Reply(1, "/a")] and triggered(effects)
    assert replies(job.acknowledges(2)) == [Reply(2, "/b")]


@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("first", [(), (savepoint_requested(4, "/first"),)])
@pytest.mark.parametrize(
    "second",
    [
        savepoint_requested(6, "/b"),
        savepoint_requested(6, "/b", stop=True),
        savepoint_requested(6, "/b", stop=True, drain=True),
    ],
)
def test_nothing_is_requested_of_a_job_that_stops(
    second: SavepointRequested, first: tuple[SavepointRequested, ...], stores: bool
) -> None:
    """A drain would close windows half full behind the savepoint, and the job restored from it write them again."""
    job = Job().runs()
    for request in (*first, STOP):
        job.handle(request)
    effects = job.handle(second)
    (refused,) = replies(effects)
    assert refused.request == 6 and "about to end" in str(refused.error) and not sent(effects)
    if first:
        job.acknowledges(1)
        assert [answer.request for answer in replies(job.handle(second))] == [6], "it is still about to end"
    job.stores = stores
    stop = 1 + len(first)
    job.acknowledges(stop)
    assert ["about to end" in str(answer.error) for answer in replies(job.handle(second))] == [True], "it is stored"


def test_a_job_may_be_drained_when_its_stop_has_failed() -> None:
    """A user whose first savepoint met a full disk could only cancel the job, and lose what its windows hold."""
    job = Job().runs()
    job.handle(STOP)
    declines(job, 1, "the disk is full")
    assert sent(job.handle(DRAIN)) == {Drain}


@pytest.mark.parametrize("request_", [savepoint_requested(5, "/sp"), STOP, DRAIN])
def test_a_savepoint_request_is_answered_when_the_job_fails(request_: SavepointRequested) -> None:
    """The command line would wait for ever."""
    job = Job().runs()
    job.handle(request_)
    (answer,) = replies(job.fails(TaskLostError("a worker")))
    assert answer.request == 5 and isinstance(answer.error, JobError)
    assert job.master.status is JobStatus.RESTARTING, "and is restarted all the same"
    job.restarts().runs()
    job.takes_checkpoint()
    assert job.completed, "the request is not carried over to the next attempt"


@pytest.mark.parametrize("request_", [savepoint_requested(5, "/sp"), STOP, DRAIN])
def test_a_savepoint_request_is_answered_when_the_job_is_cancelled(request_: SavepointRequested) -> None:
    """A user who loses patience and cancels would leave another one waiting for ever."""
    job = Job().runs()
    job.handle(request_)
    job.handle(CancelRequested())
    effects = job.of_tasks(lambda v: Finished(v, 0))
    assert [answer.error is not None for answer in replies(effects)] == [True]
    assert job.finish is not None and job.finish.status is JobStatus.CANCELED


def test_a_drain_ends_sources_and_nothing_else() -> None:
    """A second request while the sources end would end the job without its savepoint."""
    job = Job().runs()
    assert sent(job.handle(DRAIN)) == {Drain}
    (refused,) = replies(job.handle(savepoint_requested(6, "/other")))
    assert isinstance(refused.error, JobError) and "about to end" in str(refused.error)
    assert triggered(job.of_tasks(lambda v: DataEnded(v, 0)))
    assert not replies(job.acknowledges(1))
    assert replies(job.of_tasks(lambda v: Finished(v, 0))) == [Reply(5, "/sp")]
    assert job.finish == Finish(JobStatus.FINISHED, None)


def test_no_checkpoint_begins_between_a_drain_and_its_savepoint() -> None:
    """It would commit what windows gave that were closed half full, and the job restored from it writes them again."""
    job = Job().runs()
    job.handle(DRAIN)
    assert not triggered(job.waits(3_600_000 // 80))
    assert not triggered(job.handle(CheckpointRequested()))
    assert triggered(job.of_tasks(lambda v: DataEnded(v, 0)))
    job.acknowledges(1)
    assert replies(job.of_tasks(lambda v: Finished(v, 0))) == [Reply(5, "/sp")]


def test_a_drain_waits_for_what_was_asked_for_before() -> None:
    """A savepoint that waits would be taken of half-closed windows."""
    job = Job().runs()
    job.handle(CheckpointRequested())
    job.handle(savepoint_requested(4, "/before"))
    assert not sent(job.handle(DRAIN))
    assert triggered(job.acknowledges(1))
    effects = job.acknowledges(2)
    assert replies(effects) == [Reply(4, "/before")] and Drain in sent(effects)


def test_data_that_ends_while_a_drain_waits() -> None:
    """Sources that have ended would be drained, or the user not answered."""
    job = Job().runs()
    job.handle(CheckpointRequested())
    job.handle(DRAIN)
    assert not sent(job.of_tasks(lambda v: DataEnded(v, 0)))
    effects = job.acknowledges(1)
    assert triggered(effects) and Drain not in sent(effects)
    job.acknowledges(2)
    assert replies(job.of_tasks(lambda v: Finished(v, 0))) == [Reply(5, "/sp")]


def test_after_the_end_of_the_data_there_is_nothing_to_save() -> None:
    """A savepoint would be promised of a job whose tasks are job."""
    job = Job().runs()
    job.of_tasks(lambda v: DataEnded(v, 0))
    (refused,) = replies(job.handle(savepoint_requested(6, "/sp")))
    assert isinstance(refused.error, JobError)


def test_a_job_without_an_interval_does_not_end_over_a_savepoint() -> None:
    """Its tasks would be closed before it is stored, and what sinks had prepared for it would be discarded."""
    job = Job(JobSettings()).runs()
    job.handle(savepoint_requested(5, "/sp"))
    job.of_tasks(lambda v: DataEnded(v, 0))
    assert Close not in sent(job.effects)
    effects = job.acknowledges(1, "prepared")
    assert [effect.committables for effect in effects if isinstance(effect, Commit)] == [["prepared"]]
    assert Reply(5, "/sp") in effects and Close in sent(effects) and not delivered(effects)


def test_what_was_prepared_for_a_savepoint_that_failed_is_a_result_of_the_job() -> None:
    """Without an interval no later checkpoint commits it: it would be missing."""
    job = Job(JobSettings()).runs()
    job.handle(savepoint_requested(5, "/sp"))
    sink_vertex = vertex_of_sinks(job.graph)[job.sink]
    level = job.graph.vertices[sink_vertex].level
    job.report(level, Acknowledge(sink_vertex, 0, 1, commits=Opaque([(job.sink, ["prepared"])])))
    source = job.graph.vertices[0]
    job.report(source.level, Decline(source.id, 0, 1, DeclineReason.STATE, "the disk is full"))
    assert not delivered(job.effects)
    effects = job.of_tasks(lambda v: DataEnded(v, 0))
    assert delivered(effects) == ["prepared"] and Close in sent(effects)


def test_a_last_checkpoint_of_an_attempt_that_failed_is_not_tried_again() -> None:
    """A checkpoint would be triggered at tasks that are gone, and fail the attempt that follows."""
    job = Job().runs()
    assert triggered(job.of_tasks(lambda v: DataEnded(v, 0)))
    assert not triggered(job.fails(TaskLostError("a worker")))
    job.restarts().runs()
    assert job.master.coordinator.under_way == []
    assert triggered(job.of_tasks(lambda v: DataEnded(v, 0))), "the next attempt comes to its own end"
    assert Close in sent(job.acknowledges(2))


def test_the_end_waits_for_a_checkpoint_that_is_under_way() -> None:
    """Two checkpoints at once would be taken at the end though only one is allowed, and one of them is declined."""
    job = Job().runs()
    first = job.begins_checkpoint()
    assert not triggered(job.of_tasks(lambda v: DataEnded(v, 0)))
    effects = job.acknowledges(first, "before the end")
    assert CheckpointComplete in sent(effects) and Close not in sent(effects) and triggered(effects)
    assert Close in sent(job.acknowledges(first + 1, "at the end"))


# What happens to results and checkpoints at the end.


def test_a_job_whose_results_could_not_be_taken_has_failed() -> None:
    """A job would be reported as a success though a part of its output is missing."""
    job = ClosingJob(JobSettings()).runs()
    job.of_tasks(lambda v: DataEnded(v, 0))
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.master.status is JobStatus.RUNNING, "not over before its results are closed"
    job.handle(ResultsClosed(OSError("the last rename failed")))
    assert job.finish is not None and job.finish.status is JobStatus.FAILED
    assert "the last rename failed" in str(job.finish.error) and job.master.error is job.finish.error


def without_interval(has_directory: bool, sink: RecordingSink | None) -> Job:
    settings = dataclasses.replace(SETTINGS.checkpoints, interval_ms=None, has_directory=has_directory)
    return Job(dataclasses.replace(SETTINGS, checkpoints=settings), graph=plan(sink=sink)).runs()


def test_without_an_interval_what_is_left_is_committed_by_a_last_checkpoint() -> None:
    """A driver that dies over its commits would leave a part of the output, and nobody could do the rest."""
    job = without_interval(has_directory=True, sink=RecordingSink("sink"))
    effects = job.of_tasks(lambda v: DataEnded(v, 0))
    assert triggered(effects) and Close not in sent(effects)
    effects = job.acknowledges(1, "the rest")
    assert [effect.committables for effect in effects if isinstance(effect, Commit)] == [["the rest"]]
    assert Close in sent(effects)
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and job.finish.status is JobStatus.FINISHED


@pytest.mark.parametrize(("has_directory", "sink"), [(False, RecordingSink("sink")), (True, None)])
def test_without_an_interval_no_last_checkpoint_is_taken_in_vain(
    has_directory: bool, sink: RecordingSink | None
) -> None:
    """A job would write all of its state at its end, for nothing: nobody can find it, or there is nothing to commit."""
    job = without_interval(has_directory, sink)
    assert Close in sent(job.of_tasks(lambda v: DataEnded(v, 0)))


class ClosingJob(Job):
    """Its results are closed by the test."""

    def _does(self, effects: list[JobEffect]) -> None:
        super()._does([effect for effect in effects if not isinstance(effect, CloseResults)])


@pytest.mark.parametrize("end", ["cancelled", "failed", "finished"])
@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_which_checkpoints_stay(retention: ExternalizedCheckpointRetention, end: str) -> None:
    """The last checkpoint of a failed job would be lost, or those of all jobs that are over would fill the store."""
    job = Job(dataclasses.replace(SETTINGS, checkpoint_retention=retention), attempts=0).runs()
    job.takes_checkpoint()
    before = len(job.effects)
    if end == "cancelled":
        job.handle(CancelRequested())
        job.of_tasks(lambda v: Finished(v, 0))
    elif end == "failed":
        job.fails(TaskLostError("a worker"))
    else:
        job.of_tasks(lambda v: DataEnded(v, 0))
        job.acknowledges(2)
        job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None
    dropped = any(isinstance(effect, DeleteJob) for effect in job.effects[before:])
    stays = {
        ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: {"failed"},
        ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: {"failed"},
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: {"failed", "cancelled"},
    }[retention]
    assert dropped == (end not in stays)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_job_says_that_its_checkpoints_are_deleted(is_named: bool) -> None:
    """After a Ctrl-C the user would find the directory empty from which the job was to go on, and not know why."""
    settings = dataclasses.replace(
        SETTINGS,
        checkpoint_retention=ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        has_checkpoint_directory=is_named,
    )
    job = Job(settings, attempts=0).runs()
    job.takes_checkpoint()
    job.handle(CancelRequested())
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and job.finish.error is not None
    notes = getattr(job.finish.error, "__notes__", [])
    assert [("RETAIN_ON_CANCELLATION" in note, "penstock stop" in note) for note in notes] == [(True, True)] * is_named


@pytest.mark.parametrize("goes_beyond", [False, True])
@pytest.mark.parametrize("kind", [TaskLostError, DamagedCheckpointError])
def test_a_run_that_fails_leaves_what_it_was_to_go_on_from(goes_beyond: bool, kind: type[JobError]) -> None:
    """One flipped bit, or one mistake in a new program, and whole checkpoints of all the work before were deleted."""
    former = Job().runs()
    former.takes_checkpoint()
    settings = dataclasses.replace(
        SETTINGS,
        checkpoint_retention=ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        has_checkpoint_directory=True,
    )
    job = Job(settings, attempts=0, origin=former.master.completed.newest, epoch=2).runs()
    if goes_beyond:
        job.takes_checkpoint()
    error = kind("it is gone")
    job.fails(error)
    assert job.finish is not None and job.finish.error is error
    assert not any(isinstance(effect, DeleteJob) for effect in job.effects)
    assert "Its checkpoints are kept" in str(error)


@pytest.mark.parametrize("goes_beyond", [False, True])
def test_a_run_that_is_cancelled_leaves_what_it_was_to_go_on_from(goes_beyond: bool) -> None:
    """A Ctrl-C in the first second, at the sight of a wrong option, would delete all the work before."""
    former = Job().runs()
    former.takes_checkpoint()
    settings = dataclasses.replace(
        SETTINGS,
        checkpoint_retention=ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        has_checkpoint_directory=True,
    )
    job = Job(settings, attempts=0, origin=former.master.completed.newest, epoch=2).runs()
    if goes_beyond:
        job.takes_checkpoint()
    job.handle(CancelRequested())
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and job.finish.error is not None
    assert any(isinstance(effect, DeleteJob) for effect in job.effects) is goes_beyond
    assert any("not deleted" in note for note in job.finish.error.__notes__) is not goes_beyond


def test_checkpoints_that_stay_or_never_were_are_not_said_to_be_deleted() -> None:
    """A user would look for a setting that is set, or for checkpoints that the job never took."""
    for retention in ExternalizedCheckpointRetention:
        retains = retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        settings = dataclasses.replace(SETTINGS, checkpoint_retention=retention, has_checkpoint_directory=True)
        job = Job(settings).runs()
        if retains:
            job.takes_checkpoint()
        job.handle(CancelRequested())
        job.of_tasks(lambda v: Finished(v, 0))
        assert job.finish is not None and not hasattr(job.finish.error, "__notes__")
        failed = Job(settings, attempts=0).runs()
        failed.fails(CheckpointError("the disk is full"))
        assert failed.finish is not None and not hasattr(failed.finish.error, "__notes__")


def test_the_job_is_over_when_the_storage_has_answered() -> None:
    """The driver would exit while checkpoints are being deleted, and leave half of them."""
    job = Job(
        dataclasses.replace(SETTINGS, checkpoint_retention=ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
    )
    job.runs().takes_checkpoint()
    job.handle(CancelRequested())
    job.stores = False
    job.of_tasks(lambda v: Finished(v, 0))
    while job.operations:
        assert job.finish is None and job.master.status is JobStatus.CANCELLING
        job.store()
    assert job.finish is not None and job.master.status is JobStatus.CANCELED


def test_what_comes_after_the_end_changes_nothing() -> None:
    """A late message would start a job that is over, or its user would be left without an answer."""
    job = Job(attempts=0).runs()
    job.fails(TaskLostError("a worker"))
    assert job.finish is not None
    for event in (CancelRequested(), CheckpointRequested(), StorageEnded(99, ""), Tick()):
        assert job.handle(event) == []
    (answer,) = replies(job.handle(savepoint_requested(9, "/sp")))
    assert answer.request == 9 and "has ended" in str(answer.error)
    assert job.master.wake_at_ms() is None
    assert not any(isinstance(effect, StoreManifest) for effect in job.effects)
