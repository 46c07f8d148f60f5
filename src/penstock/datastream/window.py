"""Windows, assigners, triggers and evictors, at PyFlink's module path. Source: Flink docs, "Windows"."""

from penstock.api.functions.basic import IN as IN
from penstock.api.functions.basic import KEY as KEY
from penstock.api.functions.basic import OUT as OUT
from penstock.api.windows.assigner import MergingWindowAssigner, WindowAssigner
from penstock.api.windows.assigner import T as T
from penstock.api.windows.assigner import W as W
from penstock.api.windows.assigners import (
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.api.windows.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.api.windows.cumulative_assigners import CumulativeEventTimeWindows, CumulativeProcessingTimeWindows
from penstock.api.windows.delta_function import DeltaFunction
from penstock.api.windows.evictor import Evictor, TimestampedValue
from penstock.api.windows.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from penstock.api.windows.serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)
from penstock.api.windows.session_assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from penstock.api.windows.trigger import Trigger, TriggerResult
from penstock.api.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from penstock.api.windows.window import CountWindow, GlobalWindow, TimeWindow, Window
from penstock.common.doors.door import publish

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "CumulativeEventTimeWindows",
    "CumulativeProcessingTimeWindows",
    "DeltaEvictor",
    "DeltaFunction",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]

publish(__name__, __all__)
