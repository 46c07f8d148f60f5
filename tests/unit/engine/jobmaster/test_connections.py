"""Connections of slots that break: what may be lost with them, and when the job master knows it."""

from __future__ import annotations

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, sent

from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.events import CancelRequested
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.messages import Heartbeat, Register, SlotFailed
from penstock.engine.runtime.task.events import Acknowledge, Cancel, Finished, RequestSplit

FIRST, SECOND = b"1", b"2"


def connected(settings: JobSettings = SETTINGS) -> Job:
    """A job whose slots have registered by their first connection."""
    job = Job(settings)
    for vertex in job.graph.vertices:
        job.report(vertex.level, Register(), connection=FIRST)
    assert job.master.status is JobStatus.RUNNING
    return job


def test_a_slot_that_has_connected_again_fails_its_attempt() -> None:
    """Splits that it was sent meanwhile would never be read, and committables that it sent never be committed."""
    job = connected()
    effects = job.report(1, Heartbeat([], 1), connection=SECOND)
    assert isinstance(job.attempt.error, TaskLostError)
    assert "the connection of level 1 slot 0 to the driver broke" in str(job.attempt.error)
    assert sent(effects) == {Cancel}


def test_a_slot_that_stays_connected_is_trusted() -> None:
    """A job would restart for nothing."""
    job = connected()
    for count in range(1, 4):
        job.report(0, Heartbeat([], count), connection=FIRST)
        job.report(0, RequestSplit(0, 0), connection=FIRST)
    job.report(0, Heartbeat([]), connection=FIRST)  # in order with the others, so it is counted as they are
    job.report(0, Heartbeat([], 5), connection=FIRST)
    assert job.attempt.error is None


def test_a_message_that_was_lost_before_the_first_that_arrived_is_missed() -> None:
    """Heartbeats would keep an attempt alive for ever whose tasks are open, and are not known to be."""
    job = Job()
    job.report(0, Heartbeat([], 0), connection=FIRST)
    assert job.attempt.error is None, "it opens its tasks"
    job.report(0, Heartbeat([], 1), connection=FIRST)
    assert "messages may be lost" in str(job.attempt.error)


def test_no_snapshot_counts_after_a_loss() -> None:
    """A checkpoint would complete though what was prepared for the one before it is lost: output would be missing."""
    job = connected(JobSettings(CheckpointSettings(interval_ms=3_600_000, concurrent_max=2)))
    first, second = job.begins_checkpoint(), job.begins_checkpoint()
    source, sink = (vertex.id for vertex in job.graph.vertices)
    for number in (first, second):
        job.report(0, Acknowledge(source, 0, number), connection=FIRST)
    job.report(1, Acknowledge(sink, 0, second), connection=SECOND)
    assert job.completed == []
    assert job.master.coordinator.under_way == [first, second]


def test_an_error_of_the_slot_itself_says_more() -> None:
    """A user would look for a fault of the network: the function raised."""
    job = connected()
    job.report(1, SlotFailed("UserFunctionError", "it raised"), connection=SECOND)
    assert "it raised" in str(job.attempt.error)


def test_tasks_of_the_slot_close_as_the_others() -> None:
    """A restart would wait until the tasks are given up, and users' functions would not be closed."""
    job = connected()
    job.report(1, Heartbeat([], 1), connection=SECOND)
    for vertex in job.graph.vertices:
        job.report(vertex.level, Finished(vertex.id, 0), connection=SECOND if vertex.level else FIRST)
    assert job.master.status is JobStatus.RESTARTING


@pytest.mark.parametrize("connection", [FIRST, SECOND])
def test_a_slot_that_may_not_know_it_is_told_again_to_stop(connection: bytes) -> None:
    """A job that was cancelled would wait for it until its worker is killed."""
    job = connected()
    job.handle(CancelRequested())
    effects = job.report(1, Heartbeat([], 1), connection=connection)
    assert sent(effects) == ({Cancel} if connection == SECOND else set())
    assert job.master.status is JobStatus.CANCELLING


def test_an_attempt_that_follows_has_connections_of_its_own() -> None:
    """No job would run again after its first restart."""
    job = connected()
    job.report(1, Heartbeat([], 1), connection=SECOND)
    job.waits(SETTINGS.failure_grace_ms)
    job.restarts()
    for vertex in job.graph.vertices:
        job.report(vertex.level, Register(), connection=b"3")
    assert job.master.status is JobStatus.RUNNING
