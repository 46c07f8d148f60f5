"""Functions that return a coroutine or a generator where a value is expected.

Both are truthy, can be emitted and stored, and never run. So each method that accepts a function checks it. If the
function does not show it, such as a lambda that calls a coroutine function, its first result does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import AsyncGeneratorType, CoroutineType
from typing import Any

UNAWAITED = frozenset({CoroutineType, AsyncGeneratorType})
"""Types of results that need an event loop."""

_SEVERAL = ("Iterable", "Collection", "Iterator", "list[")
"""Parts of the return annotation of methods that may return several values."""


def check_result_kind(call: Any, name: str, several: bool = False) -> None:
    """Raise TypeError for an async function, and, unless it may return `several` values, for a generator function.

    The error calls it `name`.
    """
    function = _called(call)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise _unawaited(f"{name} is an async function, so a call of it")
    if not several and inspect.isgeneratorfunction(function):
        raise TypeError(
            f"{name} contains `yield`, so a call of it returns a generator, not a value: return the value. Functions "
            "of flat_map and process emit any number of values by `yield`"
        )


def check_method_kinds(instance: Any, interface: type) -> None:
    """Call `check_result_kind` for each method that `interface` declares."""
    for method, declared in inspect.getmembers(interface, inspect.isfunction):
        if not method.startswith("_") and (call := getattr(instance, method, None)) is not None:
            check_declared_kind(call, declared, f"{type(instance).__name__}.{method}")


def check_declared_kind(call: Any, declared: Callable[..., Any], name: str) -> None:
    """Call `check_result_kind` for a method whose declaration says if it is async or may return several values."""
    if not inspect.iscoroutinefunction(declared):
        returned = str(declared.__annotations__.get("return", ""))
        check_result_kind(call, name, several=any(kind in returned for kind in _SEVERAL))


def check_awaited(result: Any) -> None:
    """Raise TypeError if the result of a call is a coroutine."""
    if type(result) in UNAWAITED:
        if isinstance(result, CoroutineType):
            # Without this, Python would also warn that the coroutine was never awaited.
            result.close()
        raise _unawaited("the call")


def awaited(result: Any) -> Any:
    """Return `result`, the result of a call. Raises TypeError if it is a coroutine."""
    if type(result) in UNAWAITED:
        check_awaited(result)
    return result


def _called(call: Any) -> Any:
    """Return the function behind a partial or a callable object, which `inspect` does not unwrap."""
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.isroutine(call) or isinstance(call, type):
        return call
    return type(call).__call__ if callable(call) else call


def _unawaited(what: str) -> TypeError:
    return TypeError(
        f"{what} returns a coroutine, not a value: remove `async`, or make it the `async_invoke` of an AsyncFunction "
        "for AsyncDataStream.unordered_wait or ordered_wait"
    )
