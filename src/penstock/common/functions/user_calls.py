"""Calls of users' functions, for each value of a chunk or for a handler, and the errors that they raise.

`list(map(function, values))` is the fastest loop, but a StopIteration raised by the function ends it as if the values
had ended: the rest of the chunk would be lost silently. So only this module contains that loop. In the body of a `for`
loop StopIteration is an error like any other, and in a generator Python turns it into a RuntimeError (PEP 479).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.common.errors import PenstockError, UserFunctionError, class_names
from penstock.common.errors.user_traceback import user_traceback
from penstock.common.functions.result_kinds import check_awaited

RAISED = (BaseException,)
"""Errors of users' functions. Not only Exception: panics of Rust libraries and SystemExit are not Exceptions, and would
end a thread or a worker silently."""


class Interrupted(BaseException):
    """Raised by the host inside a user's function when the job is canceled.

    It is not an Exception, so functions that catch Exception do not catch it.
    """


class MethodError(Exception):
    """Raised from an error of a user's method that a function of ours has called. Errors of jobs are about its cause.

    `method`: its name, such as "WeightedMean.add". `raised`: the user's error. `value`: what the method was called
    with, as its repr shows it, if that is not the value that the operator processes.
    """

    def __init__(self, method: str, raised: BaseException, value: Any = None) -> None:
        super().__init__(method, raised, value)
        self.method = method
        self.raised = raised
        self.value = value


PASSED_ON = (Interrupted, KeyboardInterrupt, GeneratorExit)
"""Raised to stop a function. Operators do not report them as errors of the function, and pass them to the host."""

NOT_OF_A_VALUE = (*PASSED_ON, SystemExit, MemoryError, PenstockError)
"""Errors that are not caused by the value, message or line being read: the next one would raise them as well, so
readers do not skip the current one. All other errors while reading count as errors of the input."""


def as_exception(error: BaseException) -> Exception:
    """Return an error of users' code as an Exception, for the job: others become a UserFunctionError with traceback.

    Unchanged, they would end the program that waits for the job's result. Ctrl-C is raised again.
    """
    if isinstance(error, Exception):
        return error
    pass_on_ctrl_c(error)
    failure = UserFunctionError(user_traceback(error), class_names(error))
    failure.__cause__ = error
    return failure


def pass_on_ctrl_c(error: BaseException) -> None:
    """Raise `error` again if it is a Ctrl-C, which Python raises in the main thread. In others, code has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def outcome_of(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Make a call and return its result or its error, for handlers with both arguments."""
    try:
        return call(), None
    except RAISED as error:
        return None, as_exception(error)


def results_of(function: Callable[..., Any], count: int, *values: Iterable[Any]) -> list[Any]:
    """Return the function's results for `count` values. Each call gets one value of each iterable.

    Raises RuntimeError if the function raises StopIteration, TypeError if its first result is a coroutine, and the
    function's own errors.
    """
    results = list(map(function, *values))
    if len(results) != count:
        raise RuntimeError("the function raised StopIteration. Did a bare next() find nothing? next(iterator, default)")
    return checked_results(results)


def results_and_failures(function: Callable[[Any], Any], values: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the function's results, and the positions of the values for which it raises an error, in order."""
    results: list[Any] = []
    failed: list[int] = []
    left = iter(values)
    while True:
        try:
            # An error leaves the results before it in the list, and `left` behind its value; StopIteration does, too.
            results.extend(map(function, left))
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            pass
        if len(results) + len(failed) == len(values):
            return results, failed
        failed.append(len(results) + len(failed))


def checked_results(results: list[Any]) -> list[Any]:
    """Return the results of calls of a function. Raises TypeError if the first one is a coroutine."""
    if results:
        check_awaited(results[0])
    return results
