"""Where a record's time goes: CPU per record of each part of its way through a keyed count, without Spark.

Both slots of the job run in this process, one after the other, with the garbage collector off as in a worker. Parts
that can be called alone are timed alone; what is left of a slot's time is told as the rest. Figures are ns per record,
the least of several rounds; `yardstick` is the plain counting loop.
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
from penstock.common import WatermarkStrategy
from penstock.connectors.base.ranges import RangeSplit
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.stream_execution_environment import plan_only
from penstock.plan.pickling import dump_level, load_level
from penstock.runtime.sink import Sink, SinkContext, SinkWriter
from penstock.runtime.task.environment import Environment
from penstock.runtime.task.events import AssignSplits
from penstock.runtime.task.slot import Slot
from penstock.spark.rows import buffers_of, to_batch

_RECORDS = 1_000_000
_ROUNDS = 5
_KEYS = 1000
_CHUNK = 4096

Rows = list[tuple[int, bytes]]


class _Nowhere(Sink[Any]):
    """Takes chunks and does nothing with them: what a sink costs is the sink's."""

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _NowhereWriter()


class _NowhereWriter(SinkWriter[Any]):
    def write(self, value: Any, timestamp: int | None) -> None:
        pass

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        pass


def ns_per_record(do: Callable[[], Any], records: int = _RECORDS) -> float:
    """The least CPU time of several rounds."""
    times = []
    for _ in range(_ROUNDS):
        began = time.process_time_ns()
        do()
        times.append(time.process_time_ns() - began)
    return min(times) / records


def slots() -> list[Slot]:
    """The two slots of the job at parallelism 1, opened, the source's split assigned."""
    env = StreamExecutionEnvironment()
    source = ChunkSource(functools.partial(numbers_by_key, _KEYS))
    stream = counted(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"), "process")
    stream.sink_to(_Nowhere())
    with plan_only() as plans:
        env.execute("hops")
    levels = [load_level(dump_level(level)) for level in plans[0].levels("0" * 32)]
    made = [Slot(level, 0, Environment(_now_ms, time.monotonic_ns)) for level in levels]
    for slot in made:
        slot.open()
    made[0].handle(plans[0].sources[0].id, AssignSplits([RangeSplit(0, 0, None)]))
    return made


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def read(slot: Slot) -> Rows:
    """Step the source until that many records have left it."""
    rows: Rows = []
    task = next(iter(slot.tasks.values()))
    begun = task.counters.operators[0].records_in
    while task.counters.operators[0].records_in - begun < _RECORDS:
        slot.step()
        rows += slot.outbox.take()
    return rows


def count(fresh: Iterator[Slot], rows: Rows) -> None:
    """Hand the rows, which are a channel's first, to a counting slot."""
    slot = next(fresh)
    for _, buffer in rows:
        slot.receive(buffer)
        while slot.step():
            pass


def through_arrow(rows: Rows) -> None:
    """Each row as Arrow bytes and back, as between Spark's JVM and the worker."""
    for row in rows:
        sink = io.BytesIO()
        batch = to_batch([row])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        for batch in pa.ipc.open_stream(sink.getvalue()):
            list(buffers_of(batch))


class _State:
    """Stands for a ValueState: the function's own cost is left."""

    def __init__(self) -> None:
        self.count = 0

    def value(self) -> int:
        return self.count

    def update(self, count: int) -> None:
        self.count = count


def call_function(chunks: list[list[Any]]) -> None:
    """The user's generator alone: its call, its body, the result taken."""
    function: Any = Count()
    function.count = _State()
    for chunk in chunks:
        results: list[Any] = []
        for pair in chunk:
            results.extend(function.process_element(pair, None))


def measure() -> dict[str, float]:
    """All parts."""
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
