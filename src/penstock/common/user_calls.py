"""Calling users' functions: once for each value of a chunk, or once for a handler.

`list(map(function, values))` is the fastest loop there is, but a StopIteration that the function raises ends it as if
the values had ended: the rest of the chunk would be lost without an error. So this is the one place that has that loop.
Elsewhere functions are called in the body of a loop, where a StopIteration is an error like any other, and inside of
generators Python makes a RuntimeError of it (PEP 479).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

RAISED = (Exception, SystemExit)
"""What a user's function raises. `sys.exit` there is an error like any other; it would end a worker without a word."""


def outcome_of(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a call returns, or the error that it raises, for a handler that takes both."""
    try:
        return call(), None
    except Exception as error:
        return None, error


def results_of(function: Callable[..., Any], count: int, *values: Iterable[Any]) -> list[Any]:
    """What the function returns for each of `count` values; with several iterables, it is called with one of each.

    Raises RuntimeError if the function raises StopIteration, and what else it raises.
    """
    results = list(map(function, *values))
    if len(results) != count:
        raise RuntimeError("the function raised StopIteration. Did a bare next() find nothing? next(iterator, default)")
    return results
