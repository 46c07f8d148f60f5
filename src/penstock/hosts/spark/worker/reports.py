"""The counters of a slot's tasks, in the form in which they travel to the driver."""

from __future__ import annotations

from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.task import TaskState


def reports_of(slot: Slot, now_ns: int) -> list[TaskReport]:
    """The present counters of all tasks of a slot. `now_ns`: of the clock by which it counts.

    May be called by another thread while the slot works: each number is read once, so a report may mix two moments.
    """
    reports = []
    for vertex, task in slot.tasks.items():
        c = task.counters
        for operator in task.chain.operators:
            for place in operator.function_places():
                if place.function.metrics is not None:
                    place.function.metrics.collect()
            connector_metrics = getattr(operator, "metrics", None)
            if connector_metrics is not None:
                connector_metrics.collect()
        # Metrics of users are copied: the report waits to be encoded while functions go on counting.
        operators = [
            OperatorReport(
                o.name,
                o.records_in,
                o.records_out,
                o.late_records_dropped,
                o.watermark,
                dict(o.user),
                dict(o.extremes),
                o.output_watermark,
            )
            for o in c.operators
        ]
        reports.append(
            TaskReport(
                vertex,
                task.info.subtask,
                c.bytes_in,
                c.bytes_out,
                c.buffers_in,
                c.buffers_out,
                c.busy_ns,
                c.idle_ns,
                c.back_pressured_ns,
                c.latency_count,
                c.latency_sum_ms,
                c.latency_max_ms,
                operators,
                c.restored_bytes,
                c.bytes_to_restore,
                c.restored_files,
                c.files_to_restore,
                task.state is TaskState.CREATED,
                c.start_delay_ms,
                c.aligned_ns(now_ns),
            )
        )
    return reports
