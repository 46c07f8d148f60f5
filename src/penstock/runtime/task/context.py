"""What an operator, and the user's function in it, may know and ask of the subtask in which it runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.errors import ProgramError, UserFunctionError
from penstock.runtime.task.budget import Budget
from penstock.runtime.task.counters import OperatorCounters
from penstock.state.backends.rocksdb.store import Stores
from penstock.state.key_groups import KeyGroups
from penstock.state.operator_state import HeapOperatorStates

if TYPE_CHECKING:
    from penstock.runtime.operators.function import UserFunction
    from penstock.runtime.task.metrics import MetricGroup
    from penstock.state.interfaces import (
        AggregatingState,
        KeyedStateStore,
        ListState,
        MapState,
        ReducingState,
        ValueState,
    )

_SHOWN_CHARACTERS = 200


class SubtaskInfo(msgspec.Struct, frozen=True):
    """Which subtask this is. `attempt` counts the runs of the job, from 0; `run` is unique for each start of a task."""

    job_id: str
    vertex_id: int
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int = 0
    run: str = "0"
    batched: bool = False
    job_parameters: dict[str, str] = {}
    checkpointing: bool = False

    def __str__(self) -> str:
        return f"{self.task_name} ({self.subtask + 1}/{self.parallelism})"


class OperatorContext:
    """Handed to an operator by `setup`: who it is, what time it is, how much it may do, what it counts."""

    def __init__(
        self,
        info: SubtaskInfo,
        operator_name: str,
        uid: str,
        now_ms: Callable[[], int],
        budget: Budget,
        counters: OperatorCounters,
        key_groups: KeyGroups,
        request_split: Callable[[], None] = lambda: None,
        deliver_result: Callable[[int, list[Any]], None] | None = None,
        stores: Stores | None = None,
    ) -> None:
        self.stores = stores
        """Key-value stores for keyed state; None: it is kept on the heap."""
        self.info = info
        self.operator_name = operator_name
        self.uid = uid
        self.now_ms = now_ms
        self.budget = budget
        self.counters = counters
        self.key_groups = key_groups
        self.request_split = request_split
        self.deliver_result = deliver_result
        self.operator_states = HeapOperatorStates()
        self.functions: list[UserFunction] = []
        """The user's functions that are open: they may keep operator state, and hear of checkpoints."""

    def user_error(
        self,
        error: Exception,
        method: str,
        value: Any = msgspec.UNSET,
        key: Any = msgspec.UNSET,
        timestamp: int | None = None,
    ) -> UserFunctionError:
        """`error`, raised by the user's `method`, as the message that the user is to read.

        Frames of penstock above the user's own code are left out of the traceback.
        """
        if isinstance(error, UserFunctionError):
            return error
        where = f"subtask {self.info.subtask + 1} of {self.info.parallelism}"
        lines = [f"operator '{self.operator_name}'{self._uid()}, {where}, in {method}"]
        about = []
        if value is not msgspec.UNSET:
            about.append(f"value {shortened(value)}")
        if key is not msgspec.UNSET:
            about.append(f"key {shortened(key)}")
        if timestamp is not None:
            about.append(f"timestamp {timestamp}")
        if about:
            lines.append("  " + "   ".join(about))
        lines.extend("  " + line for line in user_traceback(error).splitlines())
        return UserFunctionError("\n".join(lines))

    def _uid(self) -> str:
        return f" (uid {self.uid})" if self.uid else ""


def shortened(value: Any, characters: int = _SHOWN_CHARACTERS) -> str:
    """The repr of a value, cut in the middle; a repr that itself raises is told, not passed on."""
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if len(text) <= characters:
        return text
    return f"{text[: characters * 2 // 3]} … {text[-characters // 4 :]}"


def user_traceback(error: BaseException) -> str:
    """The traceback from the user's code on, as Python prints it."""
    summary = traceback.TracebackException.from_exception(error)
    stack = summary.stack
    # Only what leads to the user's code goes. What the user's code called of ours stays: it says what was asked for.
    first = next((index for index, frame in enumerate(stack) if not _is_ours(frame.filename)), 0)
    if first:
        summary.stack = traceback.StackSummary.from_list(stack[first:])
    return "".join(summary.format()).rstrip()


_PACKAGE_DIRECTORY = __file__.rsplit("runtime", 1)[0]


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE_DIRECTORY) and "/demos/" not in filename


class RuntimeContext:
    """What `open(runtime_context)` of a user's function is given."""

    def __init__(self, info: SubtaskInfo, metrics: MetricGroup, state: KeyedStateStore | None = None) -> None:
        self._info = info
        self._metrics = metrics
        self._state = state

    def get_task_name(self) -> str:
        """Name of the task: of its operators, joined by arrows."""
        return self._info.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """Parallelism of the operator."""
        return self._info.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Number of key groups: how far the operator can be scaled out."""
        return self._info.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, from 0."""
        return self._info.subtask

    def get_attempt_number(self) -> int:
        """How often the job was started again, from 0."""
        return self._info.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Task name with index and parallelism, as logs show it: 'name (1/4)'."""
        return str(self._info)

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A job parameter set by `env.get_config().set_global_job_parameters`."""
        return self._info.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """The group in which the function registers its own counters, gauges and meters."""
        return self._metrics

    def get_state(self, state_descriptor: Any) -> ValueState[Any]:
        """A value per key. Raises ProgramError if the stream has no key."""
        return self._keyed().get_state(state_descriptor)

    def get_list_state(self, state_descriptor: Any) -> ListState[Any]:
        """A list per key. Raises ProgramError if the stream has no key."""
        return self._keyed().get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: Any) -> MapState[Any, Any]:
        """A map per key. Raises ProgramError if the stream has no key."""
        return self._keyed().get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: Any) -> ReducingState[Any]:
        """A value per key into which others are reduced. Raises ProgramError if the stream has no key."""
        return self._keyed().get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: Any) -> AggregatingState[Any, Any]:
        """An accumulator per key. Raises ProgramError if the stream has no key."""
        return self._keyed().get_aggregating_state(state_descriptor)

    def _keyed(self) -> KeyedStateStore:
        if self._state is None:
            raise ProgramError(
                f"'{self._info.task_name}' asks for keyed state. Only process, map, flat_map, filter and window "
                "functions have it, and only after key_by"
            )
        return self._state
