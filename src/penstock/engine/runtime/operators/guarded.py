"""Functions that skip the records on which they fail: the argument `on_error`.

What the function emitted, and wrote to its state, before the error stays. Errors that are not caused by the record,
such as MemoryError, still fail the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from penstock.api.functions.failed_record import FailedRecord, OnError
from penstock.api.output_tag import OutputTag
from penstock.common.errors.user_traceback import raised_line, user_traceback
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.function_adapters import FunctionOfFunction
from penstock.engine.runtime.task.context import shortened

_log = logging.getLogger(__name__)


class GuardedFunction(FunctionOfFunction):
    """Adapts a process function, of one or two inputs, and emits its failures to the side output, if there is one."""

    def __init__(self, function: UserFunction, on_error: OnError) -> None:
        super().__init__(function)
        self._tag = on_error if isinstance(on_error, OutputTag) else None
        self._has_failed = False

    def __getattr__(self, name: str) -> Any:
        # Only if the function has timers.
        if name == "on_timer":
            getattr(self._function.instance, name)
            return self._on_timer
        return super().__getattr__(name)

    def open(self, runtime_context: Any) -> None:
        """Open the function, and register the counter of failed records."""
        self._subtask = runtime_context.get_task_name_with_subtasks()
        self._errors = runtime_context.get_metrics_group().counter("numRecordsInErrors")
        opener = getattr(self._function.instance, "open", None)
        if opener is not None:
            opener(runtime_context)

    def close(self) -> None:
        """Close the function."""
        closer = getattr(self._function.instance, "close", None)
        if closer is not None:
            closer()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._results(self._function.instance.process_element, value, ctx, value)

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._results(self._function.instance.process_element1, value, ctx, value)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._results(self._function.instance.process_element2, value, ctx, value)

    def _on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return self._results(self._function.instance.on_timer, timestamp, ctx, None)

    def _results(self, call: Callable[[Any, Any], Any], argument: Any, ctx: Any, record: Any) -> Iterator[Any]:
        try:
            yield from emitted(call(argument, ctx))
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            failed = self._failed(error, record, ctx)
        else:
            return
        if self._tag is not None:
            yield self._tag, failed

    def _failed(self, error: BaseException, record: Any, ctx: Any) -> FailedRecord:
        self._errors.inc()
        key = ctx.get_current_key() if hasattr(ctx, "get_current_key") else None
        text = user_traceback(error, self._function.users_object)
        failed = FailedRecord(
            record=record,
            error=raised_line(text) or text.partition("\n")[0],
            traceback=text,
            timestamp=ctx.timestamp(),
            key=key,
        )
        if not self._has_failed:
            self._has_failed = True
            what = "a timer" if record is None else f"the record {shortened(record)}"
            where = "skipped" if self._tag is None else f"sent to the side output '{self._tag.tag_id}'"
            _log.warning(
                "%s: %s failed on %s, which is %s. numRecordsInErrors counts them; further ones are not logged.\n%s",
                self._subtask, self._function.method, what, where, failed.traceback,
            )  # fmt: skip
        return failed


def guarded(function: UserFunction, on_error: OnError) -> UserFunction:
    """Return a process function with a policy for failed records. With "fail" it is `function` itself."""
    if on_error == "fail":
        return function
    return GuardedFunction(function, on_error).as_function("process_element", function)


def guarded_pair(first: UserFunction, second: UserFunction, on_error: OnError) -> tuple[UserFunction, UserFunction]:
    """Do the same for the two methods of a function of two inputs."""
    if on_error == "fail":
        return first, second
    both = GuardedFunction(first, on_error)
    return both.as_function("process_element1", first), both.as_function("process_element2", second)
