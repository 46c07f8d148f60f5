"""Operators of two streams, 1,000 keys: connected with keyed state, the interval join, broadcast rules. Item 22.

* connected: both streams count in one state; a result for each record.
* interval-join: each stream has 100 records per millisecond of event time; a left record is joined with the right one
  of its key in the next ten milliseconds, so there is a pair for each record of one side, and pairs are counted.
* broadcast: each record is compared with 100 rules in broadcast state; a result for each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

_KEYS = 1_000
_RECORDS_PER_MS = 100
_RULES = 100
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())

Pair = tuple[int, int]


class Count(KeyedCoProcessFunction[int, Pair, Pair, Pair]):
    """Counts the records of both streams."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: Pair, ctx: KeyedCoProcessFunction.Context) -> Iterator[Pair]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count

    def process_element2(self, value: Pair, ctx: KeyedCoProcessFunction.Context) -> Iterator[Pair]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class Judge(BroadcastProcessFunction[Pair, int, Pair]):
    """Counts the rules that a record breaks."""

    def process_element(self, value: Pair, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Pair]:
        number = value[1]
        yield number, sum(1 for limit in ctx.get_broadcast_state(RULES).values() if number % _RULES > limit)

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(value, value)


def pairs(numbers: range) -> list[Pair]:
    """(key, number), in an order without cache locality."""
    return [(i * 2654435761 % _KEYS, i) for i in numbers]


def connected(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Return the running count of both streams."""
    first, second = (
        env.from_source(ChunkSource(pairs), WatermarkStrategy.no_watermarks(), name) for name in ("first", "second")
    )
    return first.connect(second).key_by(lambda pair: pair[0], lambda pair: pair[0]).process(Count())


def interval_join(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Return a pair for each record of one side."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    in_order = in_order.with_timestamp_assigner(lambda pair, _: pair[1] // _RECORDS_PER_MS)
    left, right = (
        env.from_source(ChunkSource(pairs), in_order, name).key_by(lambda pair: pair[0]) for name in ("left", "right")
    )
    join = left.interval_join(right).between(0, _KEYS // _RECORDS_PER_MS).upper_bound_exclusive()
    return join.process(lambda one, other, ctx: ((one[1], other[1]),))


def broadcast(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Return each record with the number of rules that it breaks."""
    rules = env.from_collection(list(range(_RULES))).broadcast(RULES)
    records = env.from_source(ChunkSource(pairs), WatermarkStrategy.no_watermarks(), "records")
    return records.connect(rules).process(Judge())


_PROGRAMS = {"connected": connected, "interval-join": interval_join, "broadcast": broadcast}


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--program", choices=list(_PROGRAMS), default="connected")
    arguments = parser.parse_args()
    measured = measure(arguments, _PROGRAMS[arguments.program])
    tell({"records_per_s": measured.arrivals.records_per_s})


if __name__ == "__main__":
    main()
