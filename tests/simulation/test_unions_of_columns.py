"""Generated programs of unions, side outputs and exchanges on columns: rows are the oracle, in both modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy
import pytest
from tests.simulation.programs import ROOMY, TIGHT, environment, seeds, simulate
from tests.unit.datastream import simulated

from penstock.common import Row, RowKind, Time, Types, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.simulation

FIELDS = {"key": Types.STRING(), "n": Types.LONG(), "share": Types.FLOAT()}
Stream = DataStream[Any]


def type_of(names: tuple[str, ...]) -> Any:
    """Return the type of records with these fields, in this order."""
    return Types.ROW_NAMED(list(names), [FIELDS[name] for name in names])


def record(random: Random) -> Row:
    """Return a record, of any kind."""
    made = Row(key=random.choice(["a", "b", "", None]), n=random.randrange(-9, 9), share=random.randrange(8) / 8)
    made.set_row_kind(random.choice([RowKind.INSERT, *RowKind]))
    return made


class Divide(ProcessFunction):
    """Sends records whose number a divisor divides to a side output."""

    def __init__(self, divisor: int, tag: OutputTag[Any]) -> None:
        self.divisor = divisor
        self.tag = tag

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Emit the record to one of the outputs."""
        yield (self.tag, value) if value.n % self.divisor == 0 else value


class Program:
    """A program that a seed draws, on rows or on columns: `streams` are those that it has made so far."""

    def __init__(self, seed: int, env: StreamExecutionEnvironment, on_columns: bool) -> None:
        self.random = Random(seed)
        self.on_columns = on_columns
        names, records = tuple(FIELDS), [record(self.random) for _ in range(self.random.randrange(1, 40))]
        first = self.columns_of(env.from_collection(records, type_of(names)), names)
        self.streams: list[tuple[Stream, tuple[str, ...]]] = [(first, names)]
        steps: list[Callable[[Stream, tuple[str, ...]], None]] = [
            self.add, self.keep, self.reject, self.divide, self.order, self.send, self.unite, self.unite,
        ]  # fmt: skip
        for _ in range(self.random.randrange(3, 10)):
            step, (stream, names) = self.random.choice(steps), self.random.choice(self.streams)
            step(stream, names)
        # Of one type, as the results of a job must be.
        first, *others = (self.ordered(stream, tuple(FIELDS)) for stream, _ in self.streams)
        self.result = first.union(*others)

    def columns_of(self, stream: Stream, names: tuple[str, ...]) -> Stream:
        return stream.as_columns(type_of(names)) if self.on_columns else stream

    def add(self, stream: Stream, names: tuple[str, ...]) -> None:
        if self.on_columns:
            added = stream.map_batches(lambda batch: {**batch, "n": batch["n"] + 1}, "numpy")
        else:
            added = stream.map(lambda row: changed(row, {**row.as_dict(), "n": row.n + 1}), type_of(names))
        self.made(added, names)

    def keep(self, stream: Stream, names: tuple[str, ...]) -> None:
        divisor = self.random.randrange(1, 4)
        self.made(
            stream.filter_batches(lambda batch: batch["n"] % divisor != 0, "numpy")
            if self.on_columns
            else stream.filter(lambda row: row.n % divisor != 0),
            names,
        )

    def reject(self, stream: Stream, names: tuple[str, ...]) -> None:
        divisor, typed = self.random.randrange(1, 4), self.random.random() < 0.5
        tag = OutputTag("rejected", type_of(names) if typed else None)
        if self.on_columns:
            kept = stream.filter_batches(lambda batch: batch["n"] % divisor != 0, "numpy", rejected=tag)
        else:
            kept = stream.process(Divide(divisor, tag), type_of(names))
        self.made(kept, names)
        self.made(kept.get_side_output(tag), names)

    def divide(self, stream: Stream, names: tuple[str, ...]) -> None:
        tag = OutputTag("divided", type_of(names))
        divided = stream.process(Divide(self.random.randrange(1, 4), tag), type_of(names))
        self.made(self.columns_of(divided, names), names)
        self.made(self.columns_of(divided.get_side_output(tag), names), names)

    def order(self, stream: Stream, names: tuple[str, ...]) -> None:
        others = tuple(self.random.sample(names, len(names)))
        self.made(self.ordered(stream, others), others)

    def ordered(self, stream: Stream, names: tuple[str, ...]) -> Stream:
        if self.on_columns:
            return stream.project(*names)
        return stream.map(lambda row: changed(row, {name: row[name] for name in names}), type_of(names))

    def send(self, stream: Stream, names: tuple[str, ...]) -> None:
        how = self.random.choice(["rebalance", "key_by", "rescale", "broadcast"])
        self.add(stream.key_by("key") if how == "key_by" else getattr(stream, how)(), names)

    def unite(self, stream: Stream, names: tuple[str, ...]) -> None:
        others = [self.random.choice(self.streams)[0] for _ in range(self.random.randrange(1, 3))]
        united = stream.union(*others)
        # What follows reads the union, or has columns of its own, which have one order.
        self.made(united, names) if self.random.random() < 0.5 else self.keep(united, names)

    def made(self, stream: Stream, names: tuple[str, ...]) -> None:
        self.streams.append((stream, names))


