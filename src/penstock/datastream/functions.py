"""The interfaces of functions that users implement, under PyFlink's module path.

A plain callable or generator is accepted as well, wherever no `open`, `close` or `on_timer` is needed. Functions that
may give several results return an iterable, usually by `yield`. A result `tag, value` with an OutputTag goes to that
side output, from all functions but filters and those that reduce or aggregate. Source: Flink docs, "User-Defined
Functions" and "Process Function".
"""

from penstock.api.functions.asynchronous import AsyncFunction, AsyncFunctionDescriptor
from penstock.api.functions.basic import IN as IN
from penstock.api.functions.basic import IN1 as IN1
from penstock.api.functions.basic import IN2 as IN2
from penstock.api.functions.basic import KEY as KEY
from penstock.api.functions.basic import OUT as OUT
from penstock.api.functions.basic import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
    SinkFunction,
    SourceFunction,
)
from penstock.api.functions.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from penstock.api.functions.function import Function
from penstock.api.functions.join import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from penstock.api.functions.process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.api.functions.retry_strategies import AsyncRetryPredicate, AsyncRetryStrategy
from penstock.api.functions.window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.api.functions.window import W as W
from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.state import KeyedStateStore
from penstock.common.doors.door import publish
from penstock.datastream.time_domain import TimeDomain
from penstock.datastream.timerservice import TimerService

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimeDomain",
    "TimerService",
    "WindowFunction",
]

publish(__name__, __all__)
