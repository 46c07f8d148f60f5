"""The number of arguments that a user's function accepts, as far as that is known without calling it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def accepts_arguments(function: Callable[..., Any], count: int) -> bool:
    """Return whether `function` can be called with `count` positional arguments; True if that is unknown.

    The wrapped function of a decorator does not count: a decorator may add or drop arguments.
    """
    if hasattr(function, "__signature__"):
        # The function sets a signature for display, which may differ from its real one.
        return True
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        # The function is implemented in C, without a signature.
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
