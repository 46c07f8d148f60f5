"""The metrics of tasks and jobs, by Flink's names. Source: Flink docs, "Metrics", System metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.common.constants import MIN_TIMESTAMP
from penstock.rest.meter import Growth
from penstock.rest.served_jobs import JobEntry
from penstock.rpc.messages import TaskReport

Number = int | float

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


class OperatorMetrics(NamedTuple):
    """Metrics of one operator of a subtask: of Flink's names, and users' own by theirs."""

    operator: str
    metrics: dict[str, Number]


def of_task(growth: Growth) -> dict[str, Number]:
    """Metrics of a subtask in the task's scope."""
    before, now = growth.before, growth.now
    counters = {
        "numBytesIn": (before.bytes_in, now.bytes_in),
        "numBytesOut": (before.bytes_out, now.bytes_out),
        "numBuffersIn": (before.buffers_in, now.buffers_in),
        "numBuffersOut": (before.buffers_out, now.buffers_out),
        "numRecordsIn": (_records_in(before), _records_in(now)),
        "numRecordsOut": (_records_out(before), _records_out(now)),
    }
    metrics: dict[str, Number] = {name: value for name, (_, value) in counters.items()}
    metrics |= {f"{name}PerSecond": growth.per_second(*values) for name, values in counters.items()}
    for name, ns_before, ns in (
        ("busy", before.busy_ns, now.busy_ns),
        ("idle", before.idle_ns, now.idle_ns),
        ("backPressured", before.back_pressured_ns, now.back_pressured_ns),
    ):
        metrics[f"{name}TimeMsPerSecond"] = growth.per_second(ns_before, ns) / 1_000_000
        metrics[f"accumulate{name[0].upper()}{name[1:]}TimeMs"] = ns // 1_000_000
    if now.operators:
        metrics["currentInputWatermark"] = now.operators[0].watermark
    if now.latency_count:
        metrics["latency_mean"] = now.latency_sum_ms / now.latency_count
        metrics["latency_max"] = now.latency_max_ms
    return metrics


def of_operators(growth: Growth) -> Iterator[OperatorMetrics]:
    """Metrics of a subtask in the scope of each of its operators."""
    befores = growth.before.operators if len(growth.before.operators) == len(growth.now.operators) else None
    for index, now in enumerate(growth.now.operators):
        before = now if befores is None else befores[index]
        metrics: dict[str, Number] = {
            "numRecordsIn": now.records_in,
            "numRecordsOut": now.records_out,
            "numRecordsInPerSecond": growth.per_second(before.records_in, now.records_in),
            "numRecordsOutPerSecond": growth.per_second(before.records_out, now.records_out),
            "numLateRecordsDropped": now.late_records_dropped,
            "currentInputWatermark": now.watermark,
        }
        # As in Flink: what Flink has a name for is not the user's.
        yield OperatorMetrics(now.name, {**now.user, **metrics})


def by_rest_name(growth: Growth) -> dict[str, Number]:
    """All metrics of a subtask as they are named over REST: those of operators behind their names."""
    metrics = of_task(growth)
    for operator, own in of_operators(growth):
        prefix = rest_name(operator)
        metrics |= {f"{prefix}.{rest_name(name)}": value for name, value in own.items()}
    return metrics


def of_job(entry: JobEntry, now_ms: int) -> dict[str, Number]:
    """Metrics of the whole job."""
    graph = entry.graph
    started_ms = min(graph.status_ms.values())
    checkpoints = graph.checkpoints
    metrics: dict[str, Number] = {
        "uptime": now_ms - started_ms,
        "numRestarts": graph.restarts,
        "fullRestarts": graph.restarts,
        "totalNumberOfCheckpoints": checkpoints.completed_count + checkpoints.failed_count + len(checkpoints.under_way),
        "numberOfInProgressCheckpoints": len(checkpoints.under_way),
        "numberOfCompletedCheckpoints": checkpoints.completed_count,
        "numberOfFailedCheckpoints": checkpoints.failed_count,
        "lastCheckpointDuration": -1,
        "lastCheckpointSize": -1,
        "lastCheckpointFullSize": -1,
        "lastCompletedCheckpointId": -1,
        "lastCheckpointRestoreTimestamp": checkpoints.restored.at_ms if checkpoints.restored is not None else -1,
    }
    last = next((report for report in reversed(checkpoints.history) if report.is_completed), None)
    if last is not None:
        metrics["lastCheckpointDuration"] = last.duration_ms
        metrics["lastCheckpointSize"] = last.written_bytes
        metrics["lastCheckpointFullSize"] = last.total_bytes
        metrics["lastCompletedCheckpointId"] = last.checkpoint_id
    return metrics


def watermark_of(report: TaskReport) -> int:
    """The input watermark of a task (ms); Flink's lowest number before the first one."""
    return report.operators[0].watermark if report.operators else MIN_TIMESTAMP


def rest_name(name: str) -> str:
    """A name as it stands in the id of a metric: letters, digits, `_`, `.` and `-`."""
    return _NOT_IN_NAMES.sub("_", name)


def _records_in(report: TaskReport) -> int:
    return report.operators[0].records_in if report.operators else 0


def _records_out(report: TaskReport) -> int:
    return report.operators[-1].records_out if report.operators else 0
