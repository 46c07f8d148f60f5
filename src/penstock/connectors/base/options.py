"""Options of connectors, checked by the call that sets them."""

from __future__ import annotations

from typing import Any

from penstock.common.types.whole_numbers import as_int


def checked_at_least(name: str, value: int, minimum: int) -> int:
    """The value of an option, as an int. Raises ValueError if it is less, or not a whole number."""
    number = as_int(value)
    if number is None or number < minimum:
        raise ValueError(f"{name} must be an int of at least {minimum}, got {value!r}")
    return number


def checked_text(name: str, value: Any) -> str:
    """The value of an option. Raises TypeError if it is no str, ValueError if it is empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {value!r}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    return value
