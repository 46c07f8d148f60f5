"""The reports of a slot's tasks to the driver, made from their counters."""

from __future__ import annotations

from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.task import TaskState


def reports_of(slot: Slot, now_ns: int) -> list[TaskReport]:
    """Return the current counters of all tasks of a slot. `now_ns`: the time of the slot's monotonic clock.

    May be called by another thread while the slot works. Each counter is read once, so the counters of a report may be
    from slightly different times.
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
        # Copy users' metrics: functions change them before the report is encoded.
        operators = [
            OperatorReport(
                name=o.name,
                records_in=o.records_in,
                records_out=o.records_out,
                late_records_dropped=o.late_records_dropped,
                watermark=o.watermark,
                user=dict(o.user),
                extremes=dict(o.extremes),
                output_watermark=o.output_watermark,
            )
            for o in c.operators
        ]
        reports.append(
            TaskReport(
                vertex=vertex,
                subtask=task.info.subtask,
                bytes_in=c.bytes_in,
                bytes_out=c.bytes_out,
                buffers_in=c.buffers_in,
                buffers_out=c.buffers_out,
                busy_ns=c.busy_ns,
                idle_ns=c.idle_ns,
                back_pressured_ns=c.back_pressured_ns,
                latency_count=c.latency_count,
                latency_sum_ms=c.latency_sum_ms,
                latency_max_ms=c.latency_max_ms,
                operators=operators,
                restored_bytes=c.restored_bytes,
                bytes_to_restore=c.bytes_to_restore,
                restored_files=c.restored_files,
                files_to_restore=c.files_to_restore,
                initializing=task.state is TaskState.CREATED,
                start_delay_ms=c.start_delay_ms,
                alignment_ns=c.aligned_ns(now_ns),
                managed_memory_bytes=slot.memory.used_by(vertex),
                managed_memory_limit_bytes=slot.memory.limit_bytes,
            )
        )
    return reports
