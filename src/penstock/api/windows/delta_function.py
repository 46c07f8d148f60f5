"""How far two records are apart, for triggers and evictors. Source: Flink docs, "Windows", DeltaTrigger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.common.functions.result_kinds import check_result_kind

T = TypeVar("T")


class DeltaFunction(ABC, Generic[T]):
    """Says how far a record is from an earlier one."""

    @abstractmethod
    def get_delta(self, old_data_point: T, new_data_point: T) -> float:
        """Return the difference."""


Delta: TypeAlias = DeltaFunction[T] | Callable[[T, T], float]
"""A DeltaFunction, or a callable of two records."""


def as_delta(delta_function: Any) -> Callable[[Any, Any], float]:
    """The callable. Raises TypeError if there is none."""
    if isinstance(delta_function, type):
        raise TypeError(f"expected an instance, got the class {delta_function.__name__}")
    delta = getattr(delta_function, "get_delta", delta_function)
    if not callable(delta):
        raise TypeError(f"expected a DeltaFunction or a callable of two records, got {delta_function!r}")
    check_result_kind(delta, "the delta function")
    return delta  # type: ignore[no-any-return]


def as_threshold(owner: str, threshold: Any) -> float:
    """The threshold. Raises TypeError if it is not a number."""
    if type(threshold) in (int, float):
        return threshold  # type: ignore[no-any-return]
    if isinstance(threshold, bool) or not isinstance(threshold, Real):
        raise TypeError(f"{owner}: the threshold must be a number, got {threshold!r}")
    return float(threshold)
