"""Predicates for strategies that retry asynchronous calls, at PyFlink's module path."""

from __future__ import annotations

from collections.abc import Sized

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: Sized | None) -> bool:
    """Return whether a call has no results."""
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Return whether a call has raised."""
    return error is not None


def exception_type_predicate(error: BaseException | None, expected_error_type: type[BaseException]) -> bool:
    """Return whether a call has raised an `expected_error_type`."""
    return isinstance(error, expected_error_type)
