"""The DataStream API, with PyFlink's names."""

# The imports of metrics, state and window publish classes: paths in pickles must not depend on what a program imports.
from penstock import metrics as metrics
from penstock.common.doors import pyflink_names
from penstock.common.job_client import JobClient
from penstock.datastream import state as state
from penstock.datastream import window as window
from penstock.datastream.async_data_stream import AsyncDataStream
from penstock.datastream.broadcast_streams import BroadcastConnectedStream, BroadcastStream
from penstock.datastream.cached_stream import CachedDataStream
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointed_functions import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.collected import CloseableIterator
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.data_stream import DataStream, DataStreamSink
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.datastream.functions import (
    AggregateFunction,
    ArrayAggregateFunction,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    CrossFunction,
    FailedRecord,
    FilterBatchesFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    Function,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapBatchesFunction,
    MapFunction,
    MapPartitionFunction,
    Order,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    WindowFunction,
)
from penstock.datastream.iterative_stream import ConnectedIterativeStreams, IterativeStream
from penstock.datastream.joined_streams import CoGroupedStreams, JoinedStreams
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.partition_windowed_stream import KeyedPartitionWindowedStream, PartitionWindowedStream
from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.datastream.time_domain import TimeDomain
from penstock.datastream.timerservice import TimerService
from penstock.datastream.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)
from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "ArrayAggregateFunction",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedIterativeStreams",
    "ConnectedStreams",
    "CountWindow",
    "CrossFunction",
    "DataStream",
    "DataStreamSink",
    "ExternalizedCheckpointRetention",
    "FailedRecord",
    "FilterBatchesFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GlobalWindow",
    "IterativeStream",
    "JobClient",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedPartitionWindowedStream",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapBatchesFunction",
    "MapFunction",
    "MapPartitionFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "Order",
    "OutputTag",
    "PartitionWindowedStream",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

pyflink_names.resolve_missing_names(__name__)
