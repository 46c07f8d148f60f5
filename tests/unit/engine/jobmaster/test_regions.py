"""The regions of a job: what belongs to which, and the status that they have together."""

from __future__ import annotations

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, plan

from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints, RecordedEnd
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.pending import JobIdentity
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.jobmaster.checkpoint_vertices import checkpoint_vertices, source_state_ids, vertex_of_sinks
from penstock.engine.jobmaster.effects import Deploy, JobEffect, StopAttempt
from penstock.engine.jobmaster.phases import RegionPhase
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.region import Region, Regions
from penstock.engine.runtime.ids import AttemptId

GRAPH = plan(parallelism=2, regions=3)


class Played:
    def __init__(self) -> None:
        self.effects: list[JobEffect] = []
        self.regions = Regions(GRAPH, SETTINGS, self.effects.append, 1_000)
        storage = StorageRequests(self.effects.append)
        completed = CompletedCheckpoints(storage, SETTINGS.checkpoints.retained)
        end = RecordedEnd(storage, completed, 1)
        coordinator = CheckpointCoordinator(
            JobIdentity("id", "job"), SETTINGS.checkpoints, storage, completed, end, self.effects.append
        )
        recovery = Recovery(coordinator, completed, SETTINGS, origin=None)
        for region in self.regions:
            region.begin(recovery, GRAPH, 1_000)

    def runs(self, region: Region) -> None:
        for slot in region.attempt.slots:
            region.attempt.registered(slot)

    def comes_to(self, region: Region, status: JobStatus) -> None:
        if status is not JobStatus.CREATED:
            self.runs(region)
        if status in (JobStatus.CANCELLING, JobStatus.CANCELED):
            region.cancel(1_000)
        elif status in (JobStatus.FAILING, JobStatus.FAILED):
            region.fail(JobError("a failure"), None, 1_000)
        elif status is JobStatus.FINISHED:
            region.attempt.close()
        if status in (JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FINISHED):
            for tasks in region.attempt.slots.values():
                for task in tasks:
                    region.attempt.finished(task)
        assert region.status is status


def test_each_slot_vertex_source_and_sink_is_of_one_region() -> None:
    """A failure would be taken for that of another pipeline, or state be restored by two."""
    played = Played()
    attempts = [region.attempt for region in played.regions]
    assert len(attempts) == len(played.regions) == 3
    for vertex in GRAPH.vertices:
        region = played.regions.of_vertex(vertex.id)
        assert played.regions.of_level(vertex.level) is region
        assert vertex.level in GRAPH.regions[region.index]
        assert [vertex.id in {one.id for one in attempt.vertices} for attempt in attempts].count(True) == 1
    assert played.regions.vertices == checkpoint_vertices(GRAPH)
    for sink, vertex_id in vertex_of_sinks(GRAPH).items():
        assert played.regions.of_sink(sink) is played.regions.of_vertex(vertex_id)
        assert sink in played.regions.of_sink(sink).attempt.sinks
    sources = {id: state for attempt in attempts for id, state in attempt.sources.items()}
    assert sources == source_state_ids(GRAPH)
    slots = [slot for attempt in attempts for slot in attempt.slots]
    assert len(slots) == len(set(slots)) == GRAPH.slots


def test_each_region_is_deployed_as_a_query_of_its_own() -> None:
    """Two queries would host the same level, or none."""
    deployed = [effect for effect in Played().effects if isinstance(effect, Deploy)]
    assert [effect.attempt for effect in deployed] == [AttemptId(region, 0) for region in range(3)]
    assert [level for effect in deployed for level in effect.levels] == [*range(len(GRAPH.widths))]


S = JobStatus


@pytest.mark.parametrize(
    ("statuses", "together"),
    [
        ((S.CREATED, S.CREATED, S.CREATED), S.CREATED),
        ((S.RUNNING, S.CREATED, S.RUNNING), S.CREATED),
        ((S.RUNNING, S.RUNNING, S.RUNNING), S.RUNNING),
        ((S.FINISHED, S.RUNNING, S.FINISHED), S.RUNNING),
        ((S.FINISHED, S.FINISHED, S.FINISHED), S.FINISHED),
        ((S.RUNNING, S.FAILING, S.CREATED), S.FAILING),
        ((S.RUNNING, S.FAILED, S.RUNNING), S.FAILING),
        ((S.FAILED, S.CANCELLING, S.RUNNING), S.CANCELLING),
        ((S.CANCELED, S.CANCELED, S.FINISHED), S.CANCELLING),
    ],
)
def test_the_status_of_a_job_is_that_of_its_slowest_or_worst_region(
    statuses: tuple[JobStatus, ...], together: JobStatus
) -> None:
    """A job would be shown as running, and refuse a savepoint, while a part of it starts or fails."""
    played = Played()
    for region, status in zip(played.regions, statuses, strict=True):
        played.comes_to(region, status)
    assert played.regions.status is together
    assert played.regions.all_running == (set(statuses) == {S.RUNNING})
    up = [status in (S.CREATED, S.RUNNING) for status in statuses]
    assert [region not in played.regions.down for region in played.regions] == up


def test_a_query_is_stopped_once() -> None:
    """The next attempt would be stopped in its first moment."""
    played = Played()
    first, *others = played.regions
    played.comes_to(first, S.FAILED)
    for region in (first, first, *others):
        region.stop_if_closed()
    assert [effect for effect in played.effects if isinstance(effect, StopAttempt)] == [StopAttempt(AttemptId(0, 0))]


def test_the_next_attempt_begins_with_a_clean_slate() -> None:
    """A restarted region would be taken for gone, or be abandoned in its first second."""
    played = Played()
    region = played.regions[1]
    played.runs(region)
    region.fail(JobError("a failure"), None, 1_000)
    region.abandon_if_late(1_000 + SETTINGS.failure_grace_ms)
    assert region.abandoned == sorted(region.attempt.slots)
    region.stop_if_closed()
    region.query_ended()
    region.end()
    region.next_attempt(GRAPH, 9_000)
    played.regions.attempts_changed()
    assert region.attempt.id == AttemptId(1, 1) and not region.accepts(0) and region.accepts(1)
    assert not region.abandoned and region.phase is RegionPhase.DEPLOYED
    region.abandon_if_late(1_000_000)
    assert region.is_up and not region.abandoned
