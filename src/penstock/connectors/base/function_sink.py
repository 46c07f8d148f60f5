"""Use a function or an object of the user as a sink, like Flink's older SinkFunction."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common.functions.result_kinds import check_result_kind


class FunctionSinkContext:
    """The context argument of `invoke(value, context)`. All times are int milliseconds."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._timestamp: int | None = None

    def timestamp(self) -> int | None:
        """Return the event timestamp of the record, or None."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._context.now_ms()

    def current_watermark(self) -> int:
        """Return the current watermark of the subtask."""
        return self._context.current_watermark()


class FunctionSink(Sink[Any]):
    """Call `function(value)`, or `function.invoke(value, context)`, for each record.

    An object may also have `open(sink_context)`, called before the first record, and `close()`. The second parameter of
    `invoke` is optional. The sink commits nothing: after a failure, records since the last checkpoint are written
    again. Raise TypeError for any other argument.
    """

    def __init__(self, function: Callable[[Any], Any] | Any) -> None:
        invoke = getattr(function, "invoke", function)
        if not callable(invoke):
            raise TypeError(f"a sink function must be a callable or have a method invoke, got {function!r}")
        for method in ("open", "close"):
            check_result_kind(getattr(function, method, None), f"{method} of the sink function")
        check_result_kind(invoke, "the sink function")
        self._function = function
        self._with_context = invoke is not function and accepts_two_arguments(invoke)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create a writer that calls the function."""
        return _FunctionWriter(self._function, self._with_context, context)


class _FunctionWriter(SinkWriter[Any]):
    def __init__(self, function: Any, with_context: bool, context: SinkContext) -> None:
        self._function = function
        self._invoke: Callable[..., Any] = getattr(function, "invoke", function)
        self._context = FunctionSinkContext(context) if with_context else None
        open_function = getattr(function, "open", None)
        if callable(open_function):
            open_function(context)

    def write(self, value: Any, timestamp: int | None) -> None:
        if self._context is None:
            self._invoke(value)
        else:
            self._context._timestamp = timestamp
            self._invoke(value, self._context)

    def close(self) -> None:
        close_function = getattr(self._function, "close", None)
        if callable(close_function):
            close_function()


def accepts_two_arguments(function: Callable[..., Any]) -> bool:
    """Return whether the callable accepts two positional arguments, or its signature is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
