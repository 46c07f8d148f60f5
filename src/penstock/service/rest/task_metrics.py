"""The metrics of tasks and jobs, by Flink's names. Source: Flink docs, "Metrics", System metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.execution_graph import ExecutionGraph
from penstock.engine.rpc.messages import TaskReport
from penstock.service.rest.meter import Growth
from penstock.service.rest.served_jobs import JobEntry

Number = int | float

_BACK_PRESSURED_MS = 100
"""Milliseconds of each second: Flink's pages call a task back-pressured from a tenth of its time on."""
_STATES = {
    JobStatus.CREATED: "created",
    JobStatus.RUNNING: "running",
    JobStatus.RESTARTING: "restarting",
    JobStatus.CANCELLING: "cancelling",
    JobStatus.FAILING: "failing",
}
"""The states that Flink has metrics of (StatusMetrics)."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


class OperatorMetrics(NamedTuple):
    """Metrics of one operator of a subtask: of Flink's names, and users' own by theirs."""

    place: int
    """The operator's place in the task's chain."""
    operator: str
    metrics: dict[str, Number]


def of_task(growth: Growth) -> dict[str, Number]:
    """Return the metrics of a subtask in the task's scope."""
    before, after, now = growth.before, growth.after, growth.now
    metrics: dict[str, Number] = {name: read(now) for name, read in _COUNTERS.items()}
    for name, read in _COUNTERS.items():
        metrics[f"{name}PerSecond"] = growth.per_second(read(before), read(after))
    for name, read in _TIMES_NS.items():
        metrics[f"{name}TimeMsPerSecond"] = growth.per_second(read(before), read(after)) / 1_000_000
        metrics[f"accumulate{name[0].upper()}{name[1:]}TimeMs"] = read(now) // 1_000_000
    metrics["isBackPressured"] = int(metrics["backPressuredTimeMsPerSecond"] > _BACK_PRESSURED_MS)
    if now.operators:
        metrics["numLateRecordsDropped"] = sum(operator.late_records_dropped for operator in now.operators)
        metrics["currentInputWatermark"] = now.operators[0].watermark
    metrics["checkpointStartDelayNanos"] = now.start_delay_ms * 1_000_000
    metrics["checkpointAlignmentTime"] = now.alignment_ns
    metrics["mailboxMailsPerSecond"] = growth.per_second(before.mails, after.mails)
    metrics["mailboxQueueSize"] = now.mails_waiting
    # Two of the numbers that Flink's REST makes of a histogram.
    metrics["mailboxLatencyMs_mean"] = now.mail_latency_mean_ms
    metrics["mailboxLatencyMs_max"] = now.mail_latency_max_ms
    metrics["managedMemoryUsed"] = now.managed_memory_bytes
    limit = now.managed_memory_limit_bytes
    metrics["managedMemoryLimit"] = -1 if limit is None else limit
    if now.latency_count:
        metrics["latency_mean"] = now.latency_sum_ms / now.latency_count
        metrics["latency_max"] = now.latency_max_ms
    return metrics


def of_operators(growth: Growth) -> Iterator[OperatorMetrics]:
    """Return the metrics of a subtask in the scope of each of its operators."""
    # A task that is starting has reported fewer.
    per_operator = zip_longest(growth.before.operators, growth.after.operators, growth.now.operators)
    for place, (before, after, now) in enumerate(per_operator):
        if now is None:
            return
        before, after = (now, now) if before is None or after is None else (before, after)
        metrics: dict[str, Number] = {
            "numRecordsIn": now.records_in,
            "numRecordsOut": now.records_out,
            "numRecordsInPerSecond": growth.per_second(before.records_in, after.records_in),
            "numRecordsOutPerSecond": growth.per_second(before.records_out, after.records_out),
            "numLateRecordsDropped": now.late_records_dropped,
            "currentInputWatermark": now.watermark,
            "currentOutputWatermark": now.output_watermark,
        }
        # As in Flink, Flink's own metrics take precedence over the user's of the same name.
        yield OperatorMetrics(place, now.name, {**now.user, **metrics})


