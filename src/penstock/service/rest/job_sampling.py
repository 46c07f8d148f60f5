"""Take a sample of a job's figures, from what its tasks have reported."""

from __future__ import annotations

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import OperatorReport
from penstock.service.rest.job_history import JobSample
from penstock.service.rest.meter import Growth
from penstock.service.rest.served_jobs import JobEntry


def sample_of(entry: JobEntry, at_ms: int) -> JobSample:
    """Return the current figures of a job."""
    graph, growths = entry.graph, entry.meter.growths()
    checkpoints = graph.checkpoints
    since_ms = entry.history.newest_ms
    completed = [one for one in checkpoints.history if not one.failure]
    new = [one.duration_ms for one in completed if one.triggered_ms + one.duration_ms > since_ms]
    records_in, records_out, watermark = _records(graph.graph, growths)
    by_vertex = [[g for (vertex, _), g in growths.items() if vertex == one.id] for one in graph.graph.vertices]
    return JobSample(
        timestamp=at_ms,
        records_in_per_second=records_in,
        records_out_per_second=records_out,
        watermark=watermark,
        busy=tuple(max((_percent(g, g.before.busy_ns, g.after.busy_ns) for g in own), default=0) for own in by_vertex),
        back_pressured=tuple(
            max((_percent(g, g.before.back_pressured_ns, g.after.back_pressured_ns) for g in own), default=0)
            for own in by_vertex
        ),
        restarts=graph.restarts,
        failed_checkpoints=checkpoints.failed_count,
        checkpoint_duration=max(new, default=None),
        checkpoint_size=completed[-1].total_bytes if completed else None,
    )


def _percent(growth: Growth, before_ns: int, after_ns: int) -> int:
    return min(100, round(growth.per_second(before_ns, after_ns) / 10_000_000))


def _records(graph: JobGraph, growths: dict[tuple[int, int], Growth]) -> tuple[float, float, int | None]:
    """Return records per second out of sources and into sinks, and the lowest watermark of sinks."""
    sending = {edge.source for edge in graph.stream_graph.edges}
    records_in = records_out = 0.0
    watermark = MAX_TIMESTAMP
    for (vertex_number, _), growth in growths.items():
        vertex = graph.vertices[vertex_number]
        # A task that is starting has reported no operators.
        per_operator = zip(vertex.nodes, growth.before.operators, growth.after.operators, strict=False)
        for place, (node, before, after) in enumerate(per_operator):
            if vertex.is_source and place == 0:
                records_in += growth.per_second(before.records_out, after.records_out)
            if node.id not in sending:
                records_out += growth.per_second(before.records_in, after.records_in)
                watermark = min(watermark, _newest(growth, place, after).watermark)
    return records_in, records_out, watermark if MIN_TIMESTAMP < watermark < MAX_TIMESTAMP else None


def _newest(growth: Growth, place: int, otherwise: OperatorReport) -> OperatorReport:
    return growth.now.operators[place] if place < len(growth.now.operators) else otherwise
