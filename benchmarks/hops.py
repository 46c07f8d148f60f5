"""Breaks down the CPU time of a record in a keyed count, without Spark.

Both slots of the job run in this process, one after another, with the garbage collector off as in a worker. Parts that
can be called separately are timed separately; the remaining time of a slot is reported as the rest. Figures are ns per
record, the minimum of several rounds; `yardstick` is the plain counting loop.
"""

from __future__ import annotations

import functools
import gc
import io
import json
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from benchmarks.chunk_source import ChunkSource
from benchmarks.keyed_count import Count, counted, numbers_by_key
from benchmarks.yardstick import count_keys
from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common import WatermarkStrategy
from penstock.connectors.base.ranges import RangeSplit
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import AssignSplits, Opaque
from penstock.engine.runtime.task.slot import Slot
from penstock.hosts.spark.rows import buffers_of, to_batch
from penstock.service.client.plan_executor import PlanExecutor

_RECORDS = 1_000_000
_ROUNDS = 5
_KEYS = 1000
_CHUNK = 4096

Rows = list[tuple[int, bytes]]


class _Nowhere(Sink[Any]):
    """Discards chunks, so that the cost of a sink's own work is excluded."""

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _NowhereWriter()


class _NowhereWriter(SinkWriter[Any]):
    def write(self, value: Any, timestamp: int | None) -> None:
        pass

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        pass


def ns_per_record(do: Callable[[], Any], records: int = _RECORDS) -> float:
    """Return the minimum CPU time of several rounds."""
    times = []
    for _ in range(_ROUNDS):
        began = time.process_time_ns()
        do()
        times.append(time.process_time_ns() - began)
    return min(times) / records


def slots() -> list[Slot]:
    """Return the two slots of the job at parallelism 1, opened, with the source's split assigned."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    source = ChunkSource(functools.partial(numbers_by_key, _KEYS))
    stream = counted(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"), "process")
    stream.sink_to(_Nowhere())
    env.execute("hops")
    (graph,) = executor.graphs
    levels = [load_level(dump_level(level)) for level in graph.levels("0" * 32)]
    made = [Slot(level, 0, Environment(_now_ms, time.monotonic_ns)) for level in levels]
    for slot in made:
        slot.open()
    made[0].handle(graph.sources[0].id, AssignSplits(Opaque([RangeSplit(0, 0, None)])))
    return made


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def read(slot: Slot) -> Rows:
    """Run the source until it has emitted that many records."""
    rows: Rows = []
    task = next(iter(slot.tasks.values()))
    begun = task.counters.operators[0].records_in
    while task.counters.operators[0].records_in - begun < _RECORDS:
        slot.step()
        rows += slot.outbox.take()
    return rows


def count(fresh: Iterator[Slot], rows: Rows) -> None:
    """Deliver the rows, the first of a channel, to a counting slot."""
    slot = next(fresh)
    for _, buffer in rows:
        slot.receive(buffer)
        while slot.step():
            pass


def through_arrow(rows: Rows) -> None:
    """Convert each row to Arrow bytes and back, as between Spark's JVM and the worker."""
    for row in rows:
        sink = io.BytesIO()
        batch = to_batch([row])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        for batch in pa.ipc.open_stream(sink.getvalue()):
            list(buffers_of(batch))


class _State:
    """Replaces a ValueState, which leaves the cost of the function itself."""

    def __init__(self) -> None:
        self.count = 0

    def value(self) -> int:
        return self.count

    def update(self, count: int) -> None:
        self.count = count


def call_function(chunks: list[list[Any]]) -> None:
    """Run the user's generator alone: call, body, result."""
    function: Any = Count()
    function.count = _State()
    for chunk in chunks:
        results: list[Any] = []
        for pair in chunk:
            results.extend(function.process_element(pair, None))


def measure() -> dict[str, float]:
    """Measure all parts."""
    gc.collect()
    gc.disable()
    source = slots()[0]
    rows = read(source)
    counters = iter([slots()[1] for _ in range(_ROUNDS)])
    chunks = [numbers_by_key(_KEYS, range(i, i + _CHUNK)) for i in range(0, _RECORDS, _CHUNK)]
    pickled = [pickle.dumps(chunk, protocol=5) for chunk in chunks]
    parts = {
        "yardstick": ns_per_record(lambda: count_keys(_RECORDS)),
        "source slot": ns_per_record(lambda: read(source)),
        "  records made": ns_per_record(lambda: numbers_by_key(_KEYS, range(_RECORDS))),
        "  pickled": ns_per_record(lambda: [pickle.dumps(chunk, protocol=5) for chunk in chunks]),
        "Arrow row out and in": ns_per_record(lambda: through_arrow(rows)),
        "counting slot": ns_per_record(lambda: count(counters, rows)),
        "  unpickled": ns_per_record(lambda: [pickle.loads(chunk) for chunk in pickled]),
        "  generator called": ns_per_record(lambda: call_function(chunks)),
    }
    parts["  key to channel, and the rest"] = parts["source slot"] - parts["  records made"] - parts["  pickled"]
    parts["  state, and the rest"] = parts["counting slot"] - parts["  unpickled"] - parts["  generator called"]
    parts["records a buffer"] = _RECORDS / len(rows)
    return parts


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