def by_rest_name(growth: Growth) -> dict[str, Number]:
    """Return all metrics of a subtask with their names in REST: those of operators follow the operator's name."""
    metrics = of_task(growth)
    for _, operator, own in of_operators(growth):
        prefix = rest_name(operator)
        metrics |= {f"{prefix}.{rest_name(name)}": value for name, value in own.items()}
    return metrics


def of_job(entry: JobEntry, now_ms: int) -> dict[str, Number]:
    """Return the metrics of the whole job."""
    graph = entry.graph
    checkpoints = graph.checkpoints
    metrics: dict[str, Number] = {
        "uptime": _uptime_ms(graph, now_ms),
        "downtime": _downtime_ms(graph, now_ms),
        "numRestarts": graph.restarts,
        "fullRestarts": graph.restarts,
        "numRescales": entry.job.metrics.rescales,
        "totalNumberOfCheckpoints": checkpoints.completed_count + checkpoints.failed_count + len(checkpoints.under_way),
        "numberOfInProgressCheckpoints": len(checkpoints.under_way),
        "numberOfCompletedCheckpoints": checkpoints.completed_count,
        "numberOfFailedCheckpoints": checkpoints.failed_count,
        "lastCheckpointDuration": -1,
        "lastCheckpointSize": -1,
        "lastCheckpointFullSize": -1,
        "lastCompletedCheckpointId": -1,
        "lastCheckpointCompletedTimestamp": -1,
        "lastCheckpointRestoreTimestamp": checkpoints.restored.at_ms if checkpoints.restored is not None else -1,
    }
    last = checkpoints.latest.restorable
    if last is not None:
        metrics["lastCheckpointDuration"] = last.duration_ms
        metrics["lastCheckpointSize"] = last.written_bytes
        metrics["lastCheckpointFullSize"] = last.total_bytes
        metrics["lastCompletedCheckpointId"] = last.checkpoint_id
        metrics["lastCheckpointCompletedTimestamp"] = last.triggered_ms + last.duration_ms
    for status, name in _STATES.items():
        is_now = graph.status is status
        metrics[f"{name}State"] = int(is_now)
        metrics[f"{name}Time"] = _since_ms(graph, now_ms) if is_now else 0
    return metrics


def _uptime_ms(graph: ExecutionGraph, now_ms: int) -> int:
    """Return how long the job has run since its latest start; 0: it does not run; -1: it has ended.

    Flink: UpTimeGauge.
    """
    if graph.status.is_terminal_state():
        return -1
    return _since_ms(graph, now_ms) if graph.status is JobStatus.RUNNING else 0


def _downtime_ms(graph: ExecutionGraph, now_ms: int) -> int:
    """Return how long the job has been down since it failed; 0: it is not; -1: it has ended. Flink: DownTimeGauge."""
    if graph.status.is_terminal_state():
        return -1
    return 0 if graph.down_since_ms is None else max(0, now_ms - graph.down_since_ms)


def _since_ms(graph: ExecutionGraph, now_ms: int) -> int:
    """Return how long the job has been in its current state."""
    return max(0, now_ms - graph.status_ms[graph.status])


def watermark_of(report: TaskReport) -> int:
    """Return the input watermark of a task (ms); Flink's lowest number before the first one."""
    return report.operators[0].watermark if report.operators else MIN_TIMESTAMP


def rest_name(name: str) -> str:
    """Return a name as used in the id of a metric: letters, digits, `_`, `.` and `-`."""
    return _NOT_IN_NAMES.sub("_", name)


def _records_in(report: TaskReport) -> int:
    return report.operators[0].records_in if report.operators else 0


def _records_out(report: TaskReport) -> int:
    return report.operators[-1].records_out if report.operators else 0


_COUNTERS: dict[str, Callable[[TaskReport], int]] = {
    "numBytesIn": lambda report: report.bytes_in,
    "numBytesOut": lambda report: report.bytes_out,
    "numBuffersIn": lambda report: report.buffers_in,
    "numBuffersOut": lambda report: report.buffers_out,
    "numRecordsIn": _records_in,
    "numRecordsOut": _records_out,
}
_TIMES_NS: dict[str, Callable[[TaskReport], int]] = {
    "busy": lambda report: report.busy_ns,
    "idle": lambda report: report.idle_ns,
    "backPressured": lambda report: report.back_pressured_ns,
}
