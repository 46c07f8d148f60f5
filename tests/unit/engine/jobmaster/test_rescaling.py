"""Another parallelism for a running job: when it is taken, what runs on, and what leaves the job as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, deployed, plan, savepoint_requested, sent

from penstock.common.errors import CheckpointError, JobError, NotEnoughSlotsError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.effects import JobEffect, Reply
from penstock.engine.jobmaster.events import CancelRequested, HostFailed, RescaleRequested
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.notices import RescaleFailed, Rescaling
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.ids import SlotId, SubtaskId
from penstock.engine.runtime.task.events import Acknowledge, Cancel, Close, DataEnded, Decline, Finished, Opaque


def reply(effects: Iterable[JobEffect]) -> Reply | None:
    return next((effect for effect in effects if isinstance(effect, Reply)), None)


def slots(job: Job) -> dict[SlotId, list[SubtaskId]]:
    return {slot: tasks for region in job.master.regions for slot, tasks in region.attempt.slots.items()}


def all_register(job: Job) -> list[JobEffect]:
    """All slots of the regions that start."""
    effects: list[JobEffect] = []
    for level, index in slots(job):
        if job.master.regions.of_level(level).status is JobStatus.CREATED:
            effects += job.report(level, Register(), index=index)
    return effects


def all_close(job: Job, region: int = 0) -> list[JobEffect]:
    """All tasks of a region."""
    effects: list[JobEffect] = []
    for slot, tasks in job.master.regions[region].attempt.slots.items():
        for task in tasks:
            effects += job.report(slot.level, Finished(*task), index=slot.index)
    return effects


def reducer(job: Job, region: int = 0) -> int:
    """The vertex of a region that may have more than one subtask."""
    return job.master.graph.vertices_of(region)[-1].id


def rescaled(parallelism: int = 3, regions: int = 1) -> Job:
    """A job whose reducers of the first region are being closed, to run on with another parallelism."""
    job = Job(graph=plan(regions=regions)).runs()
    assert reply(job.handle(RescaleRequested(7, {reducer(job): parallelism}, free_slots=10))) is None
    assert Cancel not in sent(job.effects), "not before the checkpoint"
    assert Cancel in sent(job.acknowledges(1))
    return job


def test_a_job_runs_on_from_a_checkpoint_with_other_subtasks() -> None:
    """A user would stop a job, and start it again, to give it more machines."""
    job = rescaled()
    assert job.completed == [1] and job.master.status is JobStatus.RESTARTING
    job.now_ms += 1_500
    effects = all_close(job)
    assert deployed(effects) == [job.attempt.id] and job.attempt.number == 1
    assert job.attempt.restored_id == 1, "it begins where it was"
    assert list(slots(job)) == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert [len(job.recorder.published.executions_of(vertex)) for vertex in (0, 1)] == [1, 3]
    answer = reply(all_register(job))
    assert answer is not None and answer.error is None and "runs again after 1.5 s" in answer.text
    assert job.master.status is JobStatus.RUNNING and job.master.restarts == 0, "it was no failure"


def test_it_can_be_done_again_and_back() -> None:
    """Only the first change would be possible."""
    job = rescaled(3)
    all_close(job)
    all_register(job)
    job.handle(RescaleRequested(8, {1: 1}))
    for slot, tasks in slots(job).items():
        for vertex, subtask in tasks:
            job.report(slot.level, Acknowledge(vertex, subtask, 2, commits=Opaque([])), index=slot.index)
    assert deployed(all_close(job)) and list(slots(job)) == [(0, 0), (1, 0)]
    assert set(job.recorder.published.executions) == {(0, 0), (1, 0)}, "none is shown of subtasks that are gone"
    assert reply(all_register(job)) is not None


def test_regions_that_keep_their_parallelism_run_on() -> None:
    """All of a job would fall silent because a part of it was given more subtasks."""
    job = rescaled(regions=2)
    assert [region.status for region in job.master.regions] == [JobStatus.CANCELLING, JobStatus.RUNNING]
    assert deployed(all_close(job)) == [(0, 1)]
    assert reply(all_register(job)) is not None
    assert [region.attempt.number for region in job.master.regions] == [1, 0]
    assert [len(region.attempt.slots) for region in job.master.regions] == [4, 2]


@pytest.mark.parametrize(
    ("parallelism", "why"),
    [
        ({1: 0}, "expected 1 to 128, its maximum parallelism"),
        ({1: 129}, "expected 1 to 128, its maximum parallelism"),
        ({0: 2}, "can't have parallelism 2: one subtask reads a collection"),
        ({1: 9}, "has 2 slots and needs 10, but Spark has 7 free slots"),
    ],
)
def test_what_can_not_be_is_refused_and_the_job_runs_on(parallelism: dict[int, int], why: str) -> None:
    """A job would stop for a number that it can't have."""
    job = Job().runs()
    answer = reply(job.handle(RescaleRequested(7, parallelism, free_slots=7)))
    assert answer is not None and isinstance(answer.error, JobError | NotEnoughSlotsError)
    assert why in str(answer.error) and job.master.status is JobStatus.RUNNING and not job.master.coordinator.under_way


