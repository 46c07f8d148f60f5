"""Which array computes which aggregate of a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.functions.field_aggregates import AVG, COUNT, FIRST, LAST, MAX, MIN, SUM, FieldAggregate
from penstock.engine.runtime.columns.aggregate_arrays import (
    AggregateArray,
    CountArray,
    FirstArray,
    LastArray,
    MaxArray,
    MinArray,
)
from penstock.engine.runtime.columns.sum_arrays import AverageArray, NarrowSumArray, SumArray

_CLASSES: dict[str, Any] = {
    COUNT: CountArray,
    SUM: SumArray,
    AVG: AverageArray,
    MIN: MinArray,
    MAX: MaxArray,
    FIRST: FirstArray,
    LAST: LastArray,
}


def arrays_of(
    aggregates: Sequence[FieldAggregate], types: Sequence[Any], are_partial: bool = False
) -> list[AggregateArray]:
    """Return the array of each aggregate; `types`: NumPy's, of the values.

    `are_partial`: they are sent as columns of integers of 64 bits.
    """
    classes = {**_CLASSES, SUM: NarrowSumArray} if are_partial else _CLASSES
    return [classes[one.kind](kind) for one, kind in zip(aggregates, types, strict=True)]
