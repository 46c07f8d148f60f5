"""Latency at a steady rate: stamped source → key_by → process, through n exchanges → sink. Items 6, 7, 8
and parts of 15.

With --columns the records are columns up to the sink, and the keyed count is an aggregate of fields.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

Stamped = tuple[int, int, int]
STAMPED = Types.ROW_NAMED(["key", "count", "stamp"], [Types.LONG()] * 3)


class CountOn(KeyedProcessFunction[int, Stamped, Stamped]):
    """Counts a key's records and forwards them with their stamp, keyed for the next exchange."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Stamped, ctx: KeyedProcessFunction.Context) -> Iterator[Stamped]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield (value[0] + 1) % 1000, count, value[2]


def stamped(numbers: range) -> list[Stamped]:
    """(key, 1, now in nanoseconds)."""
    now_ns = time.time_ns()
    return [(i * 2654435761 % 1000, 1, now_ns) for i in numbers]


def stamped_rows(numbers: range) -> list[Row]:
    """Return the same as Rows."""
    return [Row(key=key, count=count, stamp=stamp) for key, count, stamp in stamped(numbers)]


def stamped_batch(numbers: range) -> pyarrow.RecordBatch:
    """Return the same as columns."""
    keys = numpy.arange(numbers.start, numbers.stop, numbers.step) * 2654435761 % 1000
    ones, stamps = numpy.ones(len(keys), numpy.int64), numpy.full(len(keys), time.time_ns())
    return pyarrow.record_batch({"key": keys, "count": ones, "stamp": stamps})


def columns_through_exchanges(env: StreamExecutionEnvironment, rate: float, exchanges: int) -> DataStream[Any]:
    """Return the same records in columns, after so many keyed counts."""
    source = ChunkSource(stamped_rows, rate, make_batch=stamped_batch)
    stamps = env.from_source(source, WatermarkStrategy.no_watermarks(), "stamps", type_info=STAMPED)
    stream: DataStream[Any] = stamps.as_columns()
    for _ in range(exchanges):
        # The last stamp of a key is the record's own.
        stream = stream.key_by("key").aggregate({"count": "count", "stamp": ("stamp", "last")})
    return stream


def through_exchanges(env: StreamExecutionEnvironment, rate: float, exchanges: int) -> DataStream[Any]:
    """Return stamped records after so many keyed counts. `rate` 0: no limit."""
    stream: DataStream[Any] = env.from_source(ChunkSource(stamped, rate), WatermarkStrategy.no_watermarks(), "stamps")
    for _ in range(exchanges):
        stream = stream.key_by(lambda record: record[0], key_type=Types.LONG()).process(CountOn())
    return stream


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many other processes that compute all the time, each a core's worth."""
    # They end with this process, also if it is killed: nobody writes to their standard input then.
    code = (
        "import os, threading; threading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()\nwhile True: pass"
    )
    others = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s; 0: as fast as it goes")
    parser.add_argument("--exchanges", type=int, default=1)
    parser.add_argument("--neighbours", type=int, default=0, help="how many other processes take a core each")
    parser.add_argument("--columns", action="store_true", help="columns in place of rows")
    arguments = parser.parse_args()
    build = columns_through_exchanges if arguments.columns else through_exchanges
    with neighbours(arguments.neighbours):
        measured = measure(arguments, lambda env: build(env, arguments.rate, arguments.exchanges), stamp=2)
    tell(measured.latency())


if __name__ == "__main__":
    main()
