"""Each argument that may hold code or objects of the user's is what it is in the call that takes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import pytest

from penstock.api.sink import Sink
from penstock.api.source import Boundedness, Source
from penstock.common import Types, WatermarkStrategy
from penstock.common.errors import ProgramError
from penstock.datastream import (
    AsyncDataStream,
    KeyedStream,
    StreamExecutionEnvironment,
    bounded,
    broadcast_streams,
    connected_streams,
    interval_join,
    iterative_stream,
    joined_streams,
    keyed_stream,
    partition_windowed_stream,
    windowed_stream,
)
from penstock.datastream.async_retry_strategies import AsyncRetryStrategy
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import AggregateFunction, AsyncFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import CountEvictor, EventTimeTrigger, TumblingEventTimeWindows
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import BATCH, STREAMING

NONE = WatermarkStrategy.no_watermarks()
PLAIN = {
    "accumulator_type", "aggregates", "batch_format", "capacity", "ttl_config", "data_stream", "ds",
    "end", "feedback_stream", "feedback_type", "field_indexes",
    "fields", "file_path", "charset_name", "host", "port", "delimiter", "max_retry", "job_execution_name", "directory",
    "key_type", "left", "limit", "lower_bound", "max_wait_time", "on_error", "other_stream",
    "output_tag", "output_type", "position_to_max", "rejected",
    "position_to_max_by", "position_to_min", "position_to_min_by", "position_to_sum", "queryable_state_name",
    "sink_identifier", "size", "slide", "source_name", "start", "streams", "time_ms", "timeout", "timeout_millis",
    "count", "fraction", "order", "seed", "with_replacement",
    "record_type", "right", "type_info", "upper_bound", "frame", "evaluation",
}  # fmt: skip
"""Names of parameters that take numbers, names, types, tags and streams."""


class Part:
    """In an argument. Workers note what it said when it was pickled."""

    arrived: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.says = "as given"

    def __reduce__(self) -> Any:
        return _arrived, (self.says,)

    def __deepcopy__(self, memo: Any) -> Part:
        other = Part()
        other.says = self.says
        return other


def _arrived(says: str) -> None:
    Part.arrived.append(says)


class Open:
    """In an argument: what can't be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("it is open")

    def __deepcopy__(self, memo: Any) -> Open:
        return self


class Function:
    """A function of every kind of two streams."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def method(self, *arguments: Any) -> Any: ...

    map1 = map2 = flat_map1 = flat_map2 = process_element1 = process_element2 = method
    process_element = process_broadcast_element = method


class Sums(AggregateFunction):
    part: Any = None

    def create_accumulator(self): ...

    def add(self, value, accumulator): ...

    def get_result(self, accumulator): ...

    def merge(self, acc_a, acc_b): ...


class Ask(AsyncFunction):
    part: Any = None

    async def async_invoke(self, value): ...


class NoSource(Source):
    part: Any = None

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, context): ...

    def restore_enumerator(self, context, state): ...

    def create_reader(self, context): ...


class NoSink(Sink):
    part: Any = None

    def create_writer(self, context): ...


def holding(one: Any, part: Any) -> Any:
    one.part = part
    return one


def code(part: Any) -> Callable[..., Any]:
    return lambda *arguments: part


def strategy(part: Any) -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, timestamp: part)


class Windows(TumblingEventTimeWindows):
    """Windows of a user's own class, which workers call."""


class Fires(EventTimeTrigger):
    """The same for a trigger."""


def assigner(part: Any = None) -> Any:
    return holding(Windows(1000, 0), part)


def trigger(part: Any) -> Any:
    return holding(Fires(), part)


def retries(part: Any) -> Any:
    return AsyncRetryStrategy.fixed_delay(1, 1, lambda results: part)


def states(part: Any) -> Any:
    return holding(MapStateDescriptor("states", Types.STRING(), Types.STRING()), part)


class Given(NamedTuple):
    """A program, and streams for it."""

    env: StreamExecutionEnvironment
    stream: DataStream
    keyed: KeyedStream

    def windowed(self) -> Any:
        return self.keyed.window(assigner())

    def all(self) -> Any:
        return self.stream.window_all(assigner())

    def join(self, kind: str = "join") -> Any:
        return getattr(self.stream, kind)(self.stream).where(str)

    def join_windowed(self, kind: str = "join") -> Any:
        return self.join(kind).equal_to(str).window(assigner())


