"""Checks of connector arguments, made by the call that receives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.types.whole_numbers import as_int

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def checked_at_least(name: str, value: int, minimum: int) -> int:
    """Return the value of an argument as an int. Raise ValueError if it is less, or not a whole number."""
    number = as_int(value)
    if number is None or number < minimum:
        raise ValueError(f"{name} must be an int of at least {minimum}, got {value!r}")
    return number


def checked_text(name: str, value: Any) -> str:
    """Return the value of an argument. Raise TypeError if it is not a str, ValueError if it is empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {value!r}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    return value


def checked_names(name: str, value: Any) -> tuple[str, ...]:
    """Return a list of names as a tuple. Raise TypeError if it is not a list of str, ValueError if it is empty.

    A single str is refused: as a sequence it would mean names of one letter.
    """
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{name} must be a list of str, got {value!r}")
    if not value or not all(value):
        raise ValueError(f"{name} must be a list of at least one name, all of them not empty, got {value!r}")
    return tuple(value)


def checked_function(name: str, function: F, argument: str = "a record") -> F:
    """Return a user's function. Raise TypeError if it cannot be called, or returns an awaitable or a generator."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of {argument}, got {function!r}")
    check_result_kind(function, f"the {name} function")
    return function


def is_uncalled(kind: type[Any], given: Any) -> bool:
    """Return whether this is a subclass of a class, or a function in it, rather than an object: `()` are missing."""
    if isinstance(given, type):
        return issubclass(given, kind)
    return not isinstance(given, kind) and getattr(given, "__qualname__", "").startswith(f"{kind.__name__}.")


def checked_instance(kind: type[Any], example: str, given: T) -> T:
    """Return an object of a class. Raise TypeError if it is another one, with advice if `is_uncalled`."""
    if isinstance(given, kind):
        return given
    remedy = f". Call it: {given.__qualname__}()" if is_uncalled(kind, given) else ""  # type: ignore[attr-defined]
    raise TypeError(f"expected an object of {kind.__name__} such as {example}, got {given!r}{remedy}")
