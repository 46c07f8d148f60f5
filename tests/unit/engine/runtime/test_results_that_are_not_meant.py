"""What functions return that can be iterated over, or counts as true, and is not what they mean to emit."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections import Counter, OrderedDict, UserDict, UserString, deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pydantic
import pytest

from penstock.common import Row, Time, Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
)
from penstock.datastream.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction
from penstock.datastream.state import AggregatingStateDescriptor, MapStateDescriptor, ReducingStateDescriptor
from penstock.datastream.window import (
    CountEvictor,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.testing import KeyedOneInputHarness, OneInputHarness, OperatorHarness, TwoInputHarness

Result = Callable[[], Any]


class Color(StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Model(pydantic.BaseModel):
    x: int


@dataclasses.dataclass
class Iterable:
    """A record with declared fields, which unpacks as a tuple does."""

    x: int

    def __iter__(self) -> Iterator[Any]:
        return iter(("x", self.x))


@attrs.define
class AttrsIterable:
    x: int

    __iter__ = Iterable.__iter__


class StructIterable(msgspec.Struct):
    x: int

    __iter__ = Iterable.__iter__


def first(value: Any) -> int:
    return 0


class Plain(ProcessFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result()


class Keyed(KeyedProcessFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result()


class Timer(Keyed):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.result()


class Flat(FlatMapFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def flat_map(self, value: Any) -> Any:
        return self.result()


class OfWindow(ProcessWindowFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return self.result()


class OfAll(ProcessAllWindowFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process(self, context: Any, elements: Any) -> Any:
        return self.result()


class Both(CoProcessFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.result()

    process_element2 = process_element1


class FlatBoth(CoFlatMapFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def flat_map1(self, value: Any) -> Any:
        return self.result()

    flat_map2 = flat_map1


class Ruled(BroadcastProcessFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


class Near(ProcessJoinFunction):
    def __init__(self, result: Result) -> None:
        self.result = result

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return self.result()


WINDOWS = TumblingEventTimeWindows.of(Time.seconds(1))
RULES = MapStateDescriptor("rules")


def of_one(program: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: OperatorHarness(program)


def of_two(program: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    return lambda: TwoInputHarness(program)


PLACES: dict[str, Callable[[Result], Callable[[], Any]]] = {
    "process": lambda r: lambda: OneInputHarness(Plain(r)),
    "keyed process": lambda r: lambda: KeyedOneInputHarness(Keyed(r), first),
    "timer": lambda r: lambda: KeyedOneInputHarness(Timer(r), first),
    "flat_map": lambda r: of_one(lambda s: s.flat_map(lambda value: r())),
    "keyed flat_map": lambda r: of_one(lambda s: s.key_by(first).flat_map(Flat(r))),
    "window": lambda r: of_one(lambda s: s.key_by(first).window(WINDOWS).process(OfWindow(r))),
    "apply": lambda r: of_one(lambda s: s.key_by(first).window(WINDOWS).apply(lambda key, window, values: r())),
    "window_all": lambda r: of_one(lambda s: s.window_all(WINDOWS).process(OfAll(r))),
    "evicting": lambda r: of_one(
        lambda s: s.key_by(first).window(WINDOWS).evictor(CountEvictor.of(5)).process(OfWindow(r))
    ),
    "reduce and window": lambda r: of_one(
        lambda s: s.key_by(first).window(WINDOWS).reduce(lambda a, b: a, OfWindow(r))
    ),
    "co_process": lambda r: of_two(lambda a, b: a.connect(b).process(Both(r))),
    "co_flat_map": lambda r: of_two(lambda a, b: a.connect(b).flat_map(FlatBoth(r))),
    "keyed co_flat_map": lambda r: of_two(lambda a, b: a.key_by(first).connect(b.key_by(first)).flat_map(FlatBoth(r))),
    "broadcast": lambda r: of_two(lambda a, b: a.connect(b.broadcast(RULES)).process(Ruled(r))),
    "interval join": lambda r: of_two(
        lambda a, b: (
            a.key_by(first).interval_join(b.key_by(first)).between(Time.seconds(-1), Time.seconds(1)).process(Near(r))
        )
    ),
}
PLACE = pytest.mark.parametrize("place", PLACES)
FLAT = ("flat_map", "keyed flat_map", "co_flat_map", "keyed co_flat_map")

RECORDS: dict[str, Any] = {
    "dict": {"user": "ada"},
    "OrderedDict": OrderedDict(user="ada"),
    "Counter": Counter("ada"),
    "UserDict": UserDict(user="ada"),
    "Row": Row(user="ada"),
    "Row without names": Row("ada", 1),
    "NamedTuple": Point(1, 2),
    "bytearray": bytearray(b"ada"),
    "memoryview": memoryview(b"ada"),
    "str enum": Color.RED,
    "pydantic": Model(x=1),
    "dataclass": Iterable(1),
    "attrs": AttrsIterable(1),
    "Struct": StructIterable(1),
    "UserString": UserString("ada"),
    "record of an array": np.array([(1, 2.0)], dtype=[("x", int), ("y", float)])[0],
    "network": ipaddress.ip_network("10.0.0.0/30"),
    "DataFrame": pd.DataFrame({"user": ["ada"]}),
    "Table": pa.table({"user": ["ada"]}),
}
COLLECTIONS: dict[str, Any] = {
    "list": [1, 2],
    "tuple": (1, 2),
    "range": range(1, 3),
    "deque": deque([1, 2]),
    "dict keys": {1: "a", 2: "b"}.keys(),
    "array": np.array([1, 2]),
    "Series": pd.Series([1, 2]),
}


def emitted(make: Callable[[], Any]) -> list[Any]:
    with make() as harness:
        if isinstance(harness, TwoInputHarness):
            harness.push1(1, 1)
            harness.push2(1, 1)
        else:
            harness.push(1, 1)
        harness.watermark(10_000)
        return list(harness.outputs())


def failure(make: Callable[[], Any]) -> str:
    with pytest.raises(UserFunctionError) as raised:
        emitted(make)
    return str(raised.value)


@PLACE
@pytest.mark.parametrize("record", RECORDS)
def test_a_record_in_place_of_a_collection(place: str, record: str) -> None:
    """The names of its fields, its values or its bytes would be emitted, and nothing would say so."""
    text = failure(PLACES[place](lambda: RECORDS[record]))
    assert "not a collection of values: yield it, or return it in a list" in text


@PLACE
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_collections_are_emitted_one_by_one(place: str, collection: str) -> None:
    """A program that returns a tuple or an array of results would fail."""
    values = emitted(PLACES[place](lambda: COLLECTIONS[collection]))
    assert values[:2] == [1, 2]


def counted(value: Any) -> Iterator[Any]:
    yield 1
    if value is not None:
        return value


@PLACE
def test_a_value_returned_beside_a_yield(place: str) -> None:
    """It would be dropped: half of the results would be missing."""
    text = failure(PLACES[place](lambda: counted([2])))
    assert "it returned [2], and a returned value is not emitted" in text and "yield the value" in text
    assert set(emitted(PLACES[place](lambda: counted(None)))) == {1}, "a return of None is none of a value"


class YieldsOrReturns(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value > 1:
            return [value, value]
        yield value


class YieldsOnly(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value > 1:
            return
        try:
            yield value
        finally:
            ctx.timestamp()


def test_a_generator_function_that_returns_a_value() -> None:
    """As above, for a function that is a generator function itself."""
    for key in (None, first):
        with KeyedOneInputHarness(YieldsOrReturns(), key) if key else OneInputHarness(YieldsOrReturns()) as harness:
            harness.push(1)
            with pytest.raises(UserFunctionError, match=r"it returned \[2, 2\], and a returned value is not emitted"):
                harness.push(2)
        with KeyedOneInputHarness(YieldsOnly(), key) if key else OneInputHarness(YieldsOnly()) as harness:
            harness.push(1)
            harness.push(2)
            assert harness.outputs() == [1]


@pytest.mark.parametrize("place", FLAT)
def test_a_flat_map_may_split_text(place: str) -> None:
    """A string is a collection of its characters: programs that count letters rely on it."""
    assert emitted(PLACES[place](lambda: "ab"))[:2] == ["a", "b"]


async def fetched(value: Any, other: Any = None) -> bool:
    return False


CALLS: dict[str, Callable[[Any], Any]] = {
    "map": lambda s: s.map(lambda value: fetched(value)),
    "filter": lambda s: s.filter(lambda value: fetched(value)),
    "reduce": lambda s: s.key_by(first).reduce(lambda one, other: fetched(one)),
    "key_by": lambda s: s.key_by(lambda value: fetched(value)).reduce(lambda one, other: one),
    "flat_map": lambda s: s.flat_map(lambda value: fetched(value)),
    "process": lambda s: s.process(Plain(lambda: fetched(1))),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_coroutine_that_a_function_returns(call: str) -> None:
    """It counts as true, and can be emitted and kept: nothing would be fetched, and nothing would say so."""
    with OperatorHarness(CALLS[call]) as harness, pytest.raises(UserFunctionError) as raised:
        harness.push(1)
        harness.push(2)
    assert "returns a coroutine, not a value" in str(raised.value) and "AsyncDataStream" in str(raised.value)


class Total(AggregateFunction):
    """One of its methods calls a coroutine function."""

    def __init__(self, method: str) -> None:
        self.method = method

    def returned(self, method: str, value: Any) -> Any:
        return fetched(value) if method == self.method else value

    def create_accumulator(self) -> Any:
        return self.returned("create_accumulator", 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.returned("add", value)

    def get_result(self, accumulator: Any) -> Any:
        return self.returned("get_result", accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self.returned("merge", acc_a)


class SharedTotal(Total):
    """Windows that overlap share its accumulators."""

    shares_slices = True


class Totals(KeyedProcessFunction):
    """Keeps totals in a state."""

    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        of_kind = {AggregatingStateDescriptor: "get_aggregating_state", ReducingStateDescriptor: "get_reducing_state"}
        self.state = getattr(runtime_context, of_kind[type(self.descriptor)])(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.state.add(value)
        yield self.state.get()


def in_session(method: str) -> Callable[[Any], Any]:
    return lambda s: (
        s.key_by(first)
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(2)))
        .aggregate(Total(method), OfWindow(lambda: [1]))
    )


METHODS = ("create_accumulator", "add", "get_result")
KEPT: dict[str, Callable[[Any], Any]] = {
    "reduce": lambda s: s.key_by(first).window(WINDOWS).reduce(lambda one, other: fetched(one)),
    "evicted": lambda s: s.key_by(first).window(WINDOWS).evictor(CountEvictor.of(9)).aggregate(Total("add")),
    **{
        f"aggregate, {method}": lambda s, method=method: s.key_by(first).window(WINDOWS).aggregate(Total(method))
        for method in METHODS
    },
    **{
        f"for a function, {method}": lambda s, method=method: (
            s.key_by(first).window(WINDOWS).aggregate(Total(method), OfWindow(lambda: [1]))
        )
        for method in METHODS
    },
    **{f"session, {method}": in_session(method) for method in (*METHODS, "merge")},
    "merged slices": lambda s: (
        s.key_by(first)
        .window(SlidingEventTimeWindows.of(Time.milliseconds(4), Time.milliseconds(2)))
        .aggregate(SharedTotal("merge"))
    ),
    "reducing state": lambda s: s.key_by(first).process(
        Totals(ReducingStateDescriptor("s", lambda one, other: fetched(one), Types.INT()))
    ),
    **{
        f"aggregating state, {method}": lambda s, method=method: s.key_by(first).process(
            Totals(AggregatingStateDescriptor("s", Total(method), Types.INT()))
        )
        for method in METHODS
    },
}


@pytest.mark.parametrize("place", KEPT)
def test_a_coroutine_in_place_of_what_is_kept(place: str) -> None:
    """It would be kept in a window or a state, and a result would be one that nothing can use."""
    with OperatorHarness(KEPT[place]) as harness, pytest.raises(UserFunctionError) as raised:
        harness.push(1, 0)
        harness.push(2, 3)
        harness.push(3, 2)
        harness.watermark(100_000)
    assert "returns a coroutine, not a value" in str(raised.value) and "AsyncDataStream" in str(raised.value)
