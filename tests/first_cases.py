"""Parameters of tests that repeat themselves: the first ones are in `make test`, the others in the soak.

A run that leaves out the soak does not make its parameters: to collect tens of thousands takes seconds in each process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_run_has_soak = True


def run_selects(markers: str) -> None:
    """Note the markers that select the tests of this run, before they are collected."""
    global _run_has_soak
    _run_has_soak = "not soak" not in markers


def first_of(count: int, values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test; all but the first `count` are in the soak. A tuple has several."""
    values = list(values)
    others = values[count:] if _run_has_soak else []
    as_tuples = (value if isinstance(value, tuple) else (value,) for value in others)
    return [*values[:count], *(pytest.param(*value, marks=pytest.mark.soak) for value in as_tuples)]
