"""The functions of generated programs. Their results do not depend on the order between channels."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapBatchesFunction,
    MapFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.window import Evictor, TimestampedValue
from penstock.hosts.simulator.key_order import KeyOrder
from penstock.hosts.simulator.lifecycles import RecordedFunction
from penstock.hosts.simulator.programs import Record

COUNT_WEIGHT = 1_000_003
SIDE: OutputTag[Record] = OutputTag("side")
LATE: OutputTag[Record] = OutputTag("late")
RULES = MapStateDescriptor("rules")
NUMBERS = ListStateDescriptor("numbers")


def key_of(record: Record) -> int:
    """Return the key of a record."""
    return record[2]


def total(name: str, key: int, numbers: Iterable[int]) -> Record:
    """Return a record that represents a set of numbers: their sum and count, in one number."""
    numbers = list(numbers)
    return (name, (), key, sum(numbers) + COUNT_WEIGHT * len(numbers))


class PartitionByNumber:
    """A custom partitioner."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the key's remainder, in reverse order, unlike any built-in partitioner."""
        return num_partitions - 1 - int(key) % num_partitions


class Add(RecordedFunction, MapFunction[Record, Record]):
    """Adds a constant to the number."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def map(self, value: Record) -> Record:
        self.check_open()
        origin, path, key, number = value
        return origin, path, key, number + self.amount


class Flat(NamedTuple):
    """A record whose fields can be columns."""

    origin: str
    path: str
    key: int
    number: int

    @staticmethod
    def of(record: Record) -> Flat:
        """Return the fields of a record."""
        origin, path, key, number = record
        return Flat(origin, repr(path), key, number)

    @staticmethod
    def record(flat: Flat) -> Record:
        """Return the record of these fields."""
        return flat.origin, ast.literal_eval(flat.path), flat.key, flat.number


CHANGE = Types.ROW_NAMED(list(Flat._fields), [Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
"""The type of a record as a change."""


def as_change(record: Record) -> Row:
    """Return a record as a row, whose kind follows from its number."""
    flat = Flat.of(record)
    return Row.of_kind(_kind_of(flat.number), **flat._asdict())


def as_declared(record: Record) -> Row:
    """Return a record as a row. Some numbers are floats, though their type is declared as LONG."""
    flat = Flat.of(record)
    return Row(**flat._asdict() | {"number": flat.number if flat.number % 11 else float(flat.number)})


def of_change(amount: int, row: Row) -> Record:
    """Return the record of a row. Raises AssertionError if its kind is not the one that it had without the amount."""
    expected = _kind_of(row["number"] - amount)
    assert row.get_row_kind() is expected, f"the kind of {row} is {row.get_row_kind().name}, not {expected.name}"
    return Flat.record(Flat(*row))


def _kind_of(number: int) -> RowKind:
    return RowKind(number % len(RowKind))


class AddToColumn(RecordedFunction, MapBatchesFunction):
    """Adds a constant to the column of numbers."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def map_batches(self, batch: Any) -> Any:
        self.check_open()
        import pyarrow
        from pyarrow import compute

        added = compute.add(batch.column("number"), pyarrow.scalar(self.amount))
        return batch.set_column(batch.schema.get_field_index("number"), "number", added)


