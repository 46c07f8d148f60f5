"""What is recorded of a batched job."""

from __future__ import annotations

from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.batched_recorder import BatchedRecorder
from penstock.engine.jobmaster.execution_graph import EARLIER_MAX
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.runtime.ids import SlotId

MAP, REDUCE = SlotId(0, 0), SlotId(1, 1)


def states(recorder: BatchedRecorder) -> list[str]:
    return [one.state.name for _, one in sorted(recorder.published.executions.items())]


def recorder_of_three() -> BatchedRecorder:
    """A source, and a vertex with two subtasks."""
    recorder = BatchedRecorder("id", plan(parallelism=2), 1_000)
    recorder.status_changed(JobStatus.RUNNING, 2_000)
    return recorder


def test_tasks_run_and_finish_stage_after_stage() -> None:
    """A job of an hour would look as if it stood still."""
    recorder = recorder_of_three()
    assert states(recorder) == ["CREATED"] * 3
    assert recorder.slot_reported(MAP, 7, False, 3_000)
    assert states(recorder) == ["RUNNING", "CREATED", "CREATED"]
    recorder.slot_reported(MAP, 7, True, 4_000)
    recorder.slot_reported(REDUCE, 9, False, 5_000)
    assert states(recorder) == ["FINISHED", "CREATED", "RUNNING"]
    source = recorder.published.executions_of(0)[0]
    assert (source.started_ms, source.ended_ms) == (3_000, 4_000)
    recorder.status_changed(JobStatus.FINISHED, 6_000)
    assert states(recorder) == ["FINISHED"] * 3
    assert recorder.published.executions_of(0)[0].ended_ms == 4_000, "as it was"
    assert recorder.published.status_ms == {
        JobStatus.CREATED: 1_000, JobStatus.RUNNING: 2_000, JobStatus.FINISHED: 6_000,
    }  # fmt: skip


def test_of_a_task_that_spark_runs_again_the_newest_run_counts() -> None:
    """A worker that was lost would still be shown, or its counters, which come late, in place of the new one's."""
    recorder = recorder_of_three()
    recorder.slot_reported(MAP, 7, True, 3_000)
    assert recorder.slot_reported(MAP, 8, False, 4_000)
    assert states(recorder)[0] == "RUNNING" and recorder.published.executions_of(0)[0].attempt == 1
    assert not recorder.slot_reported(MAP, 7, True, 5_000)
    assert states(recorder)[0] == "RUNNING"
    recorder.slot_reported(MAP, 9, False, 6_000)
    earlier = recorder.published.executions_of(0)[0].earlier
    assert [(one.attempt, one.state.name, one.ended_ms) for one in earlier] == [
        (0, "FINISHED", 3_000),
        (1, "FAILED", 6_000),
    ]
    assert all(one.earlier == () for one in earlier)
    for run in range(10, 40):
        recorder.slot_reported(MAP, run, False, 7_000)
    # All attempts of a job that fails for a week would be a leak.
    present = recorder.published.executions_of(0)[0]
    assert [one.attempt for one in present.earlier] == list(range(present.attempt - EARLIER_MAX, present.attempt))


def test_a_failure_ends_all_tasks_and_is_told() -> None:
    """A job that has failed would show tasks that run, and no reason."""
    recorder = recorder_of_three()
    recorder.slot_reported(MAP, 7, True, 3_000)
    recorder.slot_reported(REDUCE, 8, False, 3_000)
    recorder.status_changed(JobStatus.FAILED, 4_000, ValueError("no"))
    assert states(recorder) == ["FINISHED", "CANCELED", "CANCELED"]
    (failure,) = recorder.published.failures
    assert (failure.error, failure.text, failure.at_ms) == ("ValueError", "no", 4_000)


def test_a_cancellation_is_seen_until_it_has_ended() -> None:
    """A user would cancel a second time."""
    recorder = recorder_of_three()
    recorder.slot_reported(MAP, 7, False, 3_000)
    recorder.status_changed(JobStatus.CANCELLING, 4_000)
    assert recorder.published.executions_of(0)[0].state is ExecutionState.CANCELING
    recorder.status_changed(JobStatus.CANCELED, 5_000)
    assert states(recorder) == ["CANCELED"] * 3
