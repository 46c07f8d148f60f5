"""Streams with keys: functions see the type of the values and of the key."""

from collections.abc import Iterator
from typing import Any, assert_type

from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import (
    AggregatingState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ValueState,
    ValueStateDescriptor,
)

Order = tuple[str, int]


class Customer(KeySelector[Order, str]):
    def get_key(self, value: Order) -> str:
        return value[0]


class Count(KeyedProcessFunction[str, Order, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count: ValueState[int] = runtime_context.get_state(ValueStateDescriptor("count"))
        self.items: ListState[str] = runtime_context.get_list_state(ListStateDescriptor("items"))
        self.prices: MapState[str, int] = runtime_context.get_map_state(MapStateDescriptor("prices"))
        runtime_context.get_state("count")  # E: Argument 1 to "get_state"

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        assert_type(self.count.value(), int | None)
        self.count.update((self.count.value() or 0) + 1)
        self.count.update("one")  # E: Argument 1 to "update" of "ValueState" has incompatible type "str"
        self.items.add(value[1])  # E: Argument 1 to "add" of "AppendingState" has incompatible type "int"
        assert_type(next(iter(self.items)), str)
        assert_type(self.prices.get("tea"), int | None)
        self.prices.put(1, 1)  # E: Argument 1 to "put"
        assert_type(ctx.timer_service().current_watermark(), int)
        ctx.timer_service().register_event_time_timer("noon")  # E: incompatible type "str"; expected "int"
        yield value[0]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{timestamp}"


class Sum(ReduceFunction[Order]):
    def reduce(self, value1: Order, value2: Order) -> Order:
        return value1[0], value1[1] + value2[1]


class Price(MapFunction[Order, int]):
    def map(self, value: Order) -> int:
        return value[1]


def kept(reducing: ReducingState[int], aggregating: AggregatingState[int, float]) -> None:
    """States that combine what is added."""
    assert_type(reducing.get(), int | None)
    assert_type(aggregating.get(), float | None)
    aggregating.add("a")  # E: incompatible type "str"; expected "int"


env = StreamExecutionEnvironment.get_execution_environment()
orders = env.from_collection([("ann", 3), ("bob", 5)])
assert_type(orders, DataStream[tuple[str, int]])
by_customer = orders.key_by(lambda order: order[0])
assert_type(by_customer, KeyedStream[tuple[str, int], str])
assert_type(orders.key_by(Customer()), KeyedStream[tuple[str, int], str])
assert_type(by_customer.key_by(lambda order: order[1]), KeyedStream[tuple[str, int], int])
orders.key_by(lambda order: order[2])  # E: out of range
assert_type(orders.key_by("customer", "day"), KeyedStream[tuple[str, int], Any])
orders.key_by(7)  # E: No overload variant of "key_by" of "DataStream" matches argument type "int"

assert_type(by_customer.process(Count()), DataStream[str])
assert_type(by_customer.map(Price()), DataStream[int])
assert_type(by_customer.map(lambda order: order[1] / 2), DataStream[float])
assert_type(by_customer.flat_map(lambda order: [order[0]]), DataStream[str])
assert_type(by_customer.filter(lambda order: order[1] > 3), DataStream[tuple[str, int]])
assert_type(by_customer.reduce(Sum()), DataStream[tuple[str, int]])
assert_type(by_customer.reduce(lambda a, b: (a[0], a[1] + b[1])), DataStream[tuple[str, int]])
by_customer.sum(1).max_by(1)  # E: "DataStream[tuple[str, int]]" has no attribute "max_by"
assert_type(by_customer.max_by(1), DataStream[tuple[str, int]])
orders.key_by(lambda order: order[1]).process(Count())  # E: expected "KeyedProcessFunction[int, tuple[str, int], str]"
orders.process(Count())  # E: Argument 1 to "process" of "DataStream" has incompatible type "Count"
orders.reduce(Sum())  # E: "DataStream[tuple[str, int]]" has no attribute "reduce"
by_customer.reduce(lambda a, b: a[1] + b[1])  # E: Incompatible return value type  # E: "reduce" of "KeyedStream"
by_customer.map(lambda order: order[0] + 1)  # E: Unsupported operand types for + ("str" and "int")
