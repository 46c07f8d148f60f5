"""BroadcastStream: a stream that every subtask receives, with broadcast states, and its connection to other streams.

Source: Flink docs, "The Broadcast State Pattern".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.typeinfo import TypeInformation
from penstock.datastream.arguments import as_two_functions, common_output_type
from penstock.datastream.connected_streams import two_input_stream
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.next_call import Unfinished
from penstock.datastream.state import MapStateDescriptor
from penstock.engine.plan.call_capture import captured, captured_parts
from penstock.engine.runtime.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator

T1 = TypeVar("T1")
T2 = TypeVar("T2")
R = TypeVar("R")

_METHODS = ("process_element", "process_broadcast_element")


class BroadcastStream(Unfinished, Generic[T2]):
    """A stream whose records go to all subtasks, and its broadcast states. Created by `broadcast`."""

    next_call = "other_stream.connect(this).process(function)"

    def __init__(self, input_stream: DataStream[T2], broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)
        self.captured = captured_parts(broadcast_state_descriptors)
        """The descriptors as they were at the call: later changes have no effect."""
        names = [descriptor.get_name() for descriptor in broadcast_state_descriptors]
        if len(set(names)) < len(names):
            raise ValueError(f"broadcast states need different names, got {names}")


class BroadcastConnectedStream(Unfinished, Generic[T1, T2]):
    """A stream, keyed or not, connected to a broadcast stream. Created by `connect`."""

    next_call = "process(function)"

    def __init__(self, non_broadcast_stream: DataStream[T1], broadcast_stream: BroadcastStream[T2]) -> None:
        check_one_environment("connect", non_broadcast_stream, broadcast_stream.input_stream)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_stream.broadcast_state_descriptors

    def process(
        self,
        func: BroadcastProcessFunction[T1, T2, R] | KeyedBroadcastProcessFunction[Any, T1, T2, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Apply a function to both streams: any number of results, and side outputs with `yield tag, value`.

        A keyed stream needs a KeyedBroadcastProcessFunction, other streams a BroadcastProcessFunction. In batched mode
        all broadcast records are processed first. Event time is the minimum over both streams: a broadcast stream
        without watermarks holds it back. Raises TypeError for the wrong kind of function.
        """
        stream = self.non_broadcast_stream
        keyed = isinstance(stream, KeyedStream)
        interface, other = (
            (KeyedBroadcastProcessFunction, BroadcastProcessFunction)
            if keyed
            else (BroadcastProcessFunction, KeyedBroadcastProcessFunction)
        )
        function, second = as_two_functions(func, _METHODS, interface)
        if isinstance(func, other):
            raise TypeError(
                f"the stream has {'a' if keyed else 'no'} key, so process needs a {interface.__name__}; "
                f"{type(func).__name__} is a {other.__name__}"
            )
        declared = common_output_type(func, _METHODS, output_type, elements=True)
        descriptors = self.broadcast_state_descriptors
        operator: Operator
        if isinstance(stream, KeyedStream):
            name = "Co-Process-Broadcast-Keyed"
            operator = KeyedBroadcastProcessOperator(
                name=name, key_selector=stream.key_selector, descriptors=descriptors, function=function, second=second
            )
        else:
            name = "Co-Process-Broadcast"
            operator = BroadcastProcessOperator(name, descriptors, function, second)
        operator.captured = captured(operator, self.broadcast_stream.captured)
        return two_input_stream(
            name=name,
            stream1=stream,
            stream2=self.broadcast_stream.input_stream,
            operator=operator,
            output_type=declared,
        )
