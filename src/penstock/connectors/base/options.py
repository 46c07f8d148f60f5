"""Options of connectors, checked by the call that sets them."""

from __future__ import annotations

from typing import Any


def checked_at_least(name: str, value: int, minimum: int) -> int:
    """The value of an option. Raises ValueError if it is less."""
    if type(value) is not int or value < minimum:
        raise ValueError(f"{name} must be an int of at least {minimum}, got {value!r}")
    return value


def checked_text(name: str, value: Any) -> str:
    """The value of an option. Raises TypeError if it is no str, ValueError if it is empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {value!r}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    return value
