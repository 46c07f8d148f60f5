"""GET /metrics: all metrics as Prometheus reads them, named as by Flink's PrometheusReporter.

Flink reports counters as gauges, too: they begin at zero again when a job restarts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.constants import MIN_TIMESTAMP
from penstock.plan.vertex_ids import operator_id, vertex_id
from penstock.rest.answers import jobs_of, now_ms
from penstock.rest.described_route import TEXT, DescribedRoute
from penstock.rest.served_jobs import JobEntry
from penstock.rest.task_metrics import Number, of_job, of_operators, of_task

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_JOB = "flink_jobmanager_job_"
_TASK = "flink_taskmanager_job_task_"
_OPERATOR = "flink_taskmanager_job_task_operator_"


class JobsCollector(Collector):
    """The metrics of these jobs as they are now."""

    def __init__(self, entries: list[JobEntry]) -> None:
        self._entries = entries
        self._families: dict[str, GaugeMetricFamily] = {}

    def collect(self) -> Iterable[Metric]:
        """All metrics, each with its samples."""
        self._families = {}
        for entry in self._entries:
            self._collect_job(entry)
        return self._families.values()

    def _collect_job(self, entry: JobEntry) -> None:
        graph = entry.graph
        job = {"job_id": entry.job_id, "job_name": graph.graph.name}
        self._add(_JOB, of_job(entry, now_ms()), job)
        vertices = {vertex.id: vertex for vertex in graph.graph.vertices}
        for (id, subtask), growth in sorted(entry.meter.growths().items()):
            vertex = vertices[id]
            task = {**job, "task_id": vertex_id(vertex), "task_name": vertex.name, "subtask_index": str(subtask)}
            self._add(_TASK, of_task(growth), task)
            for index, operator, metrics in of_operators(growth):
                # Names of operators are no more than names: two maps of one chain may share theirs.
                own = {"operator_id": operator_id(vertex.nodes[index]), "operator_name": operator}
                self._add(_OPERATOR, metrics, task | own)

    def _add(self, scope: str, metrics: dict[str, Number], labels: dict[str, str]) -> None:
        # Of two names that Prometheus writes alike the first counts: it refuses two samples of one series.
        written: dict[str, Number] = {}
        for name, value in _known(metrics):
            written.setdefault(scope + _NOT_IN_NAMES.sub("_", name), value)
        for name, value in written.items():
            family = self._families.get(name)
            if family is None:
                family = self._families[name] = GaugeMetricFamily(name, name, labels=list(labels))
            family.add_metric([_written(label) for label in labels.values()], value)


def _known(metrics: dict[str, Number]) -> Iterator[tuple[str, Number]]:
    """All but watermarks before the first one, which would be the end of any scale."""
    return ((name, value) for name, value in metrics.items() if value != MIN_TIMESTAMP)


def _written(label: str) -> str:
    return label.encode("utf-8", "replace").decode()


async def metrics(request: Request) -> Response:
    """GET /metrics: all metrics, for Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobsCollector(jobs_of(request).all()))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


routes = [DescribedRoute("/metrics", metrics, media_type=TEXT)]
