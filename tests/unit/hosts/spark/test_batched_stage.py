"""Slots of a batched job, run by hand: sorted rows in, rows out, the same each time."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from penstock.common import WatermarkStrategy
from penstock.common.errors import UserFunctionError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.static_splits import assign_statically
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.rpc.messages import TaskReport
from penstock.engine.runtime.execution_mode import BATCH
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.buffer import SORT_PREFIX_BYTES, decode_message
from penstock.engine.runtime.task.events import Result
from penstock.hosts.spark.payload import Payload, pack, unpack
from penstock.hosts.spark.rows import buffers_of, to_batch
from penstock.hosts.spark.worker.batched_stage import run_slot

Rows = list[tuple[int, bytes]]
PARALLELISM = 2


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def payloads_of(build: Any) -> tuple[list[Payload], tuple[int, ...]]:
    """The levels of a program over the numbers 0 to 99, and their widths."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")
    build(numbers).print()
    graph = JobGraph("job", StreamGraph(env._sinks, GraphSettings(parallelism=PARALLELISM)), BATCH)
    splits = {
        vertex.id: assign_statically(NumberSequenceSource(0, 99), PARALLELISM, 0)
        for vertex in graph.vertices
        if vertex.level == 0
    }
    return pack(graph.levels("job-1", splits=splits), None, 0), graph.widths


class Sent:
    """Collect results, as (sink, subtask, values), and the calls of `finish` and `close`."""

    def __init__(self) -> None:
        self.results: list[tuple[int, int, list[Any]]] = []
        self.finished = self.closed = 0

    def begin(self, reports: Callable[[], list[TaskReport]]) -> None:
        self.reports = reports

    def send(self, result: Result) -> None:
        self.results.append((result.sink_id, result.subtask, result.values.value))

    def finish(self, task: SubtaskId, abandoned: threading.Event) -> None:
        self.finished += 1

    def close(self) -> None:
        self.closed += 1


def rows_of(payload: Payload, index: int, arrived: Rows, run: int = 1, sent: Sent | None = None) -> Rows:
    """Return the rows of a slot for sorted input, which arrives in batches of one row."""
    ordered = sorted(arrived, key=lambda row: row[1][:SORT_PREFIX_BYTES])
    arriving = (to_batch([row]) for row in ordered)
    steps: list[None] = []
    batches = run_slot(
        unpack(payload),
        index,
        attempt=run,
        batches=arriving,
        results=sent or Sent(),
        stepped=lambda: steps.append(None),
        watch=lambda hung_up: None,
    )
    rows: Rows = []
    for batch in batches:
        rows += zip(batch.column(0).to_pylist(), buffers_of(batch), strict=True)
    return rows


def run_all(payloads: list[Payload], widths: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Each level after the one before; the values of results, and what the slots say at their end."""
    rows: Rows = []
    sent = Sent()
    for payload, width in zip(payloads, widths, strict=True):
        arrived, rows = rows, []
        for index in range(width):
            rows += rows_of(payload, index, [row for row in arrived if row[0] == index], sent=sent)
    assert sent.finished == sent.closed == sum(widths)
    outcomes = [decode_message(buffer) for _, buffer in rows]
    return [value for _, _, values in sent.results for value in values], outcomes


def counted(numbers: Any) -> Any:
    return numbers.map(lambda v: (v % 7, 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def test_levels_one_after_the_other_give_the_jobs_result() -> None:
    """A batch job would lose records, or count them twice."""
    values, outcomes = run_all(*payloads_of(counted))
    assert [run for run, _ in outcomes] == [1] * 4
    assert len(values) == 7
    assert {int(text.strip("()").split(",")[0]) for text in map(str, values)} == set(range(7))
    assert sum(int(str(value).strip("()").split(",")[1]) for value in values) == 100


def test_counters_come_with_the_outcome() -> None:
    """A batch job would have no metrics."""
    _, outcomes = run_all(*payloads_of(counted))
    reports = [report for _, encoded in outcomes for report in msgspec.msgpack.decode(encoded, type=list[TaskReport])]
    read = Counter({report.vertex: 0 for report in reports})
    for report in reports:
        read[report.vertex] += report.operators[0].records_out
    assert read[min(read)] == 100


def test_a_second_attempt_writes_the_same_output() -> None:
    """When Spark reruns a lost task, records that others have read would come twice or never."""
    payloads, _ = payloads_of(lambda numbers: numbers.rebalance().map(lambda v: v).shuffle().map(lambda v: v))
    first, again = (rows_of(payloads[0], 1, [], run) for run in (1, 2))
    # The last row is the outcome, with times.
    assert [row[1][SORT_PREFIX_BYTES:] for row in first[:-1]] == [row[1][SORT_PREFIX_BYTES:] for row in again[:-1]]
    assert first[:-1] == again[:-1]
    second = [rows_of(payloads[1], 0, [row for row in first if row[0] == 0], run) for run in (1, 2)]
    assert second[0][:-1] == second[1][:-1]


def test_a_function_that_fails_ends_the_slot() -> None:
    """The user would read of Spark, not of the value that broke."""
    payloads, _ = payloads_of(lambda numbers: numbers.map(lambda v: 1 // (v - 50)))
    with pytest.raises(UserFunctionError) as caught:
        for index in range(PARALLELISM):
            rows_of(payloads[0], index, [])
    assert "value 50" in str(caught.value)
    assert "ZeroDivisionError" in str(caught.value)


def test_a_source_with_a_rate_is_waited_for() -> None:
    """A slot that spins while its source has nothing would take a core from the others."""
    from penstock.connectors.base.data_generator import DataGeneratorSource
    from penstock.connectors.base.rate_limiter import RateLimiterStrategy

    source = DataGeneratorSource(lambda i: i, 5, RateLimiterStrategy.per_second(100))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "slow").print()
    graph = JobGraph("job", StreamGraph(env._sinks, GraphSettings(parallelism=1)), BATCH)
    (vertex,) = graph.vertices
    payloads = pack(graph.levels("job-1", splits={vertex.id: assign_statically(source, 1, 0)}), None, 0)
    values, _ = run_all(payloads, graph.widths)
    assert len(values) == 5
