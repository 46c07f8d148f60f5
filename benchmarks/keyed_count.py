"""Keyed running count, and its variants: source → key_by → process, reduce or sum → sink, through n exchanges.

Items 1, 2, 4 and parts of 14 and 15.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

Pair = tuple[int, int]


class Count(KeyedProcessFunction[int, Pair, Pair]):
    """Counts records, as in a user's program."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Pair, ctx: KeyedProcessFunction.Context) -> Iterator[Pair]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def numbers_by_key(keys: int, numbers: range) -> list[Pair]:
    """Return (key, 1) for all keys in turn, in an order without cache locality."""
    return [(i * 2654435761 % keys, 1) for i in numbers]


def counted(stream: DataStream[Pair], function: str) -> DataStream[Any]:
    """Return the running count of each key."""
    keyed = stream.key_by(lambda pair: pair[0], key_type=Types.LONG())
    if function == "reduce":
        return keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))
    return keyed.sum(1) if function == "sum" else keyed.process(Count())


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--function", choices=["process", "reduce", "sum"], default="process")
    parser.add_argument("--exchanges", type=int, default=1)
    parser.add_argument("--see-all-keys", action="store_true", help="warm up until every key has come; tell its memory")
    arguments = parser.parse_args()
    source = ChunkSource(functools.partial(numbers_by_key, arguments.keys))

    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        for _ in range(arguments.exchanges):
            stream = counted(stream, arguments.function)
        return stream

    measured = measure(arguments, build, warm_up_records=arguments.keys * 2 if arguments.see_all_keys else 0)
    tell(
        {
            "records_per_s": measured.arrivals.records_per_s,
            "bytes_per_record": measured.bytes_per_record,
            **measured.cpu_ns(measured.arrivals.counts.total()),
            "python_mb": measured.used_after.python_bytes / 1e6,
            "checkpoints": measured.checkpoints,
        }
    )


if __name__ == "__main__":
    main()
