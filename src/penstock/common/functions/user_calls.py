"""Calling users' functions: once for each value of a chunk, or once for a handler; and what they may raise.

`list(map(function, values))` is the fastest loop there is, but a StopIteration that the function raises ends it as if
the values had ended: the rest of the chunk would be lost without an error. So this is the one place that has that loop.
Elsewhere functions are called in the body of a loop, where a StopIteration is an error like any other, and inside of
generators Python makes a RuntimeError of it (PEP 479).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.errors import PenstockError, UserFunctionError, class_names
from penstock.common.errors.user_traceback import user_traceback
from penstock.common.functions.result_kinds import check_awaited

RAISED = (BaseException,)
"""What a user's function raises. A panic of a library in Rust is no Exception, and neither is what `sys.exit` raises:
it would end a thread or a worker without a word."""


class Interrupted(BaseException):
    """Raised inside a user's function by its host, when the job is cancelled.

    No Exception, so that a function that catches all of these does not catch it.
    """


PASSED_ON = (Interrupted, KeyboardInterrupt, GeneratorExit)
"""What is no error of the function in which it appears, as far as an operator can tell: it is
raised to stop the function, and reaches the host as it is."""

NOT_OF_A_VALUE = (*PASSED_ON, SystemExit, MemoryError, PenstockError)
"""What is no fault of the value, message or line whose reading raises it: another one would raise it as well, so none
is skipped for it. All else that reading one raises is that one's fault."""


def as_exception(error: BaseException) -> Exception:
    """`error`, raised by users' code, as the error of a job: what is no Exception, with its traceback, as one.

    As it is, it would end the program that asks for the job's result. A Ctrl-C is raised again.
    """
    if isinstance(error, Exception):
        return error
    pass_on_ctrl_c(error)
    failure = UserFunctionError(user_traceback(error), class_names(error))
    failure.__cause__ = error
    return failure


def pass_on_ctrl_c(error: BaseException) -> None:
    """Raise a Ctrl-C again: Python raises it in the main thread. In another one somebody's code has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def outcome_of(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a call returns, or the error that it raises, for a handler that takes both."""
    try:
        return call(), None
    except RAISED as error:
        return None, as_exception(error)


def results_of(function: Callable[..., Any], count: int, *values: Iterable[Any]) -> list[Any]:
    """What the function returns for each of `count` values; with several iterables, it is called with one of each.

    Raises RuntimeError if the function raises StopIteration, TypeError if its first result is a coroutine, and all else
    that it raises.
    """
    results = list(map(function, *values))
    if len(results) != count:
        raise RuntimeError("the function raised StopIteration. Did a bare next() find nothing? next(iterator, default)")
    return checked_results(results)


def checked_results(results: list[Any]) -> list[Any]:
    """Return what calls of one function have returned. Raises TypeError if the first is a coroutine."""
    if results:
        check_awaited(results[0])
    return results
