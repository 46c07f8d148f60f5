"""Operators that process a chunk in one call, whatever the budget of a step."""

from __future__ import annotations

from typing import Any


def process(operator: Any, chunk: Any) -> None:
    """Process a chunk, and resume the operator until it is done."""
    operator.process(chunk)
    while operator.paused:
        operator.context.budget.begin_step()
        operator.resume()
