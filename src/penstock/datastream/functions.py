"""The interfaces of functions that users implement, at PyFlink's module path.

A plain callable or generator is accepted as well if `open`, `close` and `on_timer` are not needed. Functions with any
number of results return an iterable, usually by `yield`. A result `tag, value` with an OutputTag goes to that side
output; filters and functions that reduce or aggregate have no side outputs. Source: Flink docs, "User-Defined
Functions" and "Process Function".
"""

from penstock.api.functions.array_aggregates import ArrayAggregateFunction
from penstock.api.functions.asynchronous import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from penstock.api.functions.basic import IN as IN
from penstock.api.functions.basic import IN1 as IN1
from penstock.api.functions.basic import IN2 as IN2
from penstock.api.functions.basic import KEY as KEY
from penstock.api.functions.basic import OUT as OUT
from penstock.api.functions.basic import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CrossFunction,
    FilterBatchesFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapBatchesFunction,
    MapFunction,
    MapPartitionFunction,
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
from penstock.api.functions.failed_record import FailedRecord
from penstock.api.functions.function import Function
from penstock.api.functions.join import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from penstock.api.functions.process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.api.functions.window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.api.functions.window import W as W
from penstock.api.order import Order
from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.state import KeyedStateStore
from penstock.common.doors.door import publish
from penstock.datastream.time_domain import TimeDomain
from penstock.datastream.timerservice import TimerService

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "ArrayAggregateFunction",
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
    "CrossFunction",
    "FailedRecord",
    "FilterBatchesFunction",
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
    "MapBatchesFunction",
    "MapFunction",
    "MapPartitionFunction",
    "NullByteKeySelector",
    "Order",
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
