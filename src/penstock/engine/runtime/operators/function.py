"""A user's function as operators use it: a callable, the name of its method in errors, and its life cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import TYPE_CHECKING, Any

from penstock.api.functions.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from penstock.api.functions.function import Function
from penstock.api.state.state import KeyedStateStore, OperatorStateStore
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.operators.pickled import Pickled
from penstock.engine.runtime.task.context import StreamingRuntimeContext
from penstock.engine.runtime.task.metrics import OperatorMetricGroup

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext


class StateInitializationContext(FunctionInitializationContext):
    """The argument of `initialize_state`, which is called before `open`."""

    def __init__(self, operator_states: OperatorStateStore, keyed: KeyedStateStore | None, is_restored: bool) -> None:
        self._operator_states = operator_states
        self._keyed = keyed
        self._is_restored = is_restored

    def is_restored(self) -> bool:
        return self._is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator_states

    def get_keyed_state_store(self) -> KeyedStateStore:
        if self._keyed is None:
            raise ProgramError("keyed state needs a keyed stream: call key_by before")
        return self._keyed


class StateSnapshotContext(FunctionSnapshotContext):
    """The argument of `snapshot_state`, which is called when the barriers have arrived."""

    def __init__(self, checkpoint_id: int, checkpoint_timestamp: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._checkpoint_timestamp = checkpoint_timestamp

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._checkpoint_timestamp


class CapturedCall:
    """A key selector or partitioner, pickled for workers when the program passed it to the API.

    In the driver it calls the user's own callable. All operators that select keys for one call share one object.
    """

    def __init__(self, call: Callable[..., Any], pickled: Pickled) -> None:
        self.call = call
        self.pickled = pickled

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.pickled.__reduce__()


class UserFunction:
    """A plain callable, or an object of a Function class, whose `method` is called for each record."""

    def __init__(self, function: Any, method: str) -> None:
        self.instance = function
        # A callable without `open` is called itself, even if it has such a method: numpy's ufuncs have `reduce`.
        self.is_plain = callable(function) and not (hasattr(function, "open") and hasattr(function, method))
        self.method = _name_of(function) if self.is_plain else f"{type(function).__name__}.{method}"
        self._method = method
        self.metrics: OperatorMetricGroup | None = None

    @property
    def users_object(self) -> Any:
        """The object that the user knows, not our adapter of it."""
        return getattr(self.instance, "adapted", self.instance)

    @property
    def has_open(self) -> bool:
        """Whether the user's class defines `open`, where it may request keyed state."""
        opener = getattr(type(self.instance), "open", None)
        return not self.is_plain and opener is not None and opener is not Function.open

    @property
    def has_life_cycle(self) -> bool:
        """Whether the user's class defines `open`, `close` or `initialize_state`, which a task calls."""
        closer = None if self.is_plain else getattr(type(self.instance), "close", None)
        return self.has_open or self.keeps_operator_state or closer not in (None, Function.close)

    @property
    def keeps_operator_state(self) -> bool:
        """Whether it has `initialize_state`, which reads the state that its last `snapshot_state` has written."""
        return not self.is_plain and getattr(self.instance, "initialize_state", None) is not None

    @property
    def call(self) -> Callable[..., Any]:
        """The callable for records."""
        return self.instance if self.is_plain else getattr(self.instance, self._method)  # type: ignore[no-any-return]

    @classmethod
    def of_object(cls, instance: Any, method: str) -> UserFunction:
        """Create the function for a method of an object, even if the object itself is callable."""
        function = cls(instance, method)
        function.is_plain = False
        function.method = function.named(method)
        return function

    def named(self, method: str) -> str:
        """Return the name of another method of the same object, for errors."""
        return f"{type(self.users_object).__name__}.{method}"

    def callable_named(self, method: str) -> Callable[..., Any] | None:
        """Return the user's callable that errors name `method`, if it belongs to this object."""
        if self.is_plain:
            return self.instance if method == self.method else None
        name = method.rpartition(".")[2]
        return getattr(self.users_object, name, None) if method == self.named(name) else None

    def open(self, context: OperatorContext, state: KeyedStateStore | None = None) -> None:
        """Call the user's `open`, if there is one."""
        # A function that replaces another one continues its counters.
        self.metrics = self.metrics or OperatorMetricGroup(context.counters)
        context.functions.append(self)
        self._call_if_there(
            context,
            "initialize_state",
            lambda: StateInitializationContext(context.operator_states, state, context.operator_states.is_restored),
        )
        opener = None if self.is_plain else getattr(self.instance, "open", None)
        if opener is not None:
            try:
                opener(StreamingRuntimeContext(context.info, self.metrics, state, context.supersteps))
            except RAISED as error:
                raise context.user_error(error, self.named("open")) from error

    def snapshot_state(self, context: OperatorContext, checkpoint_id: int, timestamp_ms: int) -> None:
        """Call the user's `snapshot_state`, if there is one."""
        self._call_if_there(context, "snapshot_state", lambda: StateSnapshotContext(checkpoint_id, timestamp_ms))

    def checkpoint_complete(self, context: OperatorContext, checkpoint_id: int) -> None:
        """Call the user's `notify_checkpoint_complete`, if there is one."""
        self._call_if_there(context, "notify_checkpoint_complete", lambda: checkpoint_id)

    def checkpoint_aborted(self, context: OperatorContext, checkpoint_id: int) -> None:
        """Call the user's `notify_checkpoint_aborted`, if there is one."""
        self._call_if_there(context, "notify_checkpoint_aborted", lambda: checkpoint_id)

    def _call_if_there(self, context: OperatorContext, method: str, argument: Callable[[], Any]) -> None:
        call = None if self.is_plain else getattr(self.instance, method, None)
        if call is not None:
            try:
                call(argument())
            except RAISED as error:
                raise context.user_error(error, self.named(method)) from error

    def close(self, context: OperatorContext) -> None:
        """Call the user's `close`, if there is one."""
        closer = None if self.is_plain else getattr(self.instance, "close", None)
        if closer is not None:
            try:
                closer()
            except RAISED as error:
                raise context.user_error(error, self.named("close")) from error


def functions_behind(calls: Iterable[Callable[..., Any]]) -> list[UserFunction]:
    """Return the key selectors and partitioners whose methods these callables are, each once: they may have `open`."""
    found: dict[int, UserFunction] = {}
    for call in calls:
        for selector in getattr(call, "selectors", (call,)):
            method = selector.call if isinstance(selector, CapturedCall) else selector
            # Only objects with that method, not every object: `len` belongs to a module, which has an `open`.
            if isinstance(method, MethodType) and method.__name__ in ("get_key", "partition"):
                found[id(method.__self__)] = UserFunction.of_object(method.__self__, method.__name__)
    return list(found.values())


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
