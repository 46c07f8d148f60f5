"""Parameters of tests that repeat themselves: the first ones are in `make test`, the others in the soak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(count: int, values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test; all but the first `count` are marked as soak."""
    return [
        value if number < count else pytest.param(value, marks=pytest.mark.soak) for number, value in enumerate(values)
    ]
