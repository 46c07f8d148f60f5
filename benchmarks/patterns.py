"""Patterns on keyed streams, 1,000 keys, an event for each millisecond of event time. Item 39.

* two-steps: `a .. b` within 10 s; 5 % of events are an a, 5 % a b. Others are dropped before the exchange.
* everything: the same, and all events pass the exchange.
* columns: the same as two-steps, with expressions, on columns.
* loop: `a .. b+ greedy .. c` within 60 s, 5 % of events each.
* dense: `a .. b` within 10 s, 33 % of events each.
* strict: `a , b , c`, 33 % of events each.
* open: one key with 10,000 open partial matches, and only events that begin another one, which ends the oldest.
"""

from __future__ import annotations

import argparse
from random import Random
from typing import Any

import numpy
import pyarrow

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import environment, options, rate_within, tell
from penstock.cep import CEP, Pattern, PatternStream, field
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment

_KEYS = 1_000
_OPEN_MS = 10_000
_CYCLE = 100_003
"""Kinds repeat after so many events. It is a prime, so that each key meets all of them."""
_ROW = Types.ROW_NAMED(["key", "kind", "at"], [Types.LONG(), Types.LONG(), Types.LONG()])
_SHARES = {
    "two-steps": (5, 5, 0), "everything": (5, 5, 0), "columns": (5, 5, 0), "loop": (5, 5, 5), "dense": (33, 33, 0),
    "strict": (33, 33, 33), "open": (100, 0, 0),
}  # fmt: skip
_UNFILTERED = ("everything", "strict", "open")
_COUNTED = "Counted"

Event = tuple[int, str, int]


class Events:
    """Makes events: (key, kind, time in ms). Kinds have the shares in percent; "x" is every other one."""

    def __init__(self, shares: tuple[int, int, int], keys: int = _KEYS) -> None:
        every_kind = "".join(kind * share for kind, share in zip("abc", shares, strict=True)).ljust(100, "x")
        self.kinds = "".join(Random(1).choices(every_kind, k=_CYCLE))
        self.codes = numpy.frombuffer(self.kinds.encode(), numpy.uint8).astype(numpy.int64) - ord("a")
        self.keys = keys

    def rows(self, numbers: range) -> list[Event]:
        """Return events as tuples."""
        kinds, keys = self.kinds, self.keys
        return [(i * 2654435761 % keys, kinds[i % _CYCLE], i) for i in numbers]

    def batch(self, numbers: range) -> pyarrow.RecordBatch:
        """Return events as columns; their kinds are numbers."""
        i = numpy.arange(numbers.start, numbers.stop, numbers.step, dtype=numpy.int64)
        kinds = self.codes[i % _CYCLE]
        return pyarrow.RecordBatch.from_arrays(
            [pyarrow.array(i % 10**9 * 2654435761 % self.keys), pyarrow.array(kinds), pyarrow.array(i)],
            _ROW.get_field_names(),
        )


def two_steps(a: Any, b: Any, within_ms: int) -> Pattern[Any, Any]:
    """Return `a .. b`."""
    return Pattern.begin("a").where(a).followed_by("b").where(b).within(within_ms)


def is_a(event: Event) -> bool:
    return event[1] == "a"


def is_b(event: Event) -> bool:
    return event[1] == "b"


def is_c(event: Event) -> bool:
    return event[1] == "c"


def pattern(program: str) -> Pattern[Any, Any]:
    """Return the pattern of a program."""
    if program == "loop":
        loop = Pattern.begin("a").where(is_a).followed_by("b").where(is_b).one_or_more().greedy()
        return loop.followed_by("c").where(is_c).within(60_000)
    if program == "strict":
        return Pattern.begin("a").where(is_a).next("b").where(is_b).next("c").where(is_c)
    if program == "columns":
        return two_steps(field("kind") == 0, field("kind") == 1, 10_000)
    return two_steps(is_a, is_b, _OPEN_MS)


def events(env: StreamExecutionEnvironment, program: str) -> DataStream[Any]:
    """Return the events of a program."""
    made = Events(_SHARES[program], 1 if program == "open" else _KEYS)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if program == "columns":
        source = ChunkSource(made.rows, make_batch=made.batch)
        return env.from_source(source, strategy.with_timestamp_assigner("at"), "events", type_info=_ROW).as_columns()
    return env.from_source(
        ChunkSource(made.rows), strategy.with_timestamp_assigner(lambda event, _: event[2]), "events"
    )


def measured(arguments: argparse.Namespace) -> float:
    """Return the events per second that the source gives."""
    program = arguments.program
    env = environment(arguments)
    stream = events(env, program)
    if program in _UNFILTERED:
        stream = stream.map(lambda event: event).name(_COUNTED)
    keyed = stream.key_by("key") if program == "columns" else stream.key_by(lambda event: event[0])
    found: PatternStream[Any] = CEP.pattern(keyed, pattern(program))
    if program == "everything":
        found.without_filter()
    matches = found.select(lambda match: len(match))
    matches.filter(lambda count: False).print()
    counted = _COUNTED if program in _UNFILTERED else matches._transformation.inputs[0].inputs[0].name
    return rate_within(arguments, env.execute_async("patterns"), counted)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--program", choices=list(_SHARES), default="two-steps")
    tell({"records_per_s": measured(parser.parse_args())})


if __name__ == "__main__":
    main()
