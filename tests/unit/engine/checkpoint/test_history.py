"""The history of a job with more checkpoints than it holds."""

from __future__ import annotations

from tests.unit.engine.checkpoint.coordinated_job import COUNT, Job

from penstock.engine.checkpoint.history import RunningSummary, Summary
from penstock.engine.checkpoint.schedule import CheckpointRequest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


def test_a_hundred_failures_do_not_hide_what_the_job_can_be_restored_from() -> None:
    """After a night of failed checkpoints, a user could not tell how far the job would fall back."""
    job = Job()
    savepoint = CheckpointRequest(options=CheckpointOptions(savepoint="/sp"))
    saved = job.coordinator.trigger(job.now_ms, savepoint)
    assert saved is not None
    job.does().acknowledge(saved)
    first, second = job.triggers(), job.triggers()
    job.acknowledge(first)
    job.acknowledge(second)
    for _ in range(150):
        job.declines((COUNT, 1), job.triggers(), "the disk is full")
    history = job.coordinator.history
    latest = history.latest
    assert latest.completed is not None and latest.savepoint is not None and latest.failed is not None
    assert (latest.completed.checkpoint_id, latest.savepoint.checkpoint_id) == (second, saved)
    assert latest.failed is history[-1] and latest.restorable is latest.completed
    assert [report.checkpoint_id for report in history if report.is_completed] == [second] and len(history) == 101
    assert (history.completed_count, history.failed_count) == (3, 150)


def test_summaries_are_over_all_checkpoints_that_have_completed() -> None:
    """The one checkpoint of a day that took minutes would be forgotten with the hundredth after it."""
    job = Job()
    for duration_ms in [60_000, *[10] * 150]:
        number = job.triggers()
        job.now_ms += duration_ms
        job.acknowledge(number)
    job.declines((COUNT, 1), job.triggers(), "the disk is full")
    found = job.coordinator.history.summaries.duration_ms
    assert (found.lowest, found.highest, found.quantiles[0]) == (10, 60_000, 10)
    assert round(found.mean) == round((60_000 + 150 * 10) / 151)


def test_a_summary_of_more_numbers_than_are_kept() -> None:
    """The summary would grow forever, or forget the maximum."""
    running = RunningSummary()
    for value in [-5, 1_000_000, *range(20_000)]:
        running.add(value)
    assert (running.now.lowest, running.now.highest) == (-5, 1_000_000)
    assert running.now.quantiles == Summary.of(range(10_000, 20_000)).quantiles
    assert RunningSummary().now == Summary.of([]) == Summary()