def _rules(given: Given) -> Any:
    return given.stream.broadcast(MapStateDescriptor("states", Types.STRING(), Types.STRING()))


# By class, method and parameter. One that is no stream yet gets its last call when the argument has changed.
CALLS: dict[str, Callable[[Given, Any], Any]] = {
    "StreamExecutionEnvironment.from_source source": lambda g, p: g.env.from_source(holding(NoSource(), p), NONE, "s"),
    "StreamExecutionEnvironment.from_source watermark_strategy": lambda g, p: g.env.from_source(
        NoSource(), strategy(p), "s"
    ),
    "StreamExecutionEnvironment.add_source source_func": lambda g, p: g.env.add_source(holding(NoSource(), p)),
    "StreamExecutionEnvironment.create_input input_format": lambda g, p: g.env.create_input(holding(NoSource(), p)),
    "StreamExecutionEnvironment.from_collection collection": lambda g, p: g.env.from_collection([[p]]),
    "DataStream.map func": lambda g, p: g.stream.map(code(p)),
    "DataStream.map_batches func": lambda g, p: (
        g.stream.as_columns(Types.ROW_NAMED(["n"], [Types.LONG()])).map_batches(code(p)).as_rows()
    ),
    "DataStream.filter_batches func": lambda g, p: (
        g.stream.as_columns(Types.ROW_NAMED(["n"], [Types.LONG()])).filter_batches(code(p)).as_rows()
    ),
    "DataStream.flat_map func": lambda g, p: g.stream.flat_map(code(p)),
    "DataStream.filter func": lambda g, p: g.stream.filter(code(p)),
    "DataStream.process func": lambda g, p: g.stream.process(code(p)),
    "DataStream.assign_timestamps_and_watermarks watermark_strategy": lambda g, p: (
        g.stream.assign_timestamps_and_watermarks(strategy(p))
    ),
    "DataStream.broadcast broadcast_state_descriptor": lambda g, p: _later(
        g.keyed.connect(g.stream.broadcast(states(p))), "process", Function(None)
    ),
    "DataStream.broadcast other_broadcast_state_descriptors": lambda g, p: _later(
        g.keyed.connect(g.stream.broadcast(MapStateDescriptor("other", Types.INT(), Types.INT()), states(p))),
        "process",
        Function(None),
    ),
    "DataStream.key_by key_selector": lambda g, p: _later(g.stream.key_by(code(p)), "map", str),
    "DataStream.partition_custom partitioner": lambda g, p: _later(g.stream.partition_custom(code(p), str), "map", str),
    "DataStream.partition_custom key_selector": lambda g, p: _later(
        g.stream.partition_custom(lambda key, count: 0, code(p)), "map", str
    ),
    "DataStream.window_all window_assigner": lambda g, p: _later(g.stream.window_all(assigner(p)), "apply", code(None)),
    "DataStream.sink_to sink": lambda g, p: g.stream.sink_to(holding(NoSink(), p)),
    "DataStream.add_sink sink_func": lambda g, p: g.stream.add_sink(code(p)),
    "KeyedStream.map func": lambda g, p: g.keyed.map(code(p)),
    "KeyedStream.flat_map func": lambda g, p: g.keyed.flat_map(code(p)),
    "KeyedStream.filter func": lambda g, p: g.keyed.filter(code(p)),
    "KeyedStream.process func": lambda g, p: g.keyed.process(code(p)),
    "KeyedStream.reduce func": lambda g, p: g.keyed.reduce(code(p)),
    "KeyedStream.key_by key_selector": lambda g, p: _later(g.keyed.key_by(code(p)), "map", str),
    "KeyedStream.window window_assigner": lambda g, p: _later(g.keyed.window(assigner(p)), "apply", code(None)),
    "KeyedStream.as_queryable_state state_descriptor": lambda g, p: g.keyed.as_queryable_state(
        "asked", holding(ValueStateDescriptor("asked", Types.STRING()), p)
    ),
    "ConnectedStreams.map func": lambda g, p: g.stream.connect(g.stream).map(Function(p)),
    "ConnectedStreams.flat_map func": lambda g, p: g.stream.connect(g.stream).flat_map(Function(p)),
    "ConnectedStreams.process func": lambda g, p: g.stream.connect(g.stream).process(Function(p)),
    "ConnectedStreams.key_by key_selector1": lambda g, p: _later(
        g.stream.connect(g.stream).key_by(code(p), str), "map", Function(None)
    ),
    "ConnectedStreams.key_by key_selector2": lambda g, p: _later(
        g.stream.connect(g.stream).key_by(str, code(p)), "map", Function(None)
    ),
    "BroadcastConnectedStream.process func": lambda g, p: g.keyed.connect(_rules(g)).process(Function(p)),
    "_Windows.trigger trigger": lambda g, p: _later(g.windowed().trigger(trigger(p)), "apply", code(None)),
    "_Windows.evictor evictor": lambda g, p: _later(
        g.windowed().evictor(holding(CountEvictor.of(1), p)), "apply", code(None)
    ),
    "_Windows.reduce reduce_function": lambda g, p: g.windowed().reduce(code(p)),
    "_Windows.reduce window_function": lambda g, p: g.windowed().reduce(code(None), code(p)),
    "_Windows.aggregate aggregate_function": lambda g, p: g.windowed().aggregate(holding(Sums(), p)),
    "_Windows.aggregate window_function": lambda g, p: g.windowed().aggregate(Sums(), code(p)),
    "WindowedStream.apply window_function": lambda g, p: g.windowed().apply(code(p)),
    "WindowedStream.process process_window_function": lambda g, p: g.windowed().process(code(p)),
    "AllWindowedStream.apply window_function": lambda g, p: g.all().apply(code(p)),
    "AllWindowedStream.process process_window_function": lambda g, p: g.all().process(code(p)),
    "JoinedStreams.where key_selector": lambda g, p: _last(
        g.stream.join(g.stream).where(code(p)), lambda one: one.equal_to(str).window(assigner()).apply(code(None))
    ),
    "JoinWhere.equal_to key_selector": lambda g, p: _last(
        g.join().equal_to(code(p)), lambda one: one.window(assigner()).apply(code(None))
    ),
    "JoinEqualTo.window assigner": lambda g, p: _later(g.join().equal_to(str).window(assigner(p)), "apply", code(None)),
    "JoinWithWindow.apply function": lambda g, p: g.join_windowed().apply(code(p)),
    "CoGroupedStreams.where key_selector": lambda g, p: _last(
        g.stream.co_group(g.stream).where(code(p)), lambda one: one.equal_to(str).window(assigner()).apply(code(None))
    ),
    "CoGroupWhere.equal_to key_selector": lambda g, p: _last(
        g.join("co_group").equal_to(code(p)), lambda one: one.window(assigner()).apply(code(None))
    ),
    "CoGroupEqualTo.window assigner": lambda g, p: _later(
        g.join("co_group").equal_to(str).window(assigner(p)), "apply", code(None)
    ),
    "CoGroupWithWindow.apply function": lambda g, p: g.join_windowed("co_group").apply(code(p)),
    "JoinEqualTo.apply function": lambda g, p: g.join().equal_to(str).apply(code(p)),
    "CoGroupEqualTo.apply function": lambda g, p: g.join("co_group").equal_to(str).apply(code(p)),
    "SemiJoinedStreams.where key_selector": lambda g, p: _later(
        g.stream.semi_join(g.stream).where(code(p)), "equal_to", str
    ),
    "SemiJoinWhere.equal_to key_selector": lambda g, p: g.stream.anti_join(g.stream).where(str).equal_to(code(p)),
    "DataStream.distinct key": lambda g, p: g.stream.distinct(code(p)),
    "DataStream.partition_by_range key_selector": lambda g, p: _later(g.stream.partition_by_range(code(p)), "map", str),
    "CrossedStreams.apply function": lambda g, p: g.stream.cross(g.stream).apply(code(p)),
    **{
        f"{'Keyed' if keyed else ''}PartitionWindowedStream.{method} {parameter}": (
            lambda g, p, keyed=keyed, method=method, given=given: getattr(
                (g.keyed if keyed else g.stream).full_window_partition(), method
            )(given(p))
        )
        for keyed in (False, True)
        for method, parameter, given in (
            ("map_partition", "func", code),
            ("sort_partition", "key_selector", lambda p: lambda value: p),
            ("reduce", "reduce_function", code),
            ("aggregate", "aggregate_function", lambda p: holding(Sums(), p)),
        )
    },
    "_WithWindow.trigger trigger": lambda g, p: _later(g.join_windowed().trigger(trigger(p)), "apply", code(None)),
    "_WithWindow.evictor evictor": lambda g, p: _later(
        g.join_windowed().evictor(holding(CountEvictor.of(1), p)), "apply", code(None)
    ),
    "IntervalJoined.process process_join_function": lambda g, p: (
        g.keyed.interval_join(g.keyed).between(0, 1).process(code(p))
    ),
    **{
        f"AsyncDataStream.{name} async_function": lambda g, p, name=name: getattr(AsyncDataStream, name)(
            g.stream, holding(Ask(), p), 1, *([retries(None)] if "retry" in name else [])
        )
        for name in ("ordered_wait", "ordered_wait_with_retry", "unordered_wait", "unordered_wait_with_retry")
    },
    **{
        f"AsyncDataStream.{name} async_retry_strategy": lambda g, p, name=name: getattr(AsyncDataStream, name)(
            g.stream, Ask(), 1, retries(p)
        )
        for name in ("ordered_wait_with_retry", "unordered_wait_with_retry")
    },
}
BY_ANOTHER = {"StreamExecutionEnvironment.from_data_frame watermark_strategy": "from_source"}
"""What passes its argument on to another method of the API. It takes a DataFrame, for which Spark has to run."""


