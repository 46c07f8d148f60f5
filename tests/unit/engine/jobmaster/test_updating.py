"""Other functions for a running job: when they are taken, and what leaves the job as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, deployed, savepoint_requested, sent

from penstock.common.errors import JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.effects import JobEffect, Reply, SendToSlot
from penstock.engine.jobmaster.events import CancelRequested, RescaleRequested, UpdateRequested
from penstock.engine.jobmaster.notices import Updated
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.task.events import (
    Cancel,
    Close,
    DataEnded,
    Decline,
    DropUpdate,
    Finished,
    PrepareUpdate,
    TriggerCheckpoint,
    UpdatePrepared,
)
from penstock.service.client.plan_executor import PlanExecutor


def plan(version: int = 1, regions: int = 1) -> JobGraph:
    """A job of so many unconnected parts, of which the first reduces in a way of that version."""
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    for region in range(regions):
        factor = version if region == 0 else 1
        keyed = environment.from_collection([1, 2, 3]).key_by(lambda n: n % 2)
        keyed.reduce(lambda a, b, factor=factor: factor * (a + b)).print()
    environment.execute("job")
    return plans.graphs[0]


def request(version: int = 2, regions: int = 1, number: int = 7) -> UpdateRequested:
    return UpdateRequested(number, plan(version, regions))


def reply(effects: Iterable[JobEffect]) -> Reply | None:
    return next((effect for effect in effects if isinstance(effect, Reply)), None)


def refused(effects: Iterable[JobEffect]) -> str:
    """Why, as the user reads it."""
    answer = reply(effects)
    assert answer is not None and isinstance(answer.error, JobError)
    return str(answer.error)


def reducer(job: Job) -> int:
    """The vertex of the first region that reduces, on level 1."""
    return job.master.graph.vertices_of(0)[-1].id


def declined(job: Job) -> list[JobEffect]:
    """It can't write its state."""
    return job.report(1, Decline(reducer(job), 0, 1, DeclineReason.STATE, "disk full"))


def prepared(job: Job, error: str = "", update: int = 1) -> list[JobEffect]:
    """The one task that has a new function answers."""
    return job.report(1, UpdatePrepared(reducer(job), 0, update, error))


def updating(regions: int = 1) -> Job:
    """A job whose tasks are opening the new functions."""
    job = Job(graph=plan(regions=regions)).runs()
    effects = job.handle(request(regions=regions))
    assert reply(effects) is None
    prepares = [e for e in effects if isinstance(e, SendToSlot) and isinstance(e.message.event, PrepareUpdate)]
    assert [effect.message.vertex for effect in prepares] == [reducer(job)], "no task but those with new functions"
    return job


def of_next_attempts(job: Job) -> int:
    """The version of the function of the job's next attempts."""
    place = job.master.graph.vertices[reducer(job)].nodes[0].operator.function_places()[0]
    return int(place.function.instance.__defaults__[0])


def test_functions_take_over_at_a_checkpoint_and_nothing_is_started_again() -> None:
    """A user would stop a job, and lose seconds, to mend a condition."""
    job = updating()
    assert not job.master.coordinator.under_way, "not before all tasks have opened the new functions"
    effects = prepared(job)
    (trigger,) = {e.message.event for e in effects if isinstance(e, SendToSlot)}
    assert isinstance(trigger, TriggerCheckpoint) and trigger.options.update == 1 and of_next_attempts(job) == 1
    effects = job.acknowledges(1)
    answer = reply(effects)
    assert answer is not None and answer.error is None and "new functions since checkpoint 1" in answer.text
    assert of_next_attempts(job) == 2 and [e.operators for e in effects if isinstance(e, Updated)] == [["Reduce"]]
    assert job.master.status is JobStatus.RUNNING and not deployed(effects)
    job.fails(TaskLostError("gone"))
    job.of_tasks(lambda vertex: Finished(vertex, 0))
    job.restarts()
    assert job.attempt.restored_id == 1 and job.attempt.graph is job.master.graph


def test_it_can_be_done_again() -> None:
    """Only the first update would be possible."""
    job = updating()
    prepared(job)
    job.acknowledges(1)
    assert reply(job.handle(request(3, number=8))) is None
    prepared(job, update=1)
    assert not job.master.coordinator.under_way, "the answer to the update before counts for nothing"
    prepared(job, update=2)
    job.acknowledges(2)
    assert of_next_attempts(job) == 3