class Rekey(RecordedFunction, MapFunction[Record, Record]):
    """Derives another key from the number."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def map(self, value: Record) -> Record:
        self.check_open()
        origin, path, _, number = value
        return origin, path, number % self.keys, number


class Plain(RecordedFunction, MapFunction[Record, Record]):
    """Removes the origin of the record."""

    def map(self, value: Record) -> Record:
        self.check_open()
        return "", (), value[2], value[3]


class Raise(RecordedFunction, MapFunction[Record, Record]):
    """Raises for a certain number."""

    def __init__(self, on: int) -> None:
        self.on = on

    def map(self, value: Record) -> Record:
        self.check_open()
        if value[3] % 10 == self.on:
            raise ValueError(f"this function does not like {value[3]}")
        return value


class Drop(RecordedFunction, FilterFunction[Record]):
    """Keeps records whose number is not divisible."""

    def __init__(self, divisor: int) -> None:
        self.divisor = divisor

    def filter(self, value: Record) -> bool:
        self.check_open()
        return value[3] % self.divisor != 0


def exploded(value: Record, most: int) -> list[Record]:
    """Return the output of Explode for a record."""
    origin, path, key, number = value
    return [(origin, (*path, copy), key, number + copy) for copy in range(number % (most + 1))]


class Explode(RecordedFunction, FlatMapFunction[Record, Record]):
    """Emits up to `most` records per record, as a generator, a list or None."""

    def __init__(self, most: int) -> None:
        self.most = most

    def flat_map(self, value: Record) -> Iterable[Record] | None:
        self.check_open()
        records = exploded(value, self.most)
        form = value[3] % 3
        if form == 0:
            return records
        return self._one_by_one(records) if records else None

    def _one_by_one(self, records: list[Record]) -> Iterator[Record]:
        for record in records:
            self.check_open()
            yield record


class Turns:
    """An awaitable with which a call continues after that many turns of the event loop."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    def __await__(self) -> Generator[None, None, None]:
        for _ in range(self._turns):
            yield None


def is_connection_error(error: Exception) -> bool:
    """Return whether a call may be tried again."""
    return isinstance(error, ConnectionError)


class AddAsynchronously(RecordedFunction, AsyncFunction[Record, Record]):
    """Adds a constant to the number after a few turns, or immediately after its timeout.

    One in `fails_each` calls raises, once, and is tried again; 0: no call raises.
    """

    def __init__(self, amount: int, fails_each: int) -> None:
        self.amount = amount
        self.fails_each = fails_each
        self._failed: set[Record] = set()

    async def async_invoke(self, value: Record) -> list[Record]:
        self.check_open()
        await Turns(value[3] % 4)
        if self.fails_each and value[3] % self.fails_each == 0 and value not in self._failed:
            self._failed.add(value)
            raise ConnectionError("try again")
        return self.timeout(value)

    def timeout(self, value: Record) -> list[Record]:
        origin, path, key, number = value
        return [(origin, path, key, number + self.amount)]


class Split(RecordedFunction, ProcessFunction[Record, Any]):
    """Emits numbers divisible by 3 to the side output, and numbers divisible by 2 twice."""

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        self.check_open()
        origin, path, key, number = value
        if number % 3 == 0:
            yield SIDE, (origin, (*path, 0), key, number)
        yield origin, (*path, 0), key, number
        if number % 2 == 0:
            yield origin, (*path, 1), key, number


class Sum(RecordedFunction, ReduceFunction[Record]):
    """Sums up numbers."""

    def reduce(self, value1: Record, value2: Record) -> Record:
        self.check_open()
        return "", (), value1[2], value1[3] + value2[3]


class Echo(RecordedFunction, KeyedProcessFunction[int, Record, Record]):
    """Emits each record several times, in the order of its key; a state counts the records."""

    def __init__(self, copies: int) -> None:
        self.copies = copies

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Record, ctx: Any) -> Iterator[Record]:
        self.check_open()
        self.seen.update((self.seen.value() or 0) + 1)
        origin, path, key, number = value
        assert ctx.get_current_key() == key
        for copy in range(self.copies):
            assert ctx.get_current_key() == key, "the key changed during a paused generator"
            yield origin, (*path, copy), key, number


