"""The job that faults befall: sources, keyed state, windows, a join, and files exactly once, in two regions.

    orders ──┬─ raw ───────────────────────────────┐
             ├─ key_by ─ tally (keyed state) ──────┤
             ├─ key_by ─ sums in windows ──────────┼─ union ─ files/main
             └─┬─ join in windows, by key ─────────┘
    payments ──┘
    beats ────────────────────────────────────────── files/beats      a region of its own

What it gives does not depend on the order of records of different subtasks: `expected` is a plain evaluation of it.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Duration, Encoder, Time, Types, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

NAME = "chaos"
KEYS = 25
STEP_MS = 10
"""Between two orders, in event time."""
WINDOW_MS = 500
PAID = 3
"""Each third order is paid for."""
BEATS = 10
"""A beat for so many orders."""
_ALL = 1_000
"""Records at once, again and again."""


class UntilHurried(RateLimiterStrategy):
    """So many records a second until a file is there, then all that are left at once."""

    def __init__(self, rate: float, hurry: Path) -> None:
        self._steady = RateLimiterStrategy.per_second(rate)
        self._hurry = hurry

    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter | None:
        steady = self._steady.create_rate_limiter(parallelism, subtask)
        assert steady is not None
        return HurriedLimiter(steady, self._hurry)


class HurriedLimiter(RateLimiter):
    """That of one subtask."""

    def __init__(self, steady: RateLimiter, hurry: Path) -> None:
        self._steady = steady
        self._hurry = hurry
        self._is_hurried = False

    def due(self, now_ms: int) -> int:
        self._is_hurried = self._is_hurried or self._hurry.exists()
        return _ALL if self._is_hurried else self._steady.due(now_ms)

    def take(self, count: int) -> None:
        self._steady.take(count)

    def next_due_ms(self) -> int:
        return self._steady.next_due_ms()


def window_of(order: int) -> int:
    """The start of the window of an order, in milliseconds."""
    return order * STEP_MS // WINDOW_MS * WINDOW_MS


class Tally(KeyedProcessFunction[Any, Any, Any]):
    """Numbers the orders of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"tally,{ctx.get_current_key()},{count}"


def expected(orders: int) -> Counter[str]:
    """The lines of both sinks, each as often as it must come."""
    lines: Counter[str] = Counter(f"raw,{order}" for order in range(orders))
    lines.update(f"beat,{beat}" for beat in range(orders // BEATS))
    sums: Counter[tuple[int, int]] = Counter()
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for order in range(orders):
        sums[order % KEYS, window_of(order)] += order
        groups[order % KEYS, window_of(order)].append(order)
        lines[f"tally,{order % KEYS},{order // KEYS + 1}"] += 1
    lines.update(f"sum,{key},{start},{total}" for (key, start), total in sums.items())
    for payment in range(0, orders // PAID * PAID, PAID):
        of_key = groups[payment % KEYS, window_of(payment)]
        lines.update(f"pair,{order},{payment}" for order in of_key)
    return lines


def numbers(
    env: StreamExecutionEnvironment, name: str, count: int, rate: RateLimiterStrategy, step: int
) -> DataStream[int]:
    """The numbers below `count`, times `step`."""
    source = DataGeneratorSource(lambda i: i * step, count, rate)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(
        lambda value, timestamp: value * STEP_MS
    )
    return env.from_source(source, watermarks, name).uid(name)


def build(env: StreamExecutionEnvironment, out: Path, orders: int, rate: float, hurry: Path) -> None:
    """The program. `rate`: orders per second, until the file `hurry` is there."""
    placed = numbers(env, "orders", orders, UntilHurried(rate, hurry), 1)
    paid = numbers(env, "payments", orders // PAID, UntilHurried(rate / PAID, hurry), PAID)
    raw = placed.map(lambda order: f"raw,{order}").uid("raw")
    tally = placed.key_by(lambda order: order % KEYS).process(Tally()).uid("tally")
    windows = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    sums = (
        placed.map(lambda order: (order % KEYS, window_of(order), order))
        .uid("parts")
        .key_by(lambda part: part[0])
        .window(windows)
        .reduce(lambda a, b: (a[0], a[1], a[2] + b[2]))
        .uid("sums")
        .map(lambda part: f"sum,{part[0]},{part[1]},{part[2]}")
        .uid("sum lines")
    )
    pairs = (
        placed.join(paid)
        .where(lambda order: order % KEYS)
        .equal_to(lambda payment: payment % KEYS)
        .window(windows)
        .apply(lambda order, payment: f"pair,{order},{payment}")
        .uid("pairs")
    )
    raw.union(tally, sums, pairs).sink_to(files(out / "main")).uid("files")
    beats = numbers(env, "beats", orders // BEATS, UntilHurried(rate / BEATS, hurry), 1)
    beats.map(lambda beat: f"beat,{beat}").uid("beat").sink_to(files(out / "beats")).uid("beat files")


def files(out: Path) -> FileSink:
    """Where lines go. Some files go on over checkpoints, and over faults."""
    policy = RollingPolicy.default_rolling_policy(rollover_interval=1_000)
    return FileSink.for_row_format(out, Encoder.simple_string_encoder()).with_rolling_policy(policy).build()


def main() -> None:
    """Run it, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--hurry", type=Path, required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, arguments.out, arguments.orders, arguments.rate, arguments.hurry)
    env.execute(NAME)


if __name__ == "__main__":
    main()
