"""Options of connectors, checked by the call that sets them."""

from __future__ import annotations


def checked_at_least(name: str, value: int, minimum: int) -> int:
    """The value of an option. Raises ValueError if it is less."""
    if type(value) is not int or value < minimum:
        raise ValueError(f"{name} must be an int of at least {minimum}, got {value!r}")
    return value
