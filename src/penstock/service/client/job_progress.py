"""The progress of a job: in figures, as a line of text, and as JSON."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from penstock.common.job_client import JobClient
from penstock.common.text.quantities import as_duration, as_event_time, as_rate
from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.metrics import totals_of
from penstock.engine.plan.job_graph import JobGraph
from penstock.service.client.rest_client import UnreachableError

_RATES_OVER_S = 3.0
_ID_LENGTH = 8
UNREACHABLE = "UNREACHABLE"
"""The status of a job whose cluster does not answer."""
_WORDS = {"CREATED": "starting", UNREACHABLE: "out of reach (its cluster does not answer)"}
_WITHOUT_LAST_CHECKPOINT = ("CANCELED", "FAILED")
"""With these ends, part of what reached the sinks is not committed."""


@dataclass(frozen=True)
class JobProgress:
    """The figures of a job at one moment. Counters are those of the current attempt; None means unknown.

    `records_in`: records emitted by the sources; `records_out`: records that reached the sinks.
    """

    job_id: str
    name: str
    status: str
    running_ms: int
    records_in: int
    records_out: int
    records_in_per_s: float
    records_out_per_s: float
    event_time_lag_ms: int | None
    restarts: int
    checkpoint_id: int | None
    """The latest completed checkpoint."""
    checkpoint_age_ms: int | None
    results_taken: bool = False
    """Whether the program has closed its results, by a limit for example, which also ends the job."""
    rescales: int = 0
    """How often the job has resumed with another parallelism."""
    updates: int = 0
    """How often the job has resumed with other functions."""

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        return asdict(self)

    def as_line(self) -> str:
        """Return the live line."""
        parts = [
            f"{self.job_id[:_ID_LENGTH]} '{self.name}' {_WORDS.get(self.status, self.status.lower())} "
            f"{as_duration(self.running_ms)}",
            f"in {self.records_in:,} ({as_rate(self.records_in_per_s)})",
            f"out {self.records_out:,} ({as_rate(self.records_out_per_s)})",
        ]
        if self.event_time_lag_ms is not None:
            parts.append(f"event time {as_event_time(self.event_time_lag_ms, now_ms())}")
        if self.checkpoint_id is not None:
            parts.append(f"checkpoint {self.checkpoint_id} {as_duration(self.checkpoint_age_ms or 0)} ago")
        if self.restarts:
            parts.append(_restarts(self.restarts))
        return " · ".join(parts)

    def as_end(self) -> str:
        """Return the last line about the job."""
        counted = f"{self.records_in:,} records in, {self.records_out:,} out"
        if self.restarts or self.rescales or self.updates:
            counted += f" since {self._last_start()}"
        parts = [counted]
        if self.checkpoint_id is not None and self.status in _WITHOUT_LAST_CHECKPOINT:
            parts.append(f"committed up to checkpoint {self.checkpoint_id}")
        status, with_what = _WORDS.get(self.status, self.status.lower()), ""
        if self.status == "CANCELED" and self.results_taken:
            status, with_what = "ended", ", when its program had enough results"
        ended = f"job {self.job_id[:_ID_LENGTH]} '{self.name}' {status} after {as_duration(self.running_ms)}"
        return f"{ended}{with_what}: {', '.join(parts)}"

    def _last_start(self) -> str:
        changes = " or ".join(["rescaled"] * bool(self.rescales) + ["updated"] * bool(self.updates))
        restarts = "its restart" if self.restarts == 1 else f"the last of {self.restarts} restarts"
        if not changes:
            return restarts
        return f"it was {changes}, or {restarts}" if self.restarts else f"it was {changes}"


class ProgressMeter:
    """Measure one job. `began_s` comes from time.monotonic()."""

    def __init__(self, graph: JobGraph, began_s: float, job_id: str = "") -> None:
        self.name = graph.name
        self._graph = graph
        self.job_id = job_id
        """The job's id; empty until it is known."""
        self._began_s = began_s
        self._counts: deque[tuple[float, int, int]] = deque()

    def running_ms(self) -> int:
        """Return the time since the job was submitted."""
        return round((time.monotonic() - self._began_s) * 1000)

    def measure(self, client: JobClient) -> JobProgress:
        """Return the current figures."""
        now_s, at_ms = time.monotonic(), now_ms()
        totals = totals_of(self._graph, client.get_vertex_metrics())
        checkpoint = next((c for c in reversed(client.get_checkpoints()) if c.is_completed), None)
        rates = self._rates(now_s, totals.records_in, totals.records_out)
        return JobProgress(
            self.job_id,
            self._graph.name,
            _status_of(client),
            self.running_ms(),
            totals.records_in,
            totals.records_out,
            *rates,
            None if totals.watermark is None else at_ms - totals.watermark,
            client.get_num_restarts(),
            checkpoint.checkpoint_id if checkpoint else None,
            at_ms - checkpoint.triggered_ms - checkpoint.duration_ms if checkpoint else None,
            client.results_closed,
            client.get_num_rescales(),
            client.get_num_updates(),
        )

    def _rates(self, now_s: float, records_in: int, records_out: int) -> tuple[float, float]:
        """Return records per second over the last seconds. A restart resets the counters to zero."""
        if self._counts and self._counts[-1][1] > records_in:
            self._counts.clear()
        self._counts.append((now_s, records_in, records_out))
        while now_s - self._counts[0][0] > _RATES_OVER_S and len(self._counts) > 2:
            self._counts.popleft()
        since_s, in_before, out_before = self._counts[0]
        seconds = now_s - since_s
        return ((records_in - in_before) / seconds, (records_out - out_before) / seconds) if seconds else (0.0, 0.0)


def _status_of(client: JobClient) -> str:
    try:
        return client.get_job_status().result().name
    except UnreachableError:
        return UNREACHABLE


def _restarts(count: int) -> str:
    return f"{count} restart{'s'[: count > 1]}"
