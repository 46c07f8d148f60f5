"""Pickle the objects that decorators of `functools` make of the script's functions.

A pickle holds the arguments of the decorator. The receiver calls the decorator again, with an empty cache: caches and
locks belong to one process.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle

_DISPATCHER_CODE: Any = functools.singledispatch(len).__code__  # type: ignore[attr-defined]


def is_dispatcher(obj: Any) -> bool:
    """Return whether `singledispatch` has made this function."""
    return getattr(obj, "__code__", None) is _DISPATCHER_CODE


def reduced_dispatcher(dispatcher: Any) -> tuple[Any, ...]:
    """Return how to rebuild a function made by `singledispatch`."""
    return functools.singledispatch, (dispatcher.__wrapped__,), dict(dispatcher.registry), None, None, _register_all


def _register_all(dispatcher: Any, registry: dict[type, Callable[..., Any]]) -> None:
    for kind, implementation in registry.items():
        dispatcher.register(kind, implementation)


def _reduced_cached_property(cached: Any) -> tuple[Any, ...]:
    state = {name: value for name, value in vars(cached).items() if name not in ("func", "lock")}
    return functools.cached_property, (cached.func,), state


def _reduced_dispatching_method(method: Any) -> tuple[Any, ...]:
    return functools.singledispatchmethod, (method.func,), {"dispatcher": method.dispatcher}


def _reduced_lru_cache(cached: Any) -> Any:
    if _is_importable(cached):
        return cached.__reduce__()
    parameters = cached.cache_parameters()
    return _lru_cached, (cached.__wrapped__, parameters["maxsize"], parameters["typed"])


def _lru_cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def _is_importable(obj: Any) -> bool:
    """Return whether a worker finds `obj` by its name, in a module that is not the script."""
    module = getattr(obj, "__module__", None)
    if module in (None, "__main__") or module in cloudpickle.list_registry_pickle_by_value():
        return False
    try:
        return operator.attrgetter(obj.__qualname__)(sys.modules[module]) is obj
    except (AttributeError, KeyError):
        return False


REDUCERS: dict[type, Callable[[Any], Any]] = {
    functools.cached_property: _reduced_cached_property,
    functools.singledispatchmethod: _reduced_dispatching_method,
    type(functools.lru_cache(len)): _reduced_lru_cache,
}
"""For `dispatch_table`."""
