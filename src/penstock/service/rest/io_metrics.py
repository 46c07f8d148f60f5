"""Records and bytes that tasks have read and written, in Flink's form. Flink: IOMetricsInfo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.plan.job_graph import JobVertex
from penstock.service.rest.meter import Growth


def io_metrics(vertex: JobVertex, growths: Sequence[Growth | None]) -> dict[str, Any]:
    """Sum over subtasks; `growths`: one for each, or None if it has not reported."""
    reports = [growth.now for growth in growths if growth is not None]
    complete = len(reports) == len(growths)
    # As in Flink, what a source reads from outside and a sink writes to the outside does not count.
    read = 0 if vertex.is_source else sum(report.operators[0].records_in for report in reports if report.operators)
    written = sum(report.operators[-1].records_out for report in reports if report.operators)
    return {
        "read-bytes": sum(report.bytes_in for report in reports),
        "read-bytes-complete": complete,
        "write-bytes": sum(report.bytes_out for report in reports),
        "write-bytes-complete": complete,
        "read-records": read,
        "read-records-complete": complete,
        "write-records": written,
        "write-records-complete": complete,
        "accumulated-backpressured-time": sum(report.back_pressured_ns for report in reports) // 1_000_000,
        "accumulated-idle-time": sum(report.idle_ns for report in reports) // 1_000_000,
        "accumulated-busy-time": sum(report.busy_ns for report in reports) / 1_000_000,
    }
