"""Functions whose call gives a coroutine or a generator where a value is expected.

Both count as true, can be emitted and stored, and are never run, so each call that takes a function looks at it. What
can't be seen of a function, a lambda that calls a coroutine function for example, shows in its first result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import AsyncGeneratorType, CoroutineType
from typing import Any

UNAWAITED = frozenset({CoroutineType, AsyncGeneratorType})
"""Types of results that only an event loop can take values from."""

_SEVERAL = ("Iterable", "Collection", "Iterator", "list[")
"""In the annotation of a method that may return several values."""


def check_result_kind(call: Any, name: str, several: bool = False) -> None:
    """Raise TypeError for an async function, and, unless it may give `several` values, for a generator function.

    `name` is how the error names it.
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
    """`check_result_kind` for each method of an object that `interface` declares."""
    for method, declared in inspect.getmembers(interface, inspect.isfunction):
        if not method.startswith("_") and (call := getattr(instance, method, None)) is not None:
            check_declared_kind(call, declared, f"{type(instance).__name__}.{method}")


def check_declared_kind(call: Any, declared: Callable[..., Any], name: str) -> None:
    """`check_result_kind` for the method of an interface; `declared` says whether it is async or may give several."""
    if not inspect.iscoroutinefunction(declared):
        returned = str(declared.__annotations__.get("return", ""))
        check_result_kind(call, name, several=any(kind in returned for kind in _SEVERAL))


def check_awaited(result: Any) -> None:
    """Raise TypeError if the result of a call is a coroutine."""
    if type(result) in UNAWAITED:
        if isinstance(result, CoroutineType):
            # Else Python warns of it as well, when it is freed.
            result.close()
        raise _unawaited("the call")


def awaited(result: Any) -> Any:
    """Return the result of a call. Raises TypeError if it is a coroutine."""
    if type(result) in UNAWAITED:
        check_awaited(result)
    return result


def _called(call: Any) -> Any:
    """The function behind a callable, as far as `inspect` does not look itself."""
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
