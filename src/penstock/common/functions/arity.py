"""How many arguments a user's function takes, as far as that can be told without calling it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether `function` can be called with `count` positional arguments. True if that can't be told.

    A decorator may pass on more or fewer arguments than it is given: what it wraps is not looked at.
    """
    if hasattr(function, "__signature__"):
        # What it shows to its callers, and perhaps not what it takes.
        return True
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        # Implemented in C, without a signature to inspect.
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
