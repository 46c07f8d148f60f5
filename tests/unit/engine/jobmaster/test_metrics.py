"""Counters of a job: added up over subtasks, the newest report of each, by the name of the operator."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.jobmaster.played_job import plan

from penstock.engine.jobmaster.metrics import JobMetrics, JobTotals
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import OperatorReport, TaskReport

MS = 1_000_000
"""In nanoseconds."""
GRAPH = plan(2)
SOURCE, COUNT = (vertex.id for vertex in GRAPH.vertices)


def operator(
    name: str = "count",
    records: int = 0,
    watermark: int = 0,
    user: dict[str, int | float] | None = None,
    extremes: dict[str, Literal["min", "max"]] | None = None,
) -> OperatorReport:
    own, ends = user or {}, extremes or {}
    return OperatorReport(name, records, records * 2, records * 3, watermark, own, ends, watermark - 1)


def report(subtask: int, *operators: OperatorReport, vertex: int = COUNT, **figures: int) -> TaskReport:
    empty = TaskReport(vertex, subtask, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, list(operators))
    return msgspec.structs.replace(empty, **figures)


def metrics_of(*reports: TaskReport, graph: JobGraph = GRAPH) -> JobMetrics:
    metrics = JobMetrics(graph)
    metrics.update(list(reports))
    return metrics


def test_figures_of_a_vertex_are_sums_over_its_subtasks() -> None:
    """A user would see a part of the load, and look for the bottleneck in the wrong operator."""
    metrics = metrics_of(
        report(0, bytes_in=1, bytes_out=2, busy_ns=3 * MS, idle_ns=4 * MS, back_pressured_ns=5 * MS, restored_bytes=6),
        report(
            1, bytes_in=10, bytes_out=20, busy_ns=30 * MS, idle_ns=40 * MS, back_pressured_ns=50 * MS, restored_bytes=60
        ),
    )
    source, count = metrics.vertices()
    sums = count.bytes_in, count.bytes_out, count.busy_ms, count.idle_ms, count.back_pressured_ms, count.restored_bytes
    assert sums == (11, 22, 33, 44, 55, 66)
    assert [one.subtask for one in count.subtasks] == [0, 1]
    assert (source.name, source.bytes_out, source.subtasks) == (GRAPH.vertices[0].name, 0, [])


def test_times_are_added_before_they_are_rounded() -> None:
    """Many subtasks that are busy for less than a millisecond would count as idle."""
    _, count = metrics_of(*(report(subtask, busy_ns=MS // 2) for subtask in range(2))).vertices()
    assert count.busy_ms == 1


def test_the_newest_report_of_a_subtask_replaces_its_last_one() -> None:
    """Records would be counted once for each heartbeat."""
    metrics = metrics_of(report(0, operator(records=5)), report(1, operator(records=7)))
    metrics.update([report(0, operator(records=6))])
    assert metrics.as_dict()["count"]["numRecordsIn"] == 13


def test_what_an_operator_has_done() -> None:
    """Windows that wait for the slowest subtask, or records that are dropped, would not be found."""
    metrics = metrics_of(
        report(0, operator(records=5, watermark=300)), report(1, operator(records=7, watermark=100))
    ).as_dict()
    assert metrics["count"] == {
        "numRecordsIn": 12,
        "numRecordsOut": 24,
        "numLateRecordsDropped": 36,
        "currentOutputWatermark": 99,
        "currentInputWatermark": 100,
    }


def test_the_ends_of_a_distribution_are_not_added_up() -> None:
    """A user's longest request would be reported as the sum of the longest ones of all subtasks."""
    ends: dict[str, Literal["min", "max"]] = {"latency.min": "min", "latency.max": "max"}
    first = operator(
        user={"requests": 3, "latency.min": 2, "latency.max": 9, "retries.max": 3, "only.here": 4}, extremes=ends
    )
    second = operator(user={"requests": 5, "latency.min": 1, "latency.max": 4, "retries.max": 4}, extremes=ends)
    metrics = metrics_of(report(0, first), report(1, second)).as_dict()["count"]
    users = {name: value for name, value in metrics.items() if not name.startswith(("num", "current"))}
    assert users == {"requests": 8, "latency.min": 1, "latency.max": 9, "retries.max": 7, "only.here": 4}


def test_latency_is_the_mean_of_markers_and_not_of_subtasks() -> None:
    """A subtask with few records would count as much as one with most of them."""
    _, count = metrics_of(
        report(0, latency_count=3, latency_sum_ms=30, latency_max_ms=20),
        report(1, latency_count=1, latency_sum_ms=50, latency_max_ms=50),
    ).vertices()
    assert (count.latency_mean_ms, count.latency_max_ms) == (20.0, 50)


def test_without_markers_there_is_no_latency() -> None:
    """A job that does not measure its latency would be reported to have none: 0 ms."""
    for reports in ((), (report(0), report(1))):
        _, count = metrics_of(*reports).vertices()
        assert (count.latency_mean_ms, count.latency_max_ms) == (None, None)


def test_operators_of_one_name_are_numbered() -> None:
    """The counters of one map would replace those of the other."""
    names = ["map", "map", "map #2", "map", "sink #x", "sink #x"]
    metrics = metrics_of(report(0, *(operator(name, records) for records, name in enumerate(names)))).as_dict()
    assert {name: figures["numRecordsIn"] for name, figures in metrics.items()} == {
        "map": 0,
        "map #2": 1,
        "map #3": 2,
        "map #4": 3,
        "sink #x": 4,
        "sink #x #2": 5,
    }


def test_names_come_in_the_order_of_the_program() -> None:
    """Numbers of operators of one name would change from heartbeat to heartbeat."""
    metrics = metrics_of(report(0, operator("map", 2)), report(0, operator("map", 1), vertex=SOURCE)).as_dict()
    assert {name: figures["numRecordsIn"] for name, figures in metrics.items()} == {"map": 1, "map #2": 2}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 100)), max_size=20))
def test_reports_in_any_order_give_the_counters_of_the_last_ones(heartbeats: list[tuple[int, int]]) -> None:
    """Counters would depend on which worker's heartbeat came first."""
    metrics = JobMetrics(GRAPH)
    newest: dict[int, int] = {}
    for subtask, records in heartbeats:
        metrics.update([report(subtask, operator(records=records))])
        newest[subtask] = records
    _, count = metrics.vertices()
    assert sum(one.records_in for one in count.operators) == sum(newest.values())
    assert all(figures["numRecordsIn"] == sum(newest.values()) for figures in metrics.as_dict().values())
    plain: dict[str, Any] = dataclasses.asdict(count)
    assert plain["parallelism"] == 2


def test_totals_are_what_sources_emit_and_what_comes_to_sinks() -> None:
    """`penstock list` would count what an operator in the middle passes on, or show event time where there is none."""
    begins = report(0, operator("source", 7), *(operator(f"chained {n}", 5) for n in range(5)), vertex=SOURCE)
    ends = [report(subtask, operator("reduce", 9), operator("print", 4, watermark)) for subtask, watermark in
            enumerate((1_000, 900))]  # fmt: skip
    assert metrics_of(begins, *ends).totals() == JobTotals(14, 8, 900)
    assert metrics_of(begins).totals() == JobTotals(14, 0, None)
    assert metrics_of().totals() == JobTotals(0, 0, None)
