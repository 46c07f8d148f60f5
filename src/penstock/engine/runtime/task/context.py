"""The context of a subtask, for its operators and for the users' functions in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from penstock.api.functions.aggregator import Aggregator
from penstock.api.metrics import MetricGroup
from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.state import AggregatingState, KeyedStateStore, ListState, MapState, ReducingState, ValueState
from penstock.common.errors import PenstockError, ProgramError, UserFunctionError, class_names
from penstock.common.errors.user_traceback import is_about_a_call, user_traceback, without_our_frames
from penstock.common.files.cached_files import DistributedCache, provided
from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import PASSED_ON, RAISED, MethodError
from penstock.engine.runtime.execution_mode import STREAMING, ExecutionMode
from penstock.engine.runtime.network.set_aside import SpillFile
from penstock.engine.runtime.task.async_calls import AsyncCalls, no_event_loop
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.engine.state.backends.state_backend import StateBackend
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.memory_budget import MemoryAccount, MemoryBudget
from penstock.engine.state.operator_state import HeapOperatorStates

_SHOWN_CHARACTERS = 200
_NO_TIMESTAMP = (
    "  The record has no timestamp: its timestamp() is None. Give the source, or assign_timestamps_and_watermarks, a "
    "strategy with a timestamp assigner"
)


class SubtaskInfo(msgspec.Struct, frozen=True):
    """Describes a subtask. `attempt` counts from 0; `run` is unique for each start of a task."""

    job_id: str
    vertex_id: int
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int = 0
    run: str = "0"
    mode: ExecutionMode = STREAMING
    job_parameters: dict[str, str] = {}
    checkpointing: bool = False
    epoch: int = 1

    def __str__(self) -> str:
        return f"{self.task_name} ({self.subtask + 1}/{self.parallelism})"


class CheckpointedFunction(Protocol):
    """A user's function as snapshots see it. `operators/function.py` has the implementation."""

    def snapshot_state(self, context: OperatorContext, checkpoint_id: int, timestamp_ms: int) -> None:
        """Update operator state before a snapshot."""

    def callable_named(self, method: str) -> Callable[..., Any] | None:
        """Return the callable that errors name `method`; None if it belongs to another function."""

    def checkpoint_complete(self, context: OperatorContext, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint is complete."""

    def checkpoint_aborted(self, context: OperatorContext, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint was aborted."""


@dataclasses.dataclass
class TaskContext:
    """The services of a task for all of its operators."""

    info: SubtaskInfo
    now_ms: Callable[[], int]
    budget: Budget
    key_groups: KeyGroups
    stores: StateBackend | None = None
    """Creates backends with stores for keyed state; None: keyed state is on the heap."""
    unblocked_ms: Callable[[], int] | None = None
    """A clock in milliseconds that stops while the task can't emit; only differences have a meaning."""
    request_split: Callable[[], None] = lambda: None
    deliver_result: Callable[[int, list[Any]], None] | None = None
    report_watermark: Callable[[str, int], None] = lambda group, watermark: None
    """Reports the watermark of a source in an alignment group to the JobMaster: (group, ms)."""
    notify_available: Callable[[], None] = lambda: None
    """Signals that a reader has records. Any thread may call it."""
    async_calls: AsyncCalls = dataclasses.field(default_factory=lambda: AsyncCalls(no_event_loop))
    """Calls of asynchronous functions, which run concurrently with the task."""
    memory: MemoryBudget = dataclasses.field(default_factory=MemoryBudget)
    """The memory of the slot."""
    supersteps: Supersteps | None = None
    """The superstep that runs, in a task of a structured iteration."""
    open_spill: Callable[[], SpillFile] | None = None
    """Opens scratch space on local disk; None: all records stay in memory."""
    sorted_inputs_bytes: int = 128 << 20
    """The memory for records that are gathered or sorted before they are processed, by estimate."""


class OperatorContext:
    """The argument of an operator's `setup`: the services of its task, its name, its counters, its operator state.

    `state_id` names the operator in snapshots, with or without a uid.
    """

    def __init__(
        self, task: TaskContext, operator_name: str, *, uid: str, counters: OperatorCounters, state_id: str = ""
    ) -> None:
        # Attributes of their own: operators read them for each chunk.
        self.info = info = task.info
        self.mode = info.mode
        self.now_ms = task.now_ms
        self.unblocked_ms = task.unblocked_ms or task.now_ms
        self.budget = task.budget
        self.key_groups = task.key_groups
        self.stores = task.stores
        self.request_split = task.request_split
        self.deliver_result = task.deliver_result
        self.report_watermark = task.report_watermark
        self.notify_available = task.notify_available
        self.async_calls = task.async_calls
        self._memory = task.memory
        self.supersteps = task.supersteps
        self.open_spill = task.open_spill
        self.sorted_inputs_bytes = task.sorted_inputs_bytes
        self.operator_name = operator_name
        self.uid = uid
        self.counters = counters
        self.state_id = state_id
        self.operator_states = HeapOperatorStates(info.subtask)
        self.functions: list[CheckpointedFunction] = []
        """The open functions of the user: they may keep operator state, and are notified of checkpoints."""

    def user_error(
        self,
        error: BaseException,
        method: str,
        value: Any = msgspec.UNSET,
        key: Any = msgspec.UNSET,
        timestamp: int | None = None,
    ) -> UserFunctionError:
        """Return an error for the user from `error`, which the user's `method` raised.

        It names operator, subtask, value and key, and has the traceback without penstock's frames above the user's own
        code. Raises `error` again if it is not the function's: see PASSED_ON.
        """
        # The operator that raised it has explained it: the operators that it passes on its way up add nothing.
        if isinstance(error, UserFunctionError):
            return error
        if isinstance(error, MethodError):
            value = value if error.value is None else error.value
            method, error = error.method, error.raised
        where = f"{self._where()}, in {method}"
        if isinstance(error, PASSED_ON):
            # The host may still find that the function raised it: the note says where.
            error.add_note(where)
            raise error
        lines = [where]
        about = []
        if value is not msgspec.UNSET:
            about.append(f"value {shortened(value)}")
        if key is not msgspec.UNSET:
            about.append(f"key {shortened(key)}")
        if timestamp is not None:
            about.append(f"timestamp {timestamp}")
        if about:
            lines.append("  " + "   ".join(about))
        called = next((call for one in self.functions if (call := one.callable_named(method)) is not None), None)
        if isinstance(error, PenstockError):
            # A connector's error, for example: its message says what to do.
            without_our_frames(error)
        trace = user_traceback(error, called)
        lines.extend("  " + line for line in trace.splitlines())
        if timestamp is None and isinstance(error, TypeError) and "NoneType" in str(error) and ".timestamp()" in trace:
            lines.append(_NO_TIMESTAMP)
        if called is not None and is_about_a_call(error) and str(error).endswith("is not iterable"):
            lines.append(f"  {method} emits by `yield value`, or returns a list of values; without one, None")
        return UserFunctionError("\n".join(lines), class_names(error))

    def pickling_error(self, error: BaseException, what: str, values: Iterable[Any]) -> UserFunctionError:
        """Return an error for the user from `error`, raised by pickling `values`. It names the first bad value."""
        for value in values:
            try:
                dumps(value)
            except RAISED as value_error:
                return self.user_error(without_our_frames(value_error), f"{what}: the value can't be pickled", value)
        return self.user_error(error, what)

    def deliver(self, sink_id: int, what: str, values: list[Any]) -> None:
        """Send values to the driver. Raises UserFunctionError, with the value, if one can't be pickled."""
        assert self.deliver_result is not None
        try:
            self.deliver_result(sink_id, values)
        except RAISED as error:
            raise self.pickling_error(error, what, values) from error

    def memory_account(
        self, what: str, keys: Callable[[], int] | None = None, spill: Callable[[], None] | None = None
    ) -> MemoryAccount:
        """Return an account in the slot's budget for `what` the operator holds: see `MemoryBudget.account`."""
        return self._memory.account(self._where(), what, vertex=self.info.vertex_id, keys=keys, spill=spill)

    def _where(self) -> str:
        subtask = f"subtask {self.info.subtask + 1} of {self.info.parallelism}"
        return f"operator '{self.operator_name}'{self._uid()}, {subtask}"

    def _uid(self) -> str:
        return f" (uid {self.uid})" if self.uid else ""


def shortened(value: Any, characters: int = _SHOWN_CHARACTERS) -> str:
    """Return the repr of a value, cut in the middle if it is long. If the repr raises, the result says so."""
    try:
        text = repr(value)
    except RAISED as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if len(text) <= characters:
        return text
    return f"{text[: characters * 2 // 3]} … {text[-characters // 4 :]}"


class StreamingRuntimeContext(RuntimeContext):
    """The runtime context of a function in one subtask."""

    def __init__(
        self,
        info: SubtaskInfo,
        metrics: MetricGroup,
        state: KeyedStateStore | None = None,
        supersteps: Supersteps | None = None,
    ) -> None:
        self._info = info
        self._metrics = metrics
        self._state = state
        self._supersteps = supersteps

    def get_task_name(self) -> str:
        return self._info.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._info.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._info.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._info.subtask

    def get_attempt_number(self) -> int:
        return self._info.attempt

    def get_task_name_with_subtasks(self) -> str:
        return str(self._info)

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._info.job_parameters.get(key, default_value)

    def get_distributed_cache(self) -> DistributedCache:
        return provided()

    def get_metrics_group(self) -> MetricGroup:
        return self._metrics

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._keyed().get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._keyed().get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._keyed().get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._keyed().get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._keyed().get_aggregating_state(state_descriptor)

    def get_superstep_number(self) -> int:
        return self._in_iteration().number

    def get_iteration_aggregator(self, name: str) -> Aggregator[Any]:
        return self._in_iteration().aggregator(name)

    def get_previous_iteration_aggregate(self, name: str) -> Any:
        return self._in_iteration().previous_aggregate(name)

    def _in_iteration(self) -> Supersteps:
        if self._supersteps is None:
            raise ProgramError(f"'{self._info.task_name}' is not in the body of a structured iteration")
        return self._supersteps

    def _keyed(self) -> KeyedStateStore:
        if self._state is None:
            raise ProgramError(
                f"'{self._info.task_name}' asks for keyed state. Only process, map, flat_map, filter, reduce and "
                "window functions have it, and only after key_by"
            )
        return self._state
