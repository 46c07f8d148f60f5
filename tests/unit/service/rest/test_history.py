"""The figures of a job over time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.service.rest.served import PlayedJob, Served, report, serve_pages_job

from penstock.service.rest.endpoint import add_sample
from penstock.service.rest.job_history import JobHistory, JobSample, merged


def sample(number: int, **more: object) -> JobSample:
    figures = {
        "timestamp": number * 2_000,
        "records_in_per_second": float(number),
        "records_out_per_second": 1.0,
        "watermark": None,
        "busy": (10, 20),
        "back_pressured": (0, 40),
        "restarts": 0,
        "failed_checkpoints": 0,
        "checkpoint_duration": None,
        "checkpoint_size": None,
    }
    return JobSample(**figures | more)  # type: ignore[arg-type]


def filled(count: int) -> JobHistory:
    history = JobHistory()
    for number in range(count):
        history.add(sample(number), number * 2.0)
    return history


def test_a_job_that_runs_for_a_week_has_as_many_samples_as_one_that_runs_for_an_hour() -> None:
    """The driver of a job that runs for months would need more and more memory."""
    history = filled(7 * 24 * 1_800)
    recent, whole = history.recent(), history.whole()
    assert len(recent) == 300 and 200 <= len(whole) <= 401
    assert recent[-1].timestamp == whole[-1].timestamp == (7 * 24 * 1_800 - 1) * 2_000
    assert recent[-1].timestamp - recent[0].timestamp == 299 * 2_000, "the last ten minutes, each two seconds"
    assert whole[0].timestamp < 3_600_000, "the beginning is kept"
    steps = {after.timestamp - before.timestamp for before, after in pairwise(whole[:-1])}
    assert len(steps) == 1, "the last one is not complete yet"


def test_samples_that_become_one_keep_what_was_slow() -> None:
    """The one checkpoint that took a minute would disappear from the chart of the night."""
    one = sample(1, busy=(10, 100), checkpoint_duration=60_000)
    other = sample(3, busy=(20, 0), restarts=2, failed_checkpoints=1, checkpoint_size=7, watermark=5)
    both = merged([one, other])
    assert (both.timestamp, both.records_in_per_second, both.busy) == (6_000, 2.0, (15, 50))
    assert (both.checkpoint_duration, both.checkpoint_size, both.watermark) == (60_000, 7, 5)
    assert (both.restarts, both.failed_checkpoints) == (2, 1)


def test_samples_are_two_seconds_apart() -> None:
    """A job would be sampled as often as its meter, for charts that show no more by it."""
    history = JobHistory()
    assert history.is_due(0.0) and history.newest_ms == -1
    history.add(sample(1), 10.0)
    assert not history.is_due(11.0) and history.is_due(12.0)
    assert history.newest_ms == 2_000


def test_it_is_answered_now_and_over_time(tmp_path: Path) -> None:
    """The pages would have other rates than the metrics, or no charts."""
    served = serve_pages_job(tmp_path, "orders", "a failure")
    try:
        none = served.get("/jobs/id/history?range=none")
        now, last = none["now"], none["last-checkpoint"]
        assert (now["records-in-per-second"], now["records-out-per-second"]) == (100, 100)
        assert (now["busy"], now["back-pressured"]) == ([33, 33], [17, 17])
        assert (now["restarts"], now["watermark"], now["failed-checkpoints"]) == (1, 5_000, 0)
        assert (last["id"], last["failure"]) == (3, "") and now["checkpoint-size"] is not None
        assert none["samples"] == []
        assert none["vertices"] == [vertex["id"] for vertex in served.get("/jobs/id")["vertices"]]
        served.entry.history.add(sample(1), 0.0)
        for wanted in ("?range=all", "?range=recent", ""):
            (one,) = served.get(f"/jobs/id/history{wanted}")["samples"]
            assert one["timestamp"] == 2_000
        assert "recent, all or none" in served.get("/jobs/id/history?range=week", 400)["errors"][0]
    finally:
        served.endpoint.close()


def test_a_checkpoint_is_in_the_sample_after_it(tmp_path: Path) -> None:
    """A chart would show each checkpoint for as long as it is the last one, as if there were many."""
    served = serve_pages_job(tmp_path, "orders", "a failure")
    try:
        assert served.get("/jobs/id/history")["now"]["checkpoint-duration"] is not None
        served.entry.history.add(sample(1 << 40), 0.0)
        assert served.get("/jobs/id/history")["now"]["checkpoint-duration"] is None
    finally:
        served.endpoint.close()


def test_a_task_that_has_reported_nothing_yet_has_no_figures(served: Served) -> None:
    """The page of a job that has just started would show an error."""
    answer = served.get("/jobs/id/history")
    assert (answer["now"]["records-in-per-second"], answer["now"]["watermark"]) == (0, None)
    assert answer["last-checkpoint"] is None and answer["now"]["busy"] == [0, 0]


@pytest.mark.parametrize("seconds", [0, 5])
def test_the_endpoint_takes_samples_of_running_jobs(tmp_path: Path, seconds: int) -> None:
    """Charts would stay empty."""
    served = Served(tmp_path, PlayedJob())
    try:
        served.job.metrics.update([report(0, 0, 1, 100)])
        add_sample(served.entry, 0.0)
        add_sample(served.entry, float(seconds))
        assert len(served.entry.history.recent()) == (2 if seconds else 1)
    finally:
        served.endpoint.close()
