"""What of a job is shown as spans, and how they reach a collector."""

from __future__ import annotations

import logging
import time

import pytest
from tests.collector import attributes_of, collector

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.hosts.traces.reporter import check_traces, trace_reporter
from penstock.hosts.traces.spans import JobSpans, Span


def spans_of(*steps: tuple[int, JobStatus], error: BaseException | None = None) -> list[Span]:
    """Return the spans of a job that is submitted at time 0 and has these statuses."""
    spans: list[Span] = []
    job = JobSpans("id", "counts", spans.append, 0)
    for restarts, (now_ms, status) in enumerate(steps):
        job.status(status, restarts, 7, now_ms)
    job.ended(error, 1_000)
    return spans


def test_the_start_of_tasks_is_a_span_each_time() -> None:
    """A user would not see how long and how often a job was silent."""
    found = spans_of(
        (1, JobStatus.CREATED), (50, JobStatus.RUNNING), (60, JobStatus.RUNNING), (100, JobStatus.RESTARTING),
        (120, JobStatus.CREATED), (140, JobStatus.RUNNING),
    )  # fmt: skip
    assert [(span.name, span.begin_ms, span.end_ms) for span in found] == [
        ("JobInitialization", 0, 50),
        ("JobInitialization", 100, 140),
    ]
    assert found[1].attributes == {
        "jobId": "id", "jobName": "counts", "initializationStatus": "COMPLETED", "restarts": 5, "checkpointId": 7,
    }  # fmt: skip


def test_a_start_that_fails_is_one_with_its_error() -> None:
    """A job that never ran would leave no trace."""
    (span,) = spans_of((1, JobStatus.CREATED), error=ValueError("no slots"))
    assert (span.end_ms, span.error, span.attributes["initializationStatus"]) == (1_000, "no slots", "FAILED")
    assert len(spans_of((1, JobStatus.RUNNING), error=ValueError("later"))) == 1
    assert not spans_of((1, JobStatus.CREATED)), "canceled before it ran"


def test_checkpoints_are_spans_with_flinks_attributes() -> None:
    """Boards that were made for Flink would show nothing."""
    spans: list[Span] = []
    job = JobSpans("id", "counts", spans.append, 0)
    job.checkpoint(CheckpointReport(3, 1_000, 20, 2, 2, written_bytes=5, total_bytes=50))
    job.checkpoint(CheckpointReport(4, 2_000, 30, 1, 2, "it expired", savepoint="/s"))
    done, failed = spans
    assert (done.name, done.begin_ms, done.end_ms, done.error) == ("Checkpoint", 1_000, 1_020, "")
    assert {"checkpointId": 3, "checkpointedSize": 5, "fullSize": 50, "checkpointStatus": "COMPLETED"}.items() <= (
        done.attributes.items()
    )
    assert (failed.error, failed.attributes["checkpointStatus"]) == ("it expired", "FAILED")
    assert failed.attributes["checkpointType"] == "Savepoint"


def settings(**more: str) -> Configuration:
    return Configuration.from_dict({"traces.reporters": "otel", **more})


def test_spans_reach_a_collector() -> None:
    """They would be lost, or come without their times or their error."""
    with collector() as one:
        given = {"traces.reporter.otel.exporter.endpoint": one.url + "/", "traces.reporter.otel.service.name": "mine"}
        reporter = trace_reporter(settings(**given))
        assert reporter is not None
        reporter.report(Span("Checkpoint", 1_000, 1_020, {"checkpointId": 3, "size": 2.5, "job": "é"}))
        reporter.report(Span("Checkpoint", 2_000, 2_001, {}, "it expired"))
        reporter.close()
        (service, done), (_, failed) = one.spans
    assert (service, done.name) == ("mine", "Checkpoint")
    assert (done.start_time_unix_nano, done.end_time_unix_nano) == (1_000_000_000, 1_020_000_000)
    assert attributes_of(done) == {"checkpointId": 3, "size": 2.5, "job": "é"}
    assert (failed.status.code, failed.status.message) == (2, "it expired")


def test_an_unreachable_collector_is_reported_once_and_delays_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A job would wait for a service that only watches, or fill its log."""
    reporter = trace_reporter(settings(**{"traces.reporter.otel.exporter.endpoint": "http://127.0.0.1:9"}))
    assert reporter is not None
    began_s = time.monotonic()
    with caplog.at_level(logging.INFO):
        for number in range(3):
            reporter.report(Span("Checkpoint", number, number + 1, {}))
        reporter.close()
    assert time.monotonic() - began_s < 30
    assert [record.message for record in caplog.records if record.name.startswith("penstock")] == [
        "cannot send spans to http://127.0.0.1:9: they are lost until it can be reached"
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"traces.reporters": "jaeger"}, "The only reporter is otel"),
        ({"traces.reporter.otel.exporter.endpoint": "127.0.0.1:4318"}, "must be a URL such as http://127.0.0.1:4318"),
    ],
)
def test_wrong_settings_are_errors_before_the_job_starts(given: dict[str, str], why: str) -> None:
    """A job would run for days without traces, and without a warning."""
    with pytest.raises(ConfigurationError, match=why):
        check_traces(settings(**given))
    check_traces(Configuration())
    check_traces(settings())
