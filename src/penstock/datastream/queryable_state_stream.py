"""The result of `KeyedStream.as_queryable_state`, and its function. Source: Flink docs, "Queryable State"."""

from __future__ import annotations

from typing import Any

from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor


class QueryableStateStream:
    """The end of a stream whose newest or reduced value can be queried by key."""

    def __init__(self, queryable_state_name: str, state_descriptor: ValueStateDescriptor | ReducingStateDescriptor):
        self._queryable_state_name = queryable_state_name
        self._state_descriptor = state_descriptor

    def get_queryable_state_name(self) -> str:
        """Return the name for queries."""
        return self._queryable_state_name

    def get_state_descriptor(self) -> ValueStateDescriptor | ReducingStateDescriptor:
        """Return the descriptor of the state with the values."""
        return self._state_descriptor


class QueryableUpdate(KeyedProcessFunction[Any, Any, Any]):
    """Stores the newest value of each key, or the reduced value of all. It emits nothing."""

    def __init__(self, descriptor: ValueStateDescriptor | ReducingStateDescriptor) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the state."""
        if isinstance(self._descriptor, ReducingStateDescriptor):
            self._put = runtime_context.get_reducing_state(self._descriptor).add
        else:
            self._put = runtime_context.get_state(self._descriptor).update

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Store the value."""
        self._put(value)