class Gather(RecordedFunction, KeyedProcessFunction[int, Record, Record]):
    """Emits all numbers of a key as one record at the end of event time."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.order = KeyOrder(runtime_context)
        self.numbers = runtime_context.get_list_state(NUMBERS)

    def process_element(self, value: Record, ctx: Any) -> None:
        self.check_open()
        self.order.record(ctx)
        self.numbers.add(value[3])
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + value[3])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Record]:
        self.check_open()
        self.order.timer(timestamp, ctx)
        if timestamp == MAX_TIMESTAMP:
            numbers = list(self.numbers.get())
            self.numbers.clear()
            yield total("all", ctx.get_current_key(), numbers)


class CoAdd(RecordedFunction, CoMapFunction[Record, Record, Record]):
    """Adds another constant to the numbers of each stream."""

    def __init__(self, amounts: tuple[int, int]) -> None:
        self.amounts = amounts

    def map1(self, value: Record) -> Record:
        return self._added(value, 0)

    def map2(self, value: Record) -> Record:
        return self._added(value, 1)

    def _added(self, value: Record, index: int) -> Record:
        self.check_open()
        origin, path, key, number = value
        return origin, path, key, number + self.amounts[index]


class CoEcho(RecordedFunction, KeyedCoProcessFunction[int, Record, Record, Record]):
    """Emits each record several times, with another constant for each stream; a state counts the records of both."""

    def __init__(self, copies: int, amounts: tuple[int, int]) -> None:
        self.copies = copies
        self.amounts = amounts

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element1(self, value: Record, ctx: Any) -> Iterator[Record]:
        return self._echo(value, ctx, 0)

    def process_element2(self, value: Record, ctx: Any) -> Iterator[Record]:
        return self._echo(value, ctx, 1)

    def _echo(self, value: Record, ctx: Any, index: int) -> Iterator[Record]:
        self.check_open()
        self.seen.update((self.seen.value() or 0) + 1)
        origin, path, key, number = value
        for copy in range(self.copies):
            assert ctx.get_current_key() == key, "the key changed during a paused generator"
            yield origin, (*path, copy), key, number + self.amounts[index]


class TotalWithRules(RecordedFunction, KeyedBroadcastProcessFunction[int, Record, Record, Record]):
    """Emits the numbers of a key and of all broadcast records as one record, at the end of event time.

    It stores broadcast records as a set: a repeated record counts once.
    """

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.numbers = runtime_context.get_list_state(NUMBERS)

    def process_element(self, value: Record, ctx: Any) -> None:
        self.check_open()
        self.numbers.add((value[2], value[3]))
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)

    def process_broadcast_element(self, value: Record, ctx: Any) -> None:
        self.check_open()
        ctx.get_broadcast_state(RULES).put(value, value[3])
        if value[3] % 4 == 0:
            ctx.apply_to_keyed_state(NUMBERS, self._check)

    def _check(self, key: int, numbers: Any) -> None:
        keys = {stored_key for stored_key, _ in numbers.get()}
        assert keys == {key}, f"state of key {key} holds records of {keys}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Record]:
        self.check_open()
        numbers = [number for _, number in self.numbers.get()]
        self.numbers.clear()
        yield total_with_rules(ctx.get_current_key(), numbers, ctx.get_broadcast_state(RULES).values())


class Pair(RecordedFunction, ProcessJoinFunction[Record, Record, Record]):
    """Emits a pair of records as one."""

    def process_element(self, left: Record, right: Record, ctx: Any) -> Iterator[Record]:
        self.check_open()
        yield paired(left, right)


def paired(left: Record, right: Record) -> Record:
    """Return the output of Pair: its number grows with either number."""
    assert left[2] == right[2], "records of two keys were paired"
    return ("pair", (), left[2], COUNT_WEIGHT * left[3] + right[3])


def record_of_pair(row: Row) -> Record:
    """Return the output of Pair for the fields that a join on columns gives."""
    return ("pair", (), row["key"], COUNT_WEIGHT * row["number"] + row["other"])


def co_grouped(first: Iterable[Record], second: Iterable[Record]) -> list[Record]:
    """Return the records of two streams as one: its number grows with each of theirs."""
    first, second = list(first), list(second)
    (key,) = {record[2] for record in (*first, *second)}
    return [total("co-group", key, [*(7 * record[3] for record in first), *(record[3] for record in second)])]


def total_with_rules(key: int, numbers: Iterable[int], rules: Iterable[int]) -> Record:
    """Return the output of TotalWithRules for a key."""
    return total("ruled", key, [*numbers, *rules])


def first_alarm(timestamp: int, delay_ms: int) -> int:
    """Return the even timestamp at which Alarms first fires for a record."""
    return 2 * ((timestamp + delay_ms) // 2 + 1)


def next_alarms(timestamp: int, past: bool) -> list[int]:
    """Return the timers that Alarms registers when one fires: a later one, and one in the past."""
    if timestamp % 2:
        return []
    later = [timestamp + 2] if timestamp % 10 < 6 else []
    return [*later, timestamp - 1] if past and timestamp % 3 == 0 else later


class Alarms(RecordedFunction, KeyedProcessFunction[int, Record, Record]):
    """Registers a timer some time after each record; timers register later ones and (odd) ones in the past."""

    def __init__(self, delay_ms: int, past: bool, copies: int) -> None:
        self.delay_ms = delay_ms
        self.past = past
        self.copies = copies

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.order = KeyOrder(runtime_context)

    def process_element(self, value: Record, ctx: Any) -> None:
        self.check_open()
        self.order.record(ctx)
        ctx.timer_service().register_event_time_timer(first_alarm(ctx.timestamp(), self.delay_ms))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Record]:
        self.check_open()
        self.order.timer(timestamp, ctx)
        timers, key = ctx.timer_service(), ctx.get_current_key()
        assert timers.current_watermark() >= timestamp, "a timer fired before its time"
        for after in next_alarms(timestamp, self.past):
            timers.register_event_time_timer(after)
        for copy in range(self.copies):
            yield "alarm", (timestamp, copy), key, timestamp


class WindowTotal(RecordedFunction, ProcessWindowFunction[Record, Record, int, Any]):
    """Emits the contents of a window as one record."""

    def process(self, key: int, context: Any, elements: Iterable[Record]) -> Iterator[Record]:
        self.check_open()
        name, path, _, number = total("window", key, (element[3] for element in elements))
        yield name, (*path, context.window().start, context.window().end), key, number

    def clear(self, context: Any) -> None:
        """Nothing to clear."""


class WindowSum(RecordedFunction, AggregateFunction[Record, tuple[int, int], Record]):
    """Emits the contents of a window as one record by aggregation, without access to the window."""

    shares_slices = True

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Record, accumulator: tuple[int, int]) -> tuple[int, int]:
        return value[2], accumulator[1] + value[3] + COUNT_WEIGHT

    def get_result(self, accumulator: tuple[int, int]) -> Record:
        return "window", (), accumulator[0], accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] or acc_b[0], acc_a[1] + acc_b[1]


def record_of_totals(totals: Any) -> Record:
    """Return the record that WindowSum emits, from aggregates of fields."""
    return "window", (), totals.key, int(totals.total) + totals.n * COUNT_WEIGHT


def record_of_aggregate(aggregate: Any) -> Record:
    """Return the record that a reduced stream emits, from an aggregate of numbers."""
    return "", (), aggregate.key, aggregate.number


class Evicting(Evictor[Record, Any]):
    """Evicts numbers divisible by 3 before the function is called, or nothing."""

    def __init__(self, evicts: bool) -> None:
        self.evicts = evicts

    def evict_before(self, elements: list[TimestampedValue[Record]], size: int, window: Any, ctx: Any) -> None:
        assert all(window.start <= element.get_timestamp() < window.end for element in elements)
        if self.evicts:
            elements[:] = [element for element in elements if element.value[3] % 3]

    def evict_after(self, elements: list[TimestampedValue[Record]], size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)


class Punctuated(WatermarkGenerator):
    """Emits a watermark after every record whose number is divisible by 3."""

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms
        self.highest: int | None = None

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        self.highest = timestamp if self.highest is None else max(self.highest, timestamp)
        if value[3] % 3 == 0:
            # A record without a timestamp has the lowest timestamp.
            output.emit_watermark(max(MIN_TIMESTAMP, self.highest - self.bound_ms - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing: watermarks are punctuated."""
