"""Connected streams: a function must fit both of them, and with broadcast state its kind must fit the first."""

from collections.abc import Iterable, Iterator
from typing import assert_type

from penstock.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows

Order = tuple[str, int]


class Told(CoMapFunction[Order, str, float]):
    def map1(self, value: Order) -> float:
        return value[1]

    def map2(self, value: str) -> float:
        return len(value)


class Exploded(CoFlatMapFunction[Order, str, int]):
    def flat_map1(self, value: Order) -> list[int]:
        return [value[1]]

    def flat_map2(self, value: str) -> None:
        return None


class Both(CoProcessFunction[Order, str, bytes]):
    def process_element1(self, value: Order, ctx: CoProcessFunction.Context) -> Iterator[bytes]:
        assert_type(ctx.timestamp(), int | None)
        yield value[0].encode()

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Iterator[bytes]:
        yield value.encode()


class ByKey(KeyedCoProcessFunction[str, Order, str, int]):
    def process_element1(self, value: Order, ctx: KeyedCoProcessFunction.Context) -> Iterator[int]:
        yield value[1]

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterator[int]:
        ctx.timer_service().register_event_time_timer("noon")  # E: incompatible type "str"; expected "int"
        yield len(value)


RULES = MapStateDescriptor("rules")
COUNT = ValueStateDescriptor("count")


class Ruled(BroadcastProcessFunction[Order, str, str]):
    def process_element(self, value: Order, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        ctx.get_broadcast_state(RULES).put("a", 1)  # E: "ReadOnlyBroadcastState[Any, Any]" has no attribute "put"
        yield value[0]

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> Iterator[str]:
        ctx.get_broadcast_state(RULES).put(value, 1)
        yield value


class RuledByKey(KeyedBroadcastProcessFunction[str, Order, str, str]):
    def process_element(self, value: Order, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        assert_type(ctx.timer_service().current_watermark(), int)
        yield value[0]

    def process_broadcast_element(self, value: str, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[str]:
        ctx.apply_to_keyed_state(COUNT, lambda key, state: state.clear())
        ctx.apply_to_keyed_state(COUNT, 3)  # E: Argument 2 to "apply_to_keyed_state"
        ctx.timer_service()  # E: has no attribute "timer_service"
        yield value


class Pairs(ProcessJoinFunction[Order, str, float]):
    def process_element(self, left: Order, right: str, ctx: ProcessJoinFunction.Context) -> Iterator[float]:
        assert_type(ctx.get_left_timestamp(), int)
        yield left[1]


class One(JoinFunction[Order, str, bytes]):
    def join(self, first: Order, second: str) -> bytes:
        return second.encode()


class Many(FlatJoinFunction[Order, str, bytes]):
    def join(self, first: Order, second: str) -> list[bytes]:
        return [second.encode()] * first[1]


class Grouped(CoGroupFunction[Order, str, int]):
    def co_group(self, first: Iterable[Order], second: Iterable[str]) -> Iterator[int]:
        yield len([*first]) + len([*second])


env = StreamExecutionEnvironment.get_execution_environment()
orders = env.from_collection([("ann", 3), ("bob", 5)])
names = env.from_collection(["ann", "bob"])
connected = orders.connect(names)
assert_type(connected, ConnectedStreams[tuple[str, int], str])
assert_type(connected.map(Told()), DataStream[float])
assert_type(connected.flat_map(Exploded()), DataStream[int])
assert_type(connected.process(Both()), DataStream[bytes])
by_key = connected.key_by(lambda order: order[0], lambda name: name)
assert_type(by_key, ConnectedStreams[tuple[str, int], str])
assert_type(by_key.process(ByKey()), DataStream[int])
assert_type(orders.key_by(lambda order: order[0]).connect(names.key_by(len)), ConnectedStreams[tuple[str, int], str])
names.connect(orders).map(Told())  # E: Argument 1 to "map" of "ConnectedStreams" has incompatible type "Told"
connected.map(Exploded())  # E: Argument 1 to "map" of "ConnectedStreams"
connected.map(lambda value: value)  # E: Argument 1 to "map" of "ConnectedStreams"
connected.key_by(lambda order: order[0])  # E: Missing positional argument "key_selector2"

rules = names.broadcast(RULES, MapStateDescriptor("more"))
assert_type(rules, BroadcastStream[str])
assert_type(names.broadcast(), DataStream[str])
assert_type(orders.connect(rules), BroadcastConnectedStream[tuple[str, int], str])
assert_type(orders.connect(rules).process(Ruled()), DataStream[str])
assert_type(orders.key_by(lambda order: order[0]).connect(rules).process(RuledByKey()), DataStream[str])
names.broadcast(COUNT)  # E: No overload variant of "broadcast" of "DataStream"
names.connect(rules).process(Ruled())  # E: Argument 1 to "process" of "BroadcastConnectedStream"

by_name = orders.key_by(lambda order: order[0])
join = by_name.interval_join(names.key_by(lambda name: name)).between(-5, 5).lower_bound_exclusive()
assert_type(join.process(Pairs()), DataStream[float])
assert_type(join.process(lambda left, right, ctx: [(left, right)]), DataStream[tuple[tuple[str, int], str]])
late: OutputTag[str] = OutputTag("late")
join.side_output_right_late_data(late).process(Pairs())
join.side_output_left_late_data(late)  # E: Argument 1 to "side_output_left_late_data"
by_name.interval_join(names)  # E: Argument 1 to "interval_join" of "KeyedStream"
by_name.interval_join(names.key_by(len))  # E: Argument 1 to "key_by" of "DataStream"
join.process(Told())  # E: Argument 1 to "process" of "IntervalJoined"

session = EventTimeSessionWindows.with_gap(10)
in_session = orders.join(names).where(lambda order: order[0]).equal_to(lambda name: name).window(session)
assert_type(in_session.apply(One()), DataStream[bytes])
assert_type(in_session.apply(Many()), DataStream[bytes])
assert_type(in_session.apply(lambda order, name: (order[1], name)), DataStream[tuple[int, str]])
assert_type(in_session.allowed_lateness(5).apply(One()), DataStream[bytes])
grouped = orders.co_group(names).where(lambda order: order[0]).equal_to(lambda name: name).window(session)
assert_type(grouped.apply(Grouped()), DataStream[int])
grouped.apply(One())  # E: Argument 1 to "apply" of "CoGroupWithWindow"
in_session.apply(Grouped())  # E: Argument 1 to "apply" of "JoinWithWindow"
orders.join(names).where(lambda order: order[2])  # E: out of range
orders.join(names).window(session)  # E: "JoinedStreams[tuple[str, int], str]" has no attribute "window"