def test_a_function_that_does_not_open_changes_nothing() -> None:
    """A job would fail by a mistake in the program that was to take its place."""
    job = updating()
    effects = prepared(job, "operator 'Reduce': ValueError: no")
    assert "nothing has changed: operator 'Reduce': ValueError: no" in refused(effects)
    assert DropUpdate in sent(effects) and not job.master.coordinator.under_way
    assert job.master.status is JobStatus.RUNNING and of_next_attempts(job) == 1
    assert reply(job.handle(request(number=8))) is None, "and it can be tried again"


def test_a_checkpoint_that_fails_takes_the_job_back() -> None:
    """Some tasks would go on with the new functions, others with the old ones."""
    job = updating()
    prepared(job)
    effects = declined(job)
    assert "the job keeps its functions because the checkpoint failed" in refused(effects)
    assert Cancel in sent(effects) and of_next_attempts(job) == 1
    effects = job.of_tasks(lambda vertex: Finished(vertex, 0))
    assert deployed(effects) == [job.attempt.id] and job.master.restarts == 0, "it was no failure"
    job.of_tasks(lambda vertex: Register())
    assert reply(job.handle(request(number=8))) is None


def test_a_region_without_new_functions_runs_on() -> None:
    """All of a job would be started again because a part of it could not be updated."""
    job = updating(regions=2)
    prepared(job)
    declined(job)
    assert [region.status for region in job.master.regions] == [JobStatus.CANCELLING, JobStatus.RUNNING]


def test_all_regions_go_back_if_the_end_has_begun() -> None:
    """Regions whose data has ended would wait for ever for the one that goes back."""
    job = updating(regions=2)
    prepared(job)
    job.of_tasks(lambda vertex: DataEnded(vertex, 0))
    declined(job)
    assert [region.status for region in job.master.regions] == [JobStatus.CANCELLING, JobStatus.CANCELLING]
    job.of_tasks(lambda vertex: Finished(vertex, 0))
    job.runs().of_tasks(lambda vertex: DataEnded(vertex, 0))
    (last,) = job.master.coordinator.under_way
    assert Close in sent(job.acknowledges(last))


def test_a_failure_before_the_checkpoint_is_told() -> None:
    """The user would wait for an answer for ever."""
    job = updating()
    effects = job.fails(TaskLostError("gone"))
    assert "the job has failed in the meantime" in refused(effects)
    again = refused(job.handle(request(number=8)))
    assert "(RESTARTING)" in again and "penstock run -s DIRECTORY/ID/chk-N" in again, "what else there is to do"
    job.of_tasks(lambda vertex: Finished(vertex, 0))
    job.restarts()
    assert of_next_attempts(job) == 1


@pytest.mark.parametrize("while_checkpointing", [False, True])
def test_a_cancel_is_told(while_checkpointing: bool) -> None:
    """The user would wait for an answer for ever."""
    job = updating()
    if while_checkpointing:
        prepared(job)
    effects = job.handle(CancelRequested())
    effects += job.of_tasks(lambda vertex: Finished(vertex, 0))
    assert refused(effects)
    assert job.finish is not None and "ended" in refused(job.handle(request(number=8)))


def test_one_change_after_the_other() -> None:
    """Two plans would be made from one, and the second would undo the first."""
    job = updating()
    assert "is already being rescaled or updated" in refused(job.handle(request(3, number=8)))
    assert "is already being rescaled or updated" in refused(job.handle(RescaleRequested(9, {reducer(job): 3})))
    job = Job(graph=plan()).runs()
    job.handle(RescaleRequested(9, {reducer(job): 3}))
    assert "is already being rescaled or updated" in refused(job.handle(request()))


def test_what_can_not_be_updated_runs_on() -> None:
    """A job would stop, or lose its state, for a program that does not fit."""
    job = Job(graph=plan()).runs()
    assert "already has these functions" in refused(job.handle(request(1)))
    job = Job(dataclasses.replace(SETTINGS, checkpoints=CheckpointSettings(None)), graph=plan()).runs()
    assert "takes no checkpoints" in refused(job.handle(request()))
    job = Job(graph=plan())
    assert "is not RUNNING" in refused(job.handle(request()))
    job = Job(graph=plan()).runs()
    job.handle(savepoint_requested(1, "/s", stop=True))
    assert "about to end" in refused(job.handle(request()))