def changed(row: Row, fields: dict[str, Any]) -> Row:
    """Return a Row with these fields, of the kind of `row`."""
    made = Row(**fields)
    made.set_row_kind(row.get_row_kind())
    return made


def counted(values: Any) -> Counter[Any]:
    """Return how often each record came, with its kind."""
    return Counter((tuple(sorted(row.as_dict().items(), key=str)), row.get_row_kind()) for row in values)


def results(seed: int, on_columns: bool) -> Counter[Any]:
    """Return the results of a program in STREAMING."""
    env = environment(Random(seed).choice([1, 2]))
    if seed % 3 == 0:
        env.disable_operator_chaining()
    Program(seed, env, on_columns).result.print()
    simulation = simulate(env, seed, TIGHT if seed % 2 else ROOMY)
    simulation.run()
    assert simulation.error is None, simulation.error
    return counted(value for values in simulation.results.values() for value in values)


@pytest.mark.parametrize("seed", seeds(12, 2_000))
def test_rows_are_the_oracle(seed: int) -> None:
    """A stream would have records of another, lose some, or have values in other fields."""
    assert results(seed, True) == results(seed, False)


@pytest.mark.parametrize("seed", seeds(8, 500))
def test_rows_are_the_oracle_in_batch(seed: int) -> None:
    """The same in BATCH, where columns are within chains only."""
    found, expected = (
        simulated.collected(Program(seed, simulated.environment(), on_columns).result) for on_columns in (True, False)
    )
    assert counted(found) == counted(expected)


EVENT = Types.ROW_NAMED(["key", "at", "late"], [Types.STRING(), Types.LONG(), Types.BOOLEAN()])
LATE = OutputTag("late", EVENT)


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_late_records_are_columns_again_and_each_is_in_a_window_or_late(seed: int) -> None:
    """Records that are late for windows on columns would be lost, or be in both outputs."""
    random = Random(seed)
    events = [Row(key=random.choice("abc"), at=i + random.randrange(-60, 1), late=False) for i in range(120)]
    env = environment(2)
    env.get_config().set_auto_watermark_interval(1)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    columns = env.from_collection(events, EVENT).as_columns().assign_timestamps_and_watermarks(in_order)
    windows = columns.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    totals = windows.side_output_late_data(LATE).aggregate({"n": "count", "start": "window_start"})
    late = totals.get_side_output(LATE).as_columns().rebalance()
    marked = late.map_batches(lambda batch: {**batch, "late": numpy.ones(len(batch["at"]), bool)}, "numpy")
    marked.union(late.filter_batches(lambda batch: batch["at"] < -1_000, "numpy")).print()
    totals.print()
    simulation = simulate(env, seed, TIGHT)
    simulation.run()
    assert simulation.error is None, simulation.error
    found = [row for rows in simulation.results.values() for row in rows]
    late_ones = [row for row in found if "late" in row.as_dict()]
    assert late_ones and all(row.late for row in late_ones)
    in_windows = Counter({(row.key, row.start): row.n for row in found if "late" not in row.as_dict()})
    in_windows.update((row.key, row.at // 10 * 10) for row in late_ones)
    assert in_windows == Counter((row.key, row.at // 10 * 10) for row in events)
