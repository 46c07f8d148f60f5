"""Add up the counters of a job from the reports of its subtasks."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.operator_metrics import OPERATOR_METRICS
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.execution_graph import JobFailure
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import OperatorReport, TaskReport


@dataclasses.dataclass(frozen=True)
class OperatorMetrics:
    """Counters of one operator over all its subtasks. Watermarks are the subtasks' lowest (ms)."""

    name: str
    records_in: int
    records_out: int
    late_records_dropped: int
    watermark: int
    user: dict[str, int | float]
    output_watermark: int = MIN_TIMESTAMP


@dataclasses.dataclass(frozen=True)
class VertexMetrics:
    """Counters of one vertex: sums over its subtasks, with times in ms."""

    name: str
    """Names of its operators, joined by arrows."""
    parallelism: int
    """Number of its subtasks."""
    bytes_in: int
    """Bytes of the buffers received over exchanges."""
    bytes_out: int
    """Bytes of the buffers sent over exchanges."""
    busy_ms: int
    """Time spent on records, timers and snapshots."""
    idle_ms: int
    """Time without input."""
    back_pressured_ms: int
    """Time in which output could not be written because the next vertex was slower."""
    latency_mean_ms: float | None
    """Mean latency from a source to here, by latency markers; None without `metrics.latency.interval`."""
    latency_max_ms: int | None
    """Highest latency."""
    operators: list[OperatorMetrics]
    """Counters of the operators of the chain, in order."""
    subtasks: list[TaskReport]
    """Reports of the subtasks, with times in nanoseconds."""
    restored_bytes: int
    """Bytes of state restored when the tasks last started."""
    initializing: int = 0
    """Number of subtasks that still restore their state or open their functions."""
    bytes_to_restore: int = 0
    """Upper limit of `restored_bytes` when all subtasks have initialized."""
    restored_files: int = 0
    """Number of files from which state was restored."""
    files_to_restore: int = 0
    """Upper limit of `restored_files`."""
    managed_memory_bytes: int = 0
    """Memory that state of columns, their caches and the sorters of BATCH hold now."""


@dataclasses.dataclass(frozen=True)
class JobTotals:
    """Totals of a job since its last start. `watermark`: the lowest at a sink (ms), or None."""

    records_in: int
    """Records that its sources emitted."""
    records_out: int
    """Records that arrived at its sinks."""
    watermark: int | None


@dataclasses.dataclass(frozen=True)
class JobFigures:
    """Figures of a job at one moment, for clients."""

    status: str
    restarts: int
    totals: JobTotals
    vertices: list[VertexMetrics]
    checkpoint: CheckpointReport | None
    """The latest completed checkpoint."""
    rescales: int = 0
    """How often it has continued with another parallelism."""
    failed_checkpoint: CheckpointReport | None = None
    """The latest failed checkpoint since then."""
    autoscaled: Autoscaled | None = None
    """The newest decision of the autoscaler."""
    failures: Sequence[JobFailure] = ()
    """The newest failures, oldest first."""
    updates: int = 0
    """How often it has continued with other functions."""


class AttemptReport(NamedTuple):
    """A report of a subtask, with the number of its attempt."""

    attempt: int
    report: TaskReport


class JobMetrics:
    """Hold the newest report of each subtask."""

    def __init__(self, graph: JobGraph) -> None:
        self._graph = graph
        self.rescales = 0
        """How often attempts have begun with another parallelism."""
        self.updates = 0
        """How often attempts have begun with other functions and the same parallelism."""
        self._reports: dict[tuple[int, int], TaskReport] = {}
        self._attempts: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def deployed(self, graph: JobGraph) -> None:
        """Set the plan of the next attempts, which may have fewer subtasks."""
        with self._lock:
            if graph is not self._graph:
                is_rescaled = _parallelism(graph) != _parallelism(self._graph)
                self.rescales += is_rescaled
                self.updates += not is_rescaled
            self._graph = graph
            for vertex, subtask in list(self._reports):
                if subtask >= graph.vertices[vertex].parallelism:
                    del self._reports[vertex, subtask]

    def update(self, reports: list[TaskReport], attempt: int | None = None) -> None:
        """Store the reports of a heartbeat. `attempt`: number of their attempt; None leaves the known one."""
        with self._lock:
            for report in reports:
                self._reports[report.vertex, report.subtask] = report
                if attempt is not None:
                    self._attempts[report.vertex, report.subtask] = attempt

    def reports(self) -> dict[tuple[int, int], TaskReport]:
        """Return the newest reports by vertex and subtask, as a copy; the reports are immutable."""
        with self._lock:
            return dict(self._reports)

    def of_attempts(self) -> dict[tuple[int, int], AttemptReport]:
        """Return the newest reports with their attempts: counters of a new attempt begin at zero."""
        with self._lock:
            return {key: AttemptReport(self._attempts.get(key, 0), report) for key, report in self._reports.items()}

    def vertices(self) -> list[VertexMetrics]:
        """Return the metrics of each vertex, in the order of the graph."""
        reports = self.reports()
        result = []
        for vertex in self._graph.vertices:
            subtasks = [reports[key] for key in sorted(reports) if key[0] == vertex.id]
            result.append(_sum_up(vertex.name, vertex.parallelism, subtasks))
        return result

    def totals(self) -> JobTotals:
        """Return records in and out, and event time."""
        return totals_of(self._graph, self.vertices())

    def as_dict(self) -> dict[str, dict[str, int | float]]:
        """Return OPERATOR_METRICS and users' metrics, by operator name."""
        return by_operator(self.vertices())


