"""/jobs/:jobid/history: the figures of a job now and over time. Flink has no such path."""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.common.time.wall_clock import now_ms
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.answers import get, job_of
from penstock.service.rest.described_route import Parameter
from penstock.service.rest.job_history import JobSample
from penstock.service.rest.job_sampling import sample_of
from penstock.service.rest.served_jobs import JobEntry

_RANGES = ("recent", "all", "none")
_RANGE = Parameter(
    "range",
    "`recent`: the last ten minutes, with a sample each two seconds (the default); `all`: the job's whole time, with "
    "fewer samples; `none`: the current figures alone.",
)


class LastCheckpoint(msgspec.Struct, frozen=True, rename="kebab"):
    """The newest checkpoint or savepoint that completed or failed."""

    id: int
    ended: int
    """When it completed or failed, in milliseconds since 1970."""
    duration: int
    """Milliseconds."""
    failure: str
    """Why it failed; empty: it completed."""


class JobHistoryAnswer(msgspec.Struct, frozen=True, rename="kebab"):
    """The figures of a job now and over time."""

    now: JobSample
    last_checkpoint: LastCheckpoint | None
    vertices: list[str]
    """Ids of the vertices, in the order of their figures in samples."""
    samples: list[JobSample]
    """Oldest first."""


def history(request: Request) -> JobHistoryAnswer:
    """GET /jobs/:jobid/history: rates, event time, load, restarts and checkpoints, now and over time.

    Samples are kept in memory, from the job's beginning on: several hundred at most, with longer intervals for a job
    that has run for longer.
    """
    entry = job_of(request)
    wanted = request.query_params.get("range", "recent")
    if wanted not in _RANGES:
        raise HTTPException(400, f"range must be recent, all or none, got '{wanted}'")
    samples = entry.history.recent() if wanted == "recent" else entry.history.whole() if wanted == "all" else []
    vertices = [vertex_id(vertex) for vertex in entry.graph.graph.vertices]
    return JobHistoryAnswer(sample_of(entry, now_ms()), _last_checkpoint(entry), vertices, samples)


def _last_checkpoint(entry: JobEntry) -> LastCheckpoint | None:
    ended = entry.graph.checkpoints.history
    if not ended:
        return None
    last = ended[-1]
    return LastCheckpoint(last.checkpoint_id, last.triggered_ms + last.duration_ms, last.duration_ms, last.failure)


routes = [get("/jobs/{jobid}/history", history, _RANGE)]