def _last(one: Any, finish: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: finish(one)


def _later(one: Any, method: str, *arguments: Any) -> Callable[[], Any]:
    return lambda: getattr(one, method)(*arguments)


def is_of(kind: type, module: ModuleType) -> bool:
    return inspect.getsourcefile(kind) == module.__file__


def _parameters() -> Iterator[str]:
    """All of the API's that may take code or objects of the user's."""
    modules = (broadcast_streams, connected_streams, interval_join, iterative_stream, joined_streams, keyed_stream)
    kinds = [AsyncDataStream, DataStream, StreamExecutionEnvironment]
    for module in (*modules, bounded, partition_windowed_stream, windowed_stream):
        classes = [one for one in vars(module).values() if inspect.isclass(one)]
        kinds += [one for one in classes if one.__module__.startswith("penstock") and is_of(one, module)]
    for kind in dict.fromkeys(kinds):
        for name, method in vars(kind).items():
            function = getattr(method, "__func__", method)
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if kind is StreamExecutionEnvironment and "DataStream" not in str(
                inspect.signature(function).return_annotation
            ):
                continue
            for parameter in list(inspect.signature(function).parameters):
                if parameter not in PLAIN | {"self"}:
                    yield f"{kind.__name__}.{name} {parameter}"


def given_streams() -> Given:
    env = StreamExecutionEnvironment()
    stream = env.from_collection(["a"])
    return Given(env, stream, stream.key_by(str))


def test_all_parameters_are_here() -> None:
    """A new method of the API would capture its argument late, and lambdas in a loop would be the last one."""
    assert set(_parameters()) - CALLS.keys() - BY_ANOTHER.keys() == set()


@pytest.mark.parametrize("batched", [False, True], ids=["streaming", "batch"])
@pytest.mark.parametrize("name", CALLS)
def test_an_argument_is_what_it_is_in_the_call(name: str, batched: bool) -> None:
    """An object that a program sets again for its next call would change what it has given before."""
    given, part = given_streams(), Part()
    made = CALLS[name](given, part)
    part.says = "as set later"
    stream = made() if callable(made) else made
    if isinstance(stream, DataStream):
        stream.print()
    Part.arrived.clear()
    for level in JobGraph(
        "job", StreamGraph(given.env._sinks, GraphSettings()), BATCH if batched else STREAMING
    ).levels("job-1"):
        load_level(dump_level(level))
    assert set(Part.arrived) == {"as given"}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_can_not_be_pickled_is_told_by_the_call(name: str) -> None:
    """The error would come at execute(), with an operator and without the line that gave it."""
    method, parameter = name.rpartition(".")[2].split()
    with pytest.raises(ProgramError) as raised:
        CALLS[name](given_streams(), Open())
    text = str(raised.value)
    assert text.startswith(f"{method} at {__file__}, line ") and f": the argument {parameter} can't be pickled" in text
    assert "TypeError: it is open" in text