def test_a_job_that_has_the_parallelism_is_left_alone() -> None:
    """It would be started again for nothing."""
    job = Job().runs()
    answer = reply(job.handle(RescaleRequested(7, {1: 1})))
    assert answer is not None and "already" in answer.text and not job.master.coordinator.under_way


def test_a_job_without_checkpoints_is_not_started_from_its_beginning() -> None:
    """All that it has counted would be gone, and its output written again."""
    job = Job(dataclasses.replace(SETTINGS, checkpoints=CheckpointSettings(None))).runs()
    answer = reply(job.handle(RescaleRequested(7, {1: 2})))
    assert answer is not None and "set execution.checkpointing.interval" in str(answer.error)


def test_one_change_at_a_time() -> None:
    """A second one would take the place of the first, whose user waits."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    answer = reply(job.handle(RescaleRequested(8, {1: 3})))
    assert answer is not None and answer.request == 8 and "already" in str(answer.error)
    job.acknowledges(1)
    all_close(job)
    answer = reply(all_register(job))
    assert answer is not None and answer.request == 7 and len(slots(job)) == 3


def test_a_checkpoint_that_fails_leaves_the_job_as_it_is() -> None:
    """It would go back to an older one, and do much again, or lose what it holds."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    answer = reply(job.report(1, Decline(1, 0, 1, DeclineReason.STATE, "its disk is full")))
    assert answer is not None and isinstance(answer.error, JobError) and "its disk is full" in str(answer.error)
    assert job.master.status is JobStatus.RUNNING and Cancel not in sent(job.effects)
    assert reply(job.handle(RescaleRequested(8, {1: 2}))) is None, "it may be requested once more"


def test_a_savepoint_that_was_requested_meanwhile_is_taken_first() -> None:
    """The user who waits for it would be told that the job has failed."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    job.handle(savepoint_requested(8, "/sp"))
    assert Cancel not in sent(job.acknowledges(1))
    effects = job.acknowledges(2)
    assert reply(effects) == Reply(8, "/sp") and Cancel in sent(effects)


def test_a_job_that_stops_meanwhile_stops() -> None:
    """It would be started again, and nobody would expect it."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    job.handle(savepoint_requested(8, "/sp", stop=True))
    answer = reply(job.acknowledges(1))
    assert answer is not None and answer.request == 7 and "about to end" in str(answer.error)
    assert Close in sent(job.acknowledges(2)) and Cancel not in sent(job.effects)


def test_data_that_ends_meanwhile_ends_the_job() -> None:
    """Its last checkpoint would never come."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    job.of_tasks(lambda vertex: DataEnded(vertex, 0))
    answer = reply(job.acknowledges(1))
    assert answer is not None and "about to end" in str(answer.error) and Cancel not in sent(job.effects)


def test_a_failure_before_the_checkpoint_is_one_as_any_other() -> None:
    """Who waits for the change would wait for ever."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    answer = reply(job.fails(TaskLostError("a worker is gone")))
    assert answer is not None and "keeps its parallelism" in str(answer.error)
    job.restarts().runs()
    assert len(slots(job)) == 2 and job.master.restarts == 1


def test_a_job_that_does_not_run_with_it_goes_back_to_the_parallelism_it_had() -> None:
    """One wish too many, and a job that had run for a month would fail again and again until it is given up."""
    job = rescaled()
    all_close(job)
    effects = job.fails(TaskLostError("an executor is gone"))
    answer = reply(effects)
    assert answer is not None and "returns to the previous one: an executor is gone" in str(answer.error)
    assert any(isinstance(effect, RescaleFailed) for effect in effects)
    job.restarts()
    assert list(slots(job)) == [(0, 0), (1, 0)] and job.attempt.restored_id == 1
    assert reply(all_register(job)) is None, "it was answered"
    assert job.master.status is JobStatus.RUNNING
    assert reply(job.handle(RescaleRequested(8, {1: 2}))) is None, "another one may be tried"


