"""Evaluates a window that fires: emits its contents, or calls the user's window function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.errors import ProgramError
from penstock.common.values.ordered import sort_key
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import FunctionPlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.api.state.state import KeyedStateStore
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.runtime.time.timers import Timers
    from penstock.engine.state.backends.backend import KeyedStateBackend


class Evaluation:
    """Emits the contents: the result of reduce or aggregate without a window function."""

    method = "window"
    emits_contents = True

    def setup(self, context: OperatorContext, backend: KeyedStateBackend, timers: Timers, merging: bool) -> None:
        """Set up the evaluation, once, before `open`."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""

    def close(self, context: OperatorContext) -> None:
        """Close the user's function."""

    def function_places(self) -> Sequence[FunctionPlace]:
        """Return the places of functions; see Operator."""
        return ()

    def functions_replaced(self) -> None:
        """Recompute attributes after functions were replaced; see Operator."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        """Return the results of a window. The key and namespace of the backend are set."""
        return elements

    def clear(self, key: Any, window: Window) -> None:
        """Clear the user's state of a window that has ended."""


class UserEvaluation(Evaluation):
    """Calls a user's function with the key's state. Subclasses define `evaluate`."""

    emits_contents = False

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self.method = function.method

    def setup(self, context: OperatorContext, backend: KeyedStateBackend, timers: Timers, merging: bool) -> None:
        self._backend = backend

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function", has_keyed_state=True),)

    def functions_replaced(self) -> None:
        self.method = self.function.method

    def open(self, context: OperatorContext) -> None:
        self.function.open(context, self._backend.store())

    def close(self, context: OperatorContext) -> None:
        self.function.close(context)


class Apply(UserEvaluation):
    """Calls `apply(key, window, inputs)`."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        return self.function.call(key, window, elements)  # type: ignore[no-any-return]


class ApplyToAll(UserEvaluation):
    """Calls `apply(window, inputs)`."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        return self.function.call(window, elements)  # type: ignore[no-any-return]


class MapPartition(UserEvaluation):
    """Calls `map_partition(elements)`."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        # An iterator, as where the records of a partition exceed memory: functions read it once in either case.
        return self.function.call(iter(elements))  # type: ignore[no-any-return]


class SortPartition(UserEvaluation):
    """Sorts elements by the key that the function selects."""

    def __init__(self, function: UserFunction, descending: bool) -> None:
        super().__init__(function)
        self._descending = descending

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        select = self.function.call
        return sorted(elements, key=lambda element: sort_key(select(element)), reverse=self._descending)


class Process(UserEvaluation):
    """Calls `process(key, context, elements)`, and `clear(context)` when a window has ended."""

    def setup(self, context: OperatorContext, backend: KeyedStateBackend, timers: Timers, merging: bool) -> None:
        super().setup(context, backend, timers, merging)
        self._context = WindowContext(backend, timers, context.now_ms, merging)
        self.functions_replaced()

    def functions_replaced(self) -> None:
        super().functions_replaced()
        self._clear = getattr(self.function.instance, "clear", None)

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        # A context for each firing: a generator may use its context after another window has started to fire.
        return self._call(key, self._context.of(window), elements)

    def _call(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any] | None:
        return self.function.call(key, context, elements)  # type: ignore[no-any-return]

    def clear(self, key: Any, window: Window) -> None:
        if self._clear is not None:
            self._clear(self._context.of(window))


class ProcessAll(Process):
    """Calls `process(context, elements)`, and `clear(context)` when a window has ended."""

    def _call(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any] | None:
        return self.function.call(context, elements)  # type: ignore[no-any-return]


class WindowContext:
    """The context of a ProcessWindowFunction: its window, times (ms), and state of the key in this window or in all."""

    __slots__ = ("_backend", "_merging", "_now_ms", "_timers", "_window")

    def __init__(
        self,
        backend: KeyedStateBackend,
        timers: Timers,
        now_ms: Callable[[], int],
        merging: bool,
        window: Window | None = None,
    ) -> None:
        self._backend = backend
        self._timers = timers
        self._now_ms = now_ms
        self._merging = merging
        self._window = window

    def of(self, window: Window) -> WindowContext:
        """Return a context for `window`."""
        return WindowContext(self._backend, self._timers, self._now_ms, merging=self._merging, window=window)

    def window(self) -> Any:
        """Return the window."""
        return self._window

    def current_processing_time(self) -> int:
        """Return the wall clock, in milliseconds since the epoch."""
        return self._now_ms()

    def current_watermark(self) -> int:
        """Return the event time of the subtask (ms)."""
        return self._timers.watermark

    def window_state(self) -> KeyedStateStore:
        """Return the states of this key in this window. Remove them in `clear`.

        Raises ProgramError for windows that merge, because merging such state is undefined.
        """
        if self._merging:
            raise ProgramError("windows that merge, such as sessions, have no state of their own: use global_state()")
        return self._backend.store(namespaced=True)

    def global_state(self) -> KeyedStateStore:
        """Return the states of this key in all windows."""
        return self._backend.store()
