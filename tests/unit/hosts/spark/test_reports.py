"""Counters, as they are reported to the driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.engine.runtime.task.task import TaskState
from penstock.hosts.spark.worker.reports import reports_of

NOW_NS = 1_000


class Metrics:
    """A user's metrics: gauges are read when they are collected."""

    def __init__(self, user: dict[str, int]) -> None:
        self._user = user

    def collect(self) -> None:
        self._user["gauge"] = 42


def slot(*subtasks: int) -> Any:
    tasks = {}
    for vertex, subtask in enumerate(subtasks):
        user = {"counter": 3}
        operator = SimpleNamespace(
            name="map", records_in=10, records_out=9, late_records_dropped=1, watermark=77, user=user, extremes={},
            output_watermark=76,
        )  # fmt: skip
        names = ["bytes_in", "bytes_out", "buffers_in", "buffers_out", "busy_ns", "idle_ns", "back_pressured_ns"]
        names += ["latency_count", "latency_sum_ms", "latency_max_ms", "restored_bytes"]
        names += ["bytes_to_restore", "restored_files", "files_to_restore", "start_delay_ms"]
        counters = SimpleNamespace(operators=[operator], **{name: n for n, name in enumerate(names)})
        counters.aligned_ns = lambda now_ns: now_ns - 1
        function = SimpleNamespace(metrics=Metrics(user))
        places = [SimpleNamespace(function=function)]
        operators = [SimpleNamespace(function_places=lambda places=places: places)]
        chain = SimpleNamespace(operators=[*operators, SimpleNamespace(function_places=list)])
        info = SimpleNamespace(subtask=subtask)
        tasks[vertex] = SimpleNamespace(counters=counters, chain=chain, info=info, state=TaskState.RUNNING)
    memory = SimpleNamespace(used_by=lambda vertex: 100 + vertex, limit_bytes=500)
    return SimpleNamespace(tasks=tasks, memory=memory)


def test_each_task_of_a_slot_reports_all_its_counters() -> None:
    """Metrics would miss tasks, or show one counter under the name of another."""
    first, second = reports_of(slot(4, 5), NOW_NS)
    assert (first.vertex, first.subtask, second.vertex, second.subtask) == (0, 4, 1, 5)
    assert (first.bytes_in, first.bytes_out, first.buffers_in, first.buffers_out) == (0, 1, 2, 3)
    assert (first.busy_ns, first.idle_ns, first.back_pressured_ns) == (4, 5, 6)
    assert (first.latency_count, first.latency_sum_ms, first.latency_max_ms) == (7, 8, 9)
    assert (first.restored_bytes, first.bytes_to_restore) == (10, 11)
    assert (first.restored_files, first.files_to_restore, first.initializing) == (12, 13, False)
    (operator,) = first.operators
    assert (operator.name, operator.records_in, operator.records_out) == ("map", 10, 9)
    assert (operator.late_records_dropped, operator.watermark, operator.output_watermark) == (1, 77, 76)
    assert (first.start_delay_ms, first.alignment_ns) == (14, NOW_NS - 1)
    assert (first.managed_memory_bytes, first.managed_memory_limit_bytes, second.managed_memory_bytes) == (
        100,
        500,
        101,
    )


def test_gauges_are_read_for_each_report() -> None:
    """A user's gauge would show the value of the job's start."""
    (report,) = reports_of(slot(0), NOW_NS)
    assert report.operators[0].user == {"counter": 3, "gauge": 42}


def test_a_report_is_a_copy() -> None:
    """A report that waits to be sent would change under the encoder."""
    hosted = slot(0)
    (report,) = reports_of(hosted, NOW_NS)
    hosted.tasks[0].counters.operators[0].user["counter"] = 4
    assert report.operators[0].user["counter"] == 3


def test_a_slot_without_tasks_reports_nothing() -> None:
    """A slot of a level that is wider than its vertices would fail at its first heartbeat."""
    assert reports_of(slot(), NOW_NS) == []
