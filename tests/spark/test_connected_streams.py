"""Connected and broadcast streams in both modes: results, state, side outputs, the order of batched input, chains."""

from __future__ import annotations

from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, STREAMING, batched, collect, environment, failure_of, pipelined

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.constants import MAX_TIMESTAMP
from penstock.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeExecutionMode,
)
from penstock.datastream.functions import CoFlatMapFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark

CUSTOMERS = [(n, f"customer {n}") for n in range(20)]
ORDERS = [(n % 25, f"order {n}") for n in range(100)]
EXPECTED = sorted((name, order) for id, name in CUSTOMERS for customer, order in ORDERS if id == customer)
PRICES = MapStateDescriptor("prices", Types.INT(), Types.INT())
NAMES = MapStateDescriptor("names", Types.INT(), Types.STRING())
UNKNOWN = OutputTag("unknown")
FAILED = OutputTag("failed")


class Joined(KeyedCoProcessFunction):
    """A full join by key, of which either side may come first; orders without a customer go to a side output."""

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.orders = runtime_context.get_list_state(ListStateDescriptor("orders", Types.STRING()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.name.update(value[1])
        for order in self.orders:
            yield value[1], order

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.orders.add(value[1])
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)
        if self.name.value() is not None:
            yield self.name.value(), value[1]

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if self.name.value() is None:
            for order in self.orders:
                yield UNKNOWN, (ctx.get_current_key(), order)


@pytest.mark.parametrize(
    ("mode", "key_first"), first_of(2, [(STREAMING, True), (BATCH, False), (STREAMING, False), (BATCH, True)])
)
def test_two_streams_with_keys_share_state(mode: RuntimeExecutionMode, key_first: bool) -> None:
    """Records of two streams with one key would not meet; one bad record, kept by `on_error`, would end the job."""
    env = environment(mode)
    customers = env.from_collection(CUSTOMERS)
    orders = env.from_collection([*ORDERS, None]).map(lambda order: (order[0], order[1]), on_error=FAILED)
    if key_first:
        connected = customers.key_by(lambda pair: pair[0]).connect(orders.key_by(lambda pair: pair[0]))
    else:
        connected = customers.connect(orders).key_by(lambda pair: pair[0], lambda pair: pair[0])
    joined = connected.process(Joined())
    pairs = joined.map(lambda pair: ("joined", pair)).union(
        joined.get_side_output(UNKNOWN).map(lambda pair: ("unknown", pair)),
        orders.get_side_output(FAILED).map(lambda failed: ("failed", failed)),
    )
    results = collect(pairs)
    assert sorted(value for kind, value in results if kind == "joined") == EXPECTED
    (failed,) = [value for kind, value in results if kind == "failed"]
    assert (failed.record, failed.error) == (None, "TypeError: 'NoneType' object is not subscriptable")
    unknown = sorted((customer, order) for customer, order in ORDERS if customer >= 20)
    assert sorted(value for kind, value in results if kind == "unknown") == unknown


class Told(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "number", value

    def map2(self, value: Any) -> Any:
        return "text", value


class Words(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value] * 2

    def flat_map2(self, value: Any) -> Any:
        yield from value.split()


class Passed(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield UNKNOWN, value


@batched
def test_streams_without_keys(mode: RuntimeExecutionMode) -> None:
    """Two streams of different types could be read only as one of unions."""
    env = environment(mode)
    connected = env.from_collection([1, 2]).connect(env.from_collection(["to be", "or not"]))
    told, words, passed = connected.map(Told()), connected.flat_map(Words()), connected.process(Passed())
    streams = {"map": told, "flat_map": words, "main": passed, "side": passed.get_side_output(UNKNOWN)}
    first, *others = (stream.map(lambda value, name=name: (name, value)) for name, stream in streams.items())
    results = collect(first.union(*others))
    of = {name: sorted((value for kind, value in results if kind == name), key=str) for name in streams}
    assert of == {
        "map": [("number", 1), ("number", 2), ("text", "or not"), ("text", "to be")],
        "flat_map": [1, 1, 2, 2, "be", "not", "or", "to"],
        "main": [1, 2],
        "side": ["or not", "to be"],
    }


class Priced(KeyedBroadcastProcessFunction):
    """Prices and names come by broadcast. Streaming, they may come after an order: so a timer prices it at the end."""

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once

    def open(self, runtime_context: Any) -> None:
        self.orders = runtime_context.get_list_state(ListStateDescriptor("orders", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.at_once:
            yield value[1], *self.of(value[0], ctx)
        else:
            self.orders.add(value[1])
            ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(PRICES).put(value[0], value[0] * 10)
        ctx.get_broadcast_state(NAMES).put(*value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for order in self.orders:
            yield order, *self.of(ctx.get_current_key(), ctx)

    @staticmethod
    def of(key: int, ctx: Any) -> tuple[Any, Any]:
        return ctx.get_broadcast_state(PRICES).get(key), ctx.get_broadcast_state(NAMES).get(key)


class Named(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[1], ctx.get_broadcast_state(NAMES).get(value[0])

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(NAMES).put(*value)
        yield "broadcast", value


@pipelined
def test_broadcast_state_with_keys(mode: RuntimeExecutionMode) -> None:
    """Some subtasks would lack some rules; in batched mode records would be judged before the rules have come."""
    env = environment(mode, parallelism=3)
    rules = env.from_collection(CUSTOMERS).broadcast(PRICES, NAMES)
    priced = env.from_collection(ORDERS).key_by(lambda order: order[0]).connect(rules).process(Priced(mode is BATCH))
    names = dict(CUSTOMERS)
    expected = [(order, id * 10 if id in names else None, names.get(id)) for id, order in ORDERS]
    assert sorted(collect(priced), key=str) == sorted(expected, key=str)


def test_batched_all_that_is_broadcast_comes_first() -> None:
    """A batched job would give other results each time it runs."""
    env = environment(BATCH, parallelism=3)
    rules = env.from_collection(CUSTOMERS).broadcast(NAMES)
    results = collect(env.from_collection(ORDERS).connect(rules).process(Named()))
    names = dict(CUSTOMERS)
    assert sorted(value for value in results if value[0] != "broadcast") == sorted(
        ((order, names.get(id)) for id, order in ORDERS), key=lambda pair: pair[0]
    )
    assert len([value for value in results if value[0] == "broadcast"]) == 3 * len(CUSTOMERS), "each subtask has each"


class Wrong(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return None

    def process_element2(self, value: Any, ctx: Any) -> Any:
        raise ValueError(f"no {value}")


@batched
def test_a_failure_names_the_input(mode: RuntimeExecutionMode) -> None:
    """A user would not know in which of the two streams the failing record is."""
    env = environment(mode)
    connected = env.from_collection([1]).connect(env.from_collection(["x"])).key_by(str, str)
    message = failure_of(lambda: collect(connected.process(Wrong()).name("wrong").uid("w")))
    assert (
        "operator 'wrong' (uid w), subtask" in message and "in Wrong.process_element2\n  value 'x'   key 'x'" in message
    )
    assert "ValueError: no x" in message


@pipelined
def test_interval_join(mode: RuntimeExecutionMode) -> None:
    """Pairs would be missing, or found twice, between subtasks, or between the modes."""
    env = environment(mode, parallelism=3)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda record, _: record[1]
    )
    left = [(n % 7, n) for n in range(200)]
    right = [(n % 5, n + 3 - n % 4) for n in range(200)]
    streams = [
        env.from_collection(records).assign_timestamps_and_watermarks(strategy).key_by(lambda record: record[0])
        for records in (left, right)
    ]
    join = streams[0].interval_join(streams[1]).between(-4, Duration.of_millis(9)).lower_bound_exclusive()
    pairs = collect(join.process(lambda one, other, ctx: [(one, other, ctx.get_timestamp())]))
    assert sorted(pairs) == sorted(
        (one, other, max(one[1], other[1]))
        for one in left
        for other in right
        if one[0] == other[0] and -4 < other[1] - one[1] <= 9
    )


@batched
def test_window_join_and_co_group(mode: RuntimeExecutionMode) -> None:
    """Pairs would be missing, or outer joins would leave out what is alone, in one of the modes."""
    env = environment(mode, parallelism=2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
    left, right = [(n % 7, n) for n in range(100)], [(n % 5, 3 * n) for n in range(40)]
    one, other = (env.from_collection(records).assign_timestamps_and_watermarks(strategy) for records in (left, right))
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))

    def key(record: Any) -> int:
        return record[0]  # type: ignore[no-any-return]

    joined = one.join(other).where(key).equal_to(key).window(windows).apply(lambda a, b: ("pair", a, b))
    grouped = one.co_group(other).where(key).equal_to(key).window(windows)
    alone = grouped.apply(lambda a, b: [] if [*a] and [*b] else [("alone", record) for record in (*a, *b)])
    results = collect(joined.union(alone))

    def meet(a: Any, b: Any) -> bool:
        return bool(a[0] == b[0] and a[1] // 10 == b[1] // 10)

    assert sorted(result[1:] for result in results if result[0] == "pair") == sorted(
        (a, b) for a in left for b in right if meet(a, b)
    )
    assert sorted(result[1] for result in results if result[0] == "alone") == sorted(
        [a for a in left if not any(meet(a, b) for b in right)]
        + [b for b in right if not any(meet(a, b) for a in left)]
    )
