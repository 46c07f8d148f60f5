"""Functions of a stream and a broadcast stream: every subtask has a complete copy of the broadcast state.

All subtasks receive the records of the broadcast stream, and make the same changes to their copies of the state; the
other stream reads it. Broadcast state is operator state (`engine/state/operator_state.py`): after a rescale each
subtask has all of it. Source: Flink docs, "The Broadcast State Pattern".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.state.descriptors import MapStateDescriptor, StateDescriptor
from penstock.api.state.state import BroadcastState, OperatorStateStore, ReadOnlyBroadcastState
from penstock.common.errors import ProgramError
from penstock.common.functions.result_kinds import check_result_kind
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedContext, KeyedProcessOperator, ProcessOperator
from penstock.engine.runtime.operators.two_inputs import SecondInput
from penstock.engine.state.backends.states import NO_KEY

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.keyed import KeyedTimerService
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class BroadcastStates:
    """The broadcast states of an operator, by the `descriptors` that the program gave to `broadcast`."""

    def __init__(self, descriptors: Sequence[MapStateDescriptor]) -> None:
        self._descriptors = descriptors
        self._states: dict[str, tuple[BroadcastState[Any, Any], ReadOnlyBroadcastState[Any, Any]]] = {}

    def open(self, store: OperatorStateStore) -> None:
        """Get all states: a state that the function never requests would be missing from the next snapshot."""
        for descriptor in self._descriptors:
            state = store.get_broadcast_state(descriptor)
            self._states[descriptor.get_name()] = state, ReadOnlyBroadcast(state)

    def writable(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the state, for reading and writing."""
        return self._of(descriptor)[0]

    def readable(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return the state, for reading."""
        return self._of(descriptor)[1]

    def _of(self, descriptor: MapStateDescriptor) -> tuple[BroadcastState[Any, Any], ReadOnlyBroadcastState[Any, Any]]:
        try:
            return self._states[descriptor.get_name()]
        except KeyError:
            raise ProgramError(
                f"there is no broadcast state '{descriptor.get_name()}', only {', '.join(map(repr, self._states))}: "
                "pass its descriptor to broadcast(...) as well"
            ) from None


class ReadOnlyBroadcast(ReadOnlyBroadcastState[Any, Any]):
    """Broadcast state for the stream that is not broadcast."""

    __slots__ = ("_state",)

    def __init__(self, state: BroadcastState[Any, Any]) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def clear(self) -> None:
        raise ProgramError("broadcast state can only be changed in process_broadcast_element")


class _Context:
    """The times, in all contexts without a key."""

    __slots__ = ("_operator_context", "_states", "current_timestamp")

    def __init__(self, operator_context: OperatorContext, states: BroadcastStates) -> None:
        self._operator_context = operator_context
        self._states = states
        self.current_timestamp: int | None = None

    def timestamp(self) -> int | None:
        """Return the timestamp of the record (ms), or None."""
        return self.current_timestamp

    def current_processing_time(self) -> int:
        """Return the wall clock, in milliseconds since the epoch."""
        return self._operator_context.now_ms()

    def current_watermark(self) -> int:
        """Return the event time of the subtask (ms), over both inputs."""
        return self._operator_context.counters.watermark


class ReadOnlyContext(_Context):
    """The context of `process_element` of a BroadcastProcessFunction."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a broadcast state, for reading. Raises ProgramError if it was not given to `broadcast`."""
        return self._states.readable(state_descriptor)


class WritingContext(_Context):
    """The context of `process_broadcast_element`."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a broadcast state, for reading and writing. Raises ProgramError if it was not given to `broadcast`."""
        return self._states.writable(state_descriptor)


class KeyedWritingContext(WritingContext):
    """The context of `process_broadcast_element` of a KeyedBroadcastProcessFunction."""

    __slots__ = ("_operator",)

    def __init__(
        self, operator: KeyedBroadcastProcessOperator, operator_context: OperatorContext, states: BroadcastStates
    ) -> None:
        super().__init__(operator_context, states)
        self._operator = operator

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Any) -> None:
        """Call `function(key, state)` for each key that has a state of that name."""
        self._operator.apply_to_keyed_state(state_descriptor, getattr(function, "process", function))


class KeyedReadOnlyContext(KeyedContext):
    """The context of `process_element` and `on_timer` of a KeyedBroadcastProcessFunction."""

    __slots__ = ("_states",)

    def __init__(self, backend: Any, timer_service: KeyedTimerService, states: BroadcastStates) -> None:
        super().__init__(backend, timer_service)
        self._states = states

    def current_processing_time(self) -> int:
        """Return the wall clock, in milliseconds since the epoch."""
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        """Return the event time of the subtask (ms), over both inputs."""
        return self._timer_service.current_watermark()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a broadcast state, for reading. Raises ProgramError if it was not given to `broadcast`."""
        return self._states.readable(state_descriptor)


class BroadcastProcessOperator(SecondInput, ProcessOperator):
    """Runs a BroadcastProcessFunction. The second input is the broadcast stream."""

    def __init__(
        self, name: str, descriptors: Sequence[MapStateDescriptor], function: UserFunction, second: UserFunction
    ) -> None:
        super().__init__(name, function)
        self.descriptors = descriptors
        self.second = second

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._states = BroadcastStates(self.descriptors)
        self._read_only = ReadOnlyContext(context, self._states)
        self._writing = WritingContext(context, self._states)

    def open(self) -> None:
        self._states.open(self.context.operator_states)
        super().open()

    def process(self, chunk: Rows) -> bool:
        return self.call_each(chunk, self.function, self._read_only)

    def process_second(self, chunk: Rows) -> bool:
        return self.call_each(chunk, self.second, self._writing)


class KeyedBroadcastProcessOperator(SecondInput, KeyedProcessOperator):
    """Runs a KeyedBroadcastProcessFunction: the first input has a key, state and timers."""

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        descriptors: Sequence[MapStateDescriptor],
        function: UserFunction,
        second: UserFunction,
    ) -> None:
        super().__init__(name, key_selector, function)
        self.descriptors = descriptors
        self.second = second

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._states = BroadcastStates(self.descriptors)
        self._ctx = KeyedReadOnlyContext(self.backend, self.timer_service, self._states)
        self._writing = KeyedWritingContext(self, context, self._states)

    def open(self) -> None:
        self._states.open(self.context.operator_states)
        super().open()

    def process_second(self, chunk: Rows) -> bool:
        return self.call_each(chunk, [NO_KEY] * len(chunk), function=self.second, ctx=self._writing)

    def apply_to_keyed_state(self, descriptor: StateDescriptor, call: Callable[[Any, Any], object]) -> None:
        """Call `call(key, state)` for each key that has a state of that name."""
        check_result_kind(call, "the function given to apply_to_keyed_state")
        backend = self.backend
        state = backend.state(descriptor)
        for key in backend.keys(descriptor):
            backend.key = key
            call(key, state)
        backend.key = NO_KEY
