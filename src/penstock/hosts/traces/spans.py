"""The spans of a job: its checkpoints, and the starts of its tasks.

Names and attributes are Flink's where Flink has them. Source: Flink docs, "Traces", System traces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.report import CheckpointReport

Attribute = str | int | float | bool


class Span(NamedTuple):
    """A span. Times in milliseconds since the epoch. `error`: empty after success."""

    name: str
    begin_ms: int
    end_ms: int
    attributes: dict[str, Attribute]
    error: str = ""


class JobSpans:
    """Make the spans of one job. `emit` receives them, in the order in which they end."""

    def __init__(self, job_id: str, name: str, emit: Callable[[Span], None], now_ms: int) -> None:
        self._job: dict[str, Attribute] = {"jobId": job_id, "jobName": name}
        self._emit = emit
        self._starting_since_ms: int | None = now_ms
        """When the job started, or its tasks stopped running; None: the tasks run."""

    def checkpoint(self, report: CheckpointReport) -> None:
        """Emit the span of a completed or failed checkpoint."""
        attributes: dict[str, Attribute] = {
            **self._job,
            "checkpointId": report.checkpoint_id,
            "checkpointedSize": report.written_bytes,
            "fullSize": report.total_bytes,
            "checkpointStatus": "FAILED" if report.failure else "COMPLETED",
            "checkpointType": "Savepoint" if report.savepoint else "Checkpoint",
            "maxAlignmentDurationMs": report.alignment_ms,
            "maxSyncDurationMs": report.sync_ms,
            "maxAsyncDurationMs": report.async_ms,
        }
        end_ms = report.triggered_ms + report.duration_ms
        self._emit(
            Span(
                name="Checkpoint",
                begin_ms=report.triggered_ms,
                end_ms=end_ms,
                attributes=attributes,
                error=report.failure,
            )
        )

    def status(self, status: JobStatus, restarts: int, restored_id: int, now_ms: int) -> None:
        """Note the job's status. `restored_id`: the checkpoint that its tasks were restored from, 0 if none."""
        if status is JobStatus.RUNNING:
            if self._starting_since_ms is not None:
                attributes: dict[str, Attribute] = {
                    **self._job,
                    "initializationStatus": "COMPLETED",
                    "restarts": restarts,
                }
                if restored_id:
                    attributes["checkpointId"] = restored_id
                self._emit(Span("JobInitialization", self._starting_since_ms, now_ms, attributes))
            self._starting_since_ms = None
        elif self._starting_since_ms is None:
            self._starting_since_ms = now_ms

    def ended(self, error: BaseException | None, now_ms: int) -> None:
        """Note the end of the job. If its tasks were starting, emit that start as failed."""
        if self._starting_since_ms is not None and error is not None:
            attributes: dict[str, Attribute] = {**self._job, "initializationStatus": "FAILED"}
            self._emit(
                Span(
                    name="JobInitialization",
                    begin_ms=self._starting_since_ms,
                    end_ms=now_ms,
                    attributes=attributes,
                    error=str(error),
                )
            )