def test_a_part_that_runs_with_it_already_goes_back_with_the_one_that_does_not() -> None:
    """Two parts of a job would have the parallelism of two plans."""
    job = Job(graph=plan(regions=2)).runs()
    job.handle(RescaleRequested(7, {reducer(job, 0): 2, reducer(job, 1): 2}))
    job.acknowledges(1)
    all_close(job, 0)
    assert deployed(all_close(job, 1)) == [(0, 1), (1, 1)], "together, when no task of them is left"
    for slot in job.master.regions[0].attempt.slots:
        job.report(slot.level, Register(), index=slot.index)
    job.fails(TaskLostError("gone"), region=1)
    assert job.master.regions[0].status is JobStatus.CANCELLING
    all_close(job, 0)
    job.restarts()
    assert [len(region.attempt.slots) for region in job.master.regions] == [2, 2]


def test_a_job_that_is_cancelled_while_it_changes_is_cancelled() -> None:
    """It would start again, though its user has ended it."""
    job = rescaled()
    job.handle(CancelRequested())
    assert job.master.status is JobStatus.CANCELLING
    effects = all_close(job)
    assert not deployed(effects) and job.finish is not None and job.finish.status is JobStatus.CANCELED
    answer = reply(effects)
    assert answer is not None and "ended before it was rescaled" in str(answer.error)


def test_a_fault_of_the_host_while_it_changes_is_a_failure() -> None:
    """The job would hang between two attempts."""
    job = rescaled(regions=2)
    job.handle(HostFailed(JobError("the host is confused")))
    all_close(job, 0)
    all_close(job, 1)
    assert job.master.status is JobStatus.RESTARTING
    assert deployed(job.waits(100)) == [(0, 1), (1, 1)] and len(slots(job)) == 6


def test_tasks_that_do_not_close_are_abandoned() -> None:
    """One function that hangs would keep the job from ever running again."""
    job = rescaled()
    assert deployed(job.waits(SETTINGS.failure_grace_ms)) == [(0, 1)]


def test_what_changes_is_told() -> None:
    """Who reads the log would see tasks end and begin, and not know why."""
    job = rescaled()
    (notice,) = [effect for effect in job.effects if isinstance(effect, Rescaling)]
    assert [vertex.parallelism for vertex in notice.before.vertices] == [1, 1]
    assert [vertex.parallelism for vertex in notice.after.vertices] == [1, 3]


def test_the_request_of_a_job_that_has_ended_is_answered() -> None:
    """Its user would wait for ever."""
    job = Job().runs()
    job.handle(CancelRequested())
    all_close(job)
    assert job.finish is not None
    answer = reply(job.handle(RescaleRequested(7, {1: 2})))
    assert answer is not None and "has ended" in str(answer.error)


def test_metrics_of_subtasks_that_are_gone_are_no_part_of_sums() -> None:
    """A watermark would stand still: that of the subtask which is not there any more."""
    from tests.unit.service.rest.served import report

    wide, narrow = plan(parallelism=3), plan(parallelism=2)
    metrics = JobMetrics(wide)
    metrics.update([report(1, subtask, 1, 10) for subtask in range(3)])
    metrics.deployed(wide)
    assert metrics.rescales == 0, "an attempt as those before it"
    metrics.deployed(narrow)
    assert metrics.rescales == 1
    metrics.deployed(plan(parallelism=2))
    assert (metrics.rescales, metrics.updates) == (1, 1), "other functions, and as many subtasks"
    shown = metrics.vertices()[1]
    assert shown.parallelism == 2 and len(shown.subtasks) == 2


def test_a_checkpoint_that_takes_too_long_leaves_the_job_as_it_is() -> None:
    """Who waits for the change would wait for ever."""
    job = Job().runs()
    job.handle(RescaleRequested(7, {1: 2}))
    answer = reply(job.waits(SETTINGS.checkpoints.timeout_ms))
    assert (
        answer is not None and not isinstance(answer.error, CheckpointError) and "took longer than" in str(answer.error)
    )
