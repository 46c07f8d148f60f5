"""Metrics over REST: names without `?get=`, values with it. Of jobs, vertices, subtasks; sums over subtasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.metrics import skew
from penstock.service.rest.answers import get, job_of, jobs_of, subtask_of, vertex_of
from penstock.service.rest.cluster_paths import metrics_of_cluster
from penstock.service.rest.described_route import Parameter
from penstock.service.rest.meter import Growth
from penstock.service.rest.task_metrics import Number, by_rest_name, of_job, watermark_of

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_AGGREGATIONS: dict[str, Callable[[list[Number]], Number]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "skew": skew,
}


def of_jobs(request: Request) -> list[Any]:
    """GET /jobs/metrics: metrics aggregated over jobs."""
    wanted = listed(request, "jobs")
    entries = [entry for entry in jobs_of(request).all() if wanted is None or entry.job_id in wanted]
    return aggregated(request, [of_job(entry, now_ms()) for entry in entries])


def of_one_job(request: Request) -> list[Any]:
    """GET /jobs/:jobid/metrics: names, or with ?get= values."""
    return values(request, of_job(job_of(request), now_ms()))


def of_vertex(request: Request) -> list[Any]:
    """GET /jobs/:jobid/vertices/:vertexid/metrics: of its tasks, each name prefixed with the number of the subtask."""
    found = {f"{index}.{name}": v for index, own in _by_subtask(request).items() for name, v in own.items()}
    return values(request, found)


def of_subtasks(request: Request) -> list[Any]:
    """GET /jobs/:jobid/vertices/:vertexid/subtasks/metrics: metrics aggregated over subtasks."""
    wanted = listed(request, "subtasks")
    by_subtask = _by_subtask(request)
    return aggregated(request, [own for index, own in by_subtask.items() if wanted is None or str(index) in wanted])


def of_subtask(request: Request) -> list[Any]:
    """GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics: of one task."""
    index = subtask_of(request, vertex_of(request, job_of(request)))
    return values(request, _by_subtask(request).get(index, {}))


def watermarks(request: Request) -> list[Any]:
    """GET /jobs/:jobid/vertices/:vertexid/watermarks: of each subtask, in milliseconds."""
    growths = _growths(request)
    return [
        {"id": f"{index}.currentInputWatermark", "value": str(watermark_of(growth.now))}
        for index, growth in growths.items()
    ]


def of_job_manager(request: Request) -> list[Any]:
    """GET /jobmanager/metrics: slots and jobs of this process: names, or with ?get= values."""
    return values(request, metrics_of_cluster(request))


def none(request: Request) -> list[Any]:
    """GET /taskmanagers/:taskmanagerid/metrics: none, as processes are Spark's."""
    return []


def _growths(request: Request) -> dict[int, Growth]:
    """Return the metrics by subtask, of the vertex that the path names."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    return {subtask: growth for (id, subtask), growth in sorted(entry.meter.growths().items()) if id == vertex.id}


def _by_subtask(request: Request) -> dict[int, dict[str, Number]]:
    return {subtask: by_rest_name(growth) for subtask, growth in _growths(request).items()}


def listed(request: Request, name: str) -> frozenset[str] | None:
    """Return the list in a parameter; None: it is absent."""
    text = request.query_params.get(name)
    return frozenset(text.split(",")) if text else None


def values(request: Request, metrics: Mapping[str, Number]) -> list[Any]:
    """Return the names of metrics, or the requested values."""
    wanted = listed(request, "get")
    if wanted is None:
        return [{"id": name} for name in metrics]
    return [{"id": name, "value": _text(value)} for name, value in metrics.items() if name in wanted]


def _text(value: Number) -> str:
    """Format a number as Java does, whose clients read it."""
    return _NOT_FINITE.get(str(value), str(value))


def aggregated(request: Request, metrics: list[dict[str, Number]]) -> list[Any]:
    """Return the names of metrics of several things, or requested aggregates over them. Raises HTTPException: 400."""
    wanted = listed(request, "get")
    names = sorted({name for own in metrics for name in own})
    if wanted is None:
        return [{"id": name} for name in names]
    kinds = listed(request, "agg") or frozenset(_AGGREGATIONS)
    if not kinds <= _AGGREGATIONS.keys():
        raise HTTPException(400, f"agg must be of {', '.join(_AGGREGATIONS)}, got {request.query_params['agg']}")
    found = []
    for name in names:
        if name in wanted:
            values = [own[name] for own in metrics if name in own]
            found.append({"id": name, **{kind: float(f(values)) for kind, f in _AGGREGATIONS.items() if kind in kinds}})
    return found


GET = Parameter("get", "Names of metrics, separated by commas. Without it, the answer has only names.")
AGG = Parameter("agg", f"Of {', '.join(_AGGREGATIONS)}, separated by commas; default: all.")
AGGREGATED_OVER_JOBS = (GET, AGG, Parameter("jobs", "Ids, separated by commas; default: all."))
AGGREGATED_OVER_SUBTASKS = (GET, AGG, Parameter("subtasks", "Numbers, separated by commas."))
_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"

routes = [
    get("/jobs/metrics", of_jobs, *AGGREGATED_OVER_JOBS),
    get("/jobs/{jobid}/metrics", of_one_job, GET),
    get(f"{_VERTEX}/metrics", of_vertex, GET),
    get(f"{_VERTEX}/watermarks", watermarks),
    get(f"{_VERTEX}/subtasks/metrics", of_subtasks, *AGGREGATED_OVER_SUBTASKS),
    get(f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics", of_subtask, GET),
    get("/jobmanager/metrics", of_job_manager, GET),
    get("/taskmanagers/metrics", none),
    get("/taskmanagers/{taskmanagerid}/metrics", none),
]
