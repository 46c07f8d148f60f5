"""Patterns on keyed streams, 1,000 keys, an event for each millisecond of event time. Item 39.

* two-steps: `a .. b` within 10 s; 5 % of events are an a, 5 % a b. Others are dropped before the exchange.
* everything: the same, and all events pass the exchange.
* columns: the same as two-steps, with expressions, on columns.
* loop: `a .. b+ greedy .. c` within 60 s, 5 % of events each.
* dense: `a .. b` within 10 s, 33 % of events each.
* strict: `a , b , c`, 33 % of events each.
* open: one key with 10,000 open partial matches, and only events that begin another one, which ends the oldest.
* match-10, match-100, match-1000: MATCH_RECOGNIZE `A+ B` with a SUM in DEFINE, past the last row; each row is in a
  match of so many rows.

`benchmarks/patterns_beside_flink.py` compares them with Flink in Java.
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
from penstock.table import Schema, StreamTableEnvironment

_KEYS = 1_000
_OPEN_MS = 10_000
_CYCLE = 100_003
"""Kinds repeat after so many events. It is a prime, so that each key meets all of them."""
_ROW = Types.ROW_NAMED(["key", "kind", "at"], [Types.LONG(), Types.LONG(), Types.LONG()])
_SHARES = {
    "two-steps": (5, 5, 0), "everything": (5, 5, 0), "columns": (5, 5, 0), "loop": (5, 5, 5), "dense": (33, 33, 0),
    "strict": (33, 33, 33), "open": (100, 0, 0),
}  # fmt: skip
_MATCH_ROWS = {f"match-{rows}": rows for rows in (10, 100, 1_000)}
PROGRAMS = (*_SHARES, *_MATCH_ROWS)
MATCH_RECOGNIZE = """
SELECT * FROM events MATCH_RECOGNIZE (
    PARTITION BY `key` ORDER BY rowtime MEASURES SUM(A.`at`) AS total, B.`at` AS ended
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B)
    DEFINE A AS A.kind = 0 AND SUM(A.`at`) >= 0, B AS B.kind = 1
)"""
_UNFILTERED = ("everything", "strict", "open")
_COUNTED = "Counted"

Event = tuple[int, str, int]


class Events:
    """Makes events: (key, kind, time in ms). Kinds have the shares in percent; "x" is every other one.

    `match_rows`: instead, of so many events of a key the last one is a b, and the others are an a.
    """

    def __init__(self, shares: tuple[int, int, int], keys: int = _KEYS, match_rows: int | None = None) -> None:
        every_kind = "".join(kind * share for kind, share in zip("abc", shares, strict=True)).ljust(100, "x")
        self.kinds = "".join(Random(1).choices(every_kind, k=_CYCLE))
        self.codes = numpy.frombuffer(self.kinds.encode(), numpy.uint8).astype(numpy.int64) - ord("a")
        self.keys = keys
        self.match_rows = match_rows
        self._last = (match_rows or 1) - 1

    def rows(self, numbers: range) -> list[Event]:
        """Return events as tuples."""
        kinds, keys = self.kinds, self.keys
        return [(i * 2654435761 % keys, kinds[i % _CYCLE], i) for i in numbers]

    def batch(self, numbers: range) -> pyarrow.RecordBatch:
        """Return events as columns; their kinds are numbers."""
        i = numpy.arange(numbers.start, numbers.stop, numbers.step, dtype=numpy.int64)
        kinds = self.codes[i % _CYCLE] if self.match_rows is None else i // self.keys % self.match_rows // self._last
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


def events(env: StreamExecutionEnvironment, program: str, count: int | None = None) -> DataStream[Any]:
    """Return the events of a program; `count`: how many, None: without an end."""
    made = made_by(program)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if program == "columns" or program in _MATCH_ROWS:
        source = ChunkSource(made.rows, make_batch=made.batch, count=count)
        return env.from_source(source, strategy.with_timestamp_assigner("at"), "events", type_info=_ROW).as_columns()
    return env.from_source(
        ChunkSource(made.rows, count=count), strategy.with_timestamp_assigner(lambda event, _: event[2]), "events"
    )


def made_by(program: str) -> Events:
    """Return what makes the events of a program."""
    shares = _SHARES.get(program, (0, 0, 0))
    return Events(shares, 1 if program == "open" else _KEYS, _MATCH_ROWS.get(program))


def matches(env: StreamExecutionEnvironment, program: str, count: int | None = None) -> DataStream[Any]:
    """Return something for each match of a program."""
    stream = events(env, program, count)
    if program in _MATCH_ROWS:
        tables = StreamTableEnvironment.create(env)
        schema = Schema.new_builder().column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        schema = schema.watermark("rowtime", "SOURCE_WATERMARK()")
        tables.create_temporary_view("events", tables.from_data_stream(stream, schema.build()))
        return tables.to_data_stream(tables.sql_query(MATCH_RECOGNIZE))
    if program in _UNFILTERED and count is None:
        stream = stream.map(lambda event: event).name(_COUNTED)
    keyed = stream.key_by("key") if program == "columns" else stream.key_by(lambda event: event[0])
    found: PatternStream[Any] = CEP.pattern(keyed, pattern(program))
    if program == "everything":
        found.without_filter()
    return found.select(lambda match: len(match))


def measured(arguments: argparse.Namespace) -> float:
    """Return the events per second that the source gives."""
    program = arguments.program
    env = environment(arguments)
    found = matches(env, program)
    found.filter(lambda count: False).print()
    counted = _COUNTED if program in _UNFILTERED else found._transformation.inputs[0].inputs[0].name
    return rate_within(arguments, env.execute_async("patterns"), counted)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--program", choices=list(_SHARES), default="two-steps")
    tell({"records_per_s": measured(parser.parse_args())})


if __name__ == "__main__":
    main()
