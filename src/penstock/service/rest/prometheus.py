"""GET /metrics: all metrics in Prometheus' format, named as by Flink's PrometheusReporter.

Like Flink, report counters as gauges, since they restart at zero when a job restarts. The text is written here, not by
prometheus-client, whose objects for each sample cost more than all measuring: here, labels are written once for each
operator, not for each metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.time.wall_clock import now_ms
from penstock.engine.plan.vertex_ids import operator_id, vertex_id
from penstock.service.rest.answers import jobs_of
from penstock.service.rest.cluster_paths import metrics_of_cluster
from penstock.service.rest.described_route import TEXT, DescribedRoute
from penstock.service.rest.served_jobs import JobEntry
from penstock.service.rest.task_metrics import Number, of_job, of_operators, of_task

_number: Callable[[float], str] = floatToGoString
Families = dict[str, dict[str, Number]]
"""Values by the name of the metric and by labels, as they are written."""
OF_CLUSTER = "flink_jobmanager_"
_JOB = "flink_jobmanager_job_"
_TASK = "flink_taskmanager_job_task_"
_OPERATOR = "flink_taskmanager_job_task_operator_"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(families: Mapping[str, Mapping[str, Number]]) -> str:
    """Return the text of all metrics. Source: Prometheus docs, "Exposition formats", Text format."""
    lines = []
    for name, samples in families.items():
        lines.append(f"# HELP {name} {name}\n# TYPE {name} gauge")
        lines += [f"{name}{labels} {_number(value)}" for labels, value in samples.items()]
    lines.append("")
    return "\n".join(lines)


def of_jobs(entries: Iterable[JobEntry]) -> Families:
    """Return the current metrics of these jobs."""
    families: Families = {}
    for entry in entries:
        graph = entry.graph
        job = {"job_id": entry.job_id, "job_name": graph.graph.name}
        add(families, _JOB, of_job(entry, now_ms()), job)
        vertices = {vertex.id: vertex for vertex in graph.graph.vertices}
        for (id, subtask), growth in sorted(entry.meter.growths().items()):
            vertex = vertices[id]
            task = {**job, "task_id": vertex_id(vertex), "task_name": vertex.name, "subtask_index": str(subtask)}
            add(families, _TASK, of_task(growth), task)
            for index, operator, metrics in of_operators(growth):
                # Names of operators need not be unique: two maps of one chain may share theirs.
                own = {"operator_id": operator_id(vertex.nodes[index]), "operator_name": operator}
                add(families, _OPERATOR, metrics, task | own)
    return families


def add(families: Families, scope: str, metrics: Mapping[str, Number], labels: Mapping[str, str]) -> None:
    """Add the metrics of one thing. `scope`: the prefix of their names."""
    written = _labels(tuple(labels.items()))
    for name, value in metrics.items():
        # No watermark before the first one: Flink's lowest number would distort any scale.
        if value != MIN_TIMESTAMP:
            # Of two names that Prometheus writes the same way, the first counts: it refuses two samples of one series.
            families.setdefault(_family(scope, name), {}).setdefault(written, value)


@lru_cache(4_096)
def _family(scope: str, name: str) -> str:
    return scope + _NOT_IN_NAMES.sub("_", name)


@lru_cache(4_096)
def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels)
    return f"{{{text}}}".encode("utf-8", "replace").decode()


async def metrics(request: Request) -> Response:
    """GET /metrics: all metrics, for Prometheus."""
    families = of_jobs(jobs_of(request).all())
    add(families, OF_CLUSTER, metrics_of_cluster(request), {})
    return Response(exposition(families), media_type=CONTENT_TYPE_LATEST)


routes = [DescribedRoute("/metrics", metrics, media_type=TEXT)]
