"""What triggers are given by the window operator: timers and state of the window at hand."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from penstock.api.state.descriptors import (
    WINDOW_PREFIX,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.api.windows.trigger import OnMergeContext
from penstock.common.errors import ProgramError
from penstock.common.time.timestamps import as_timestamp
from penstock.engine.state.backends.ttl_states import TtlState

if TYPE_CHECKING:
    from penstock.api.metrics import MetricGroup
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.windows.windowing import WindowingOperator


class WindowTriggerContext(OnMergeContext):
    """One an operator; `window` says whose timers are meant, key and namespace of the backend whose state."""

    def __init__(self, operator: WindowingOperator, metrics: MetricGroup) -> None:
        self._operator = operator
        self._backend = operator.backend
        self._timers = operator.timers
        self._metrics = metrics
        self._descriptors: dict[str, StateDescriptor] = {}
        self.window: Window | None = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        return self._operator.context.now_ms()

    def get_metric_group(self) -> MetricGroup:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        # When a key ends in batched mode, time is over: a trigger that always waits for the next would never end.
        if not self._operator.ending_key:
            self._timers.processing_time.register(as_timestamp(time), self._backend.key, self.window)

    def register_event_time_timer(self, time: int) -> None:
        if not self._operator.ending_key:
            self._timers.event_time.register(as_timestamp(time), self._backend.key, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.processing_time.delete(as_timestamp(time), self._backend.key, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.event_time.delete(as_timestamp(time), self._backend.key, self.window)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._backend.state(self._own(state_descriptor), namespaced=True)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        descriptor = self._own(state_descriptor)
        state = self._backend.state(descriptor, namespaced=True)
        table = self._backend.layered(f"{WINDOW_PREFIX}{descriptor.get_name()}", namespaced=True)
        key = self._backend.key
        removed = [table.remove((key, window)) for window in self.merged]
        parts = [part for part in removed if part is not None]
        merge = functools.partial(_merged, descriptor)
        if isinstance(state, TtlState):
            state.put_merged((key, self.window), parts, merge)
        elif parts:
            table.put((key, self.window), functools.reduce(merge, parts))

    def _own(self, descriptor: StateDescriptor) -> StateDescriptor:
        """The descriptor under a name that states of the user's window function can't have by chance."""
        name = descriptor.get_name()
        own = self._descriptors.get(name)
        if own is None:
            own = self._descriptors[name] = copy.copy(descriptor)
            own.name = f"(trigger) {name}"
        return own


def _merged(descriptor: StateDescriptor, value: Any, other: Any) -> Any:
    """What two windows held (a value, an accumulator, a list), merged."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return descriptor.get_reduce_function().reduce(value, other)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return descriptor.get_agg_function().merge(value, other)
    if isinstance(descriptor, ListStateDescriptor):
        return [*value, *other]
    raise ProgramError(
        f"the trigger's state '{descriptor.get_name()}' can't be merged: only reducing, aggregating and list state can"
    )