def _parallelism(graph: JobGraph) -> list[int]:
    return [vertex.parallelism for vertex in graph.vertices]


def by_operator(vertices: Iterable[VertexMetrics]) -> dict[str, dict[str, int | float]]:
    """Return OPERATOR_METRICS and users' metrics, by operator name."""
    metrics: dict[str, dict[str, int | float]] = {}
    for vertex in vertices:
        for operator in vertex.operators:
            name = operator.name
            # Number operators of the same name in the order of the program.
            while name in metrics:
                name = _next_name(name)
            metrics[name] = {
                **{name: getattr(operator, field) for name, (field, _) in OPERATOR_METRICS.items()},
                **operator.user,
            }
    return metrics


def totals_of(graph: JobGraph, vertices: list[VertexMetrics]) -> JobTotals:
    """Add up metrics of the vertices of a graph."""
    sending = {edge.source for edge in graph.stream_graph.edges}
    records_in = records_out = 0
    watermark = MAX_TIMESTAMP
    for vertex, figures in zip(graph.vertices, vertices, strict=True):
        # A vertex that has not reported yet has no operators.
        for node, operator in zip(vertex.nodes, figures.operators, strict=False):
            if vertex.is_source and node is vertex.nodes[0]:
                records_in += operator.records_out
            if node.id not in sending:
                records_out += operator.records_in
                watermark = min(watermark, operator.watermark)
    return JobTotals(records_in, records_out, watermark if MIN_TIMESTAMP < watermark < MAX_TIMESTAMP else None)


def _next_name(name: str) -> str:
    stem, _, number = name.rpartition(" #")
    return f"{stem} #{int(number) + 1}" if stem and number.isdigit() else f"{name} #2"


def _sum_up(name: str, parallelism: int, subtasks: list[TaskReport]) -> VertexMetrics:
    latencies = sum(report.latency_count for report in subtasks)
    per_operator = zip(*(report.operators for report in subtasks), strict=True)
    return VertexMetrics(
        name=name,
        parallelism=parallelism,
        bytes_in=sum(report.bytes_in for report in subtasks),
        bytes_out=sum(report.bytes_out for report in subtasks),
        busy_ms=sum(report.busy_ns for report in subtasks) // 1_000_000,
        idle_ms=sum(report.idle_ns for report in subtasks) // 1_000_000,
        back_pressured_ms=sum(report.back_pressured_ns for report in subtasks) // 1_000_000,
        latency_mean_ms=sum(report.latency_sum_ms for report in subtasks) / latencies if latencies else None,
        latency_max_ms=max((report.latency_max_ms for report in subtasks), default=0) if latencies else None,
        operators=[
            OperatorMetrics(
                name=reports[0].name,
                records_in=sum(report.records_in for report in reports),
                records_out=sum(report.records_out for report in reports),
                late_records_dropped=sum(report.late_records_dropped for report in reports),
                watermark=min(report.watermark for report in reports),
                user=own_metrics(reports),
                output_watermark=min(report.output_watermark for report in reports),
            )
            for reports in per_operator
        ],
        subtasks=subtasks,
        restored_bytes=sum(report.restored_bytes for report in subtasks),
        initializing=sum(report.initializing for report in subtasks),
        bytes_to_restore=sum(report.bytes_to_restore for report in subtasks),
        restored_files=sum(report.restored_files for report in subtasks),
        files_to_restore=sum(report.files_to_restore for report in subtasks),
        managed_memory_bytes=sum(report.managed_memory_bytes for report in subtasks),
    )


def records_of(subtask: TaskReport) -> int:
    """Return the records that a subtask received, or emitted if it is a source."""
    first = subtask.operators[0] if subtask.operators else None
    return (first.records_in or first.records_out) if first else 0


def skew(values: Sequence[float]) -> float:
    """Return the mean deviation from the mean, in percent of the mean, at most 100. Flink: DoubleDataSkew."""
    mean = sum(values) / len(values) if values else 0
    deviation = sum(abs(value - mean) for value in values) / len(values) if values else 0
    return min(100.0, 100 * deviation / mean) if mean else 0.0


def own_metrics(reports: Sequence[OperatorReport]) -> dict[str, int | float]:
    """Return the metrics that an operator, or its function, has added, over the subtasks that report them."""
    names = sorted({metric for report in reports for metric in report.user})
    return {name: _combined(name, [report for report in reports if name in report.user]) for name in names}


_COMBINE = {"min": min, "max": max}


def _combined(metric: str, reports: list[OperatorReport]) -> int | float:
    """Combine a metric over subtasks: the sum, except for minima and maxima."""
    kind = reports[0].extremes.get(metric)
    values = [report.user[metric] for report in reports]
    return sum(values) if kind is None else _COMBINE[kind](values)
