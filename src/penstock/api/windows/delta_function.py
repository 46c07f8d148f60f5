"""The difference of two records, for triggers and evictors. Source: Flink docs, "Windows", DeltaTrigger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.common.functions.result_kinds import check_result_kind

T = TypeVar("T")


class DeltaFunction(ABC, Generic[T]):
    """Computes the difference between a record and an earlier one."""

    @abstractmethod
    def get_delta(self, old_data_point: T, new_data_point: T) -> float:
        """Return the difference."""


Delta: TypeAlias = DeltaFunction[T] | Callable[[T, T], float]
"""A DeltaFunction, or a callable of two records."""


def as_delta(delta_function: Any) -> Callable[[Any, Any], float]:
    """Return a DeltaFunction's method, or the callable itself. Raises TypeError if it is neither."""
    if isinstance(delta_function, type):
        raise TypeError(f"expected a DeltaFunction, got the class {delta_function.__name__}: pass an instance")
    delta = getattr(delta_function, "get_delta", delta_function)
    if not callable(delta):
        raise TypeError(f"expected a DeltaFunction or a callable of two records, got {delta_function!r}")
    check_result_kind(delta, "the delta function")
    return delta  # type: ignore[no-any-return]


def as_threshold(owner: str, threshold: Any) -> float:
    """Return the threshold as a number. Raises TypeError if it is not one."""
    if type(threshold) in (int, float):
        return threshold  # type: ignore[no-any-return]
    if isinstance(threshold, bool) or not isinstance(threshold, Real):
        raise TypeError(f"{owner}: the threshold must be a number, got {threshold!r}")
    return float(threshold)
