"""Which array computes which aggregate of a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.functions.field_aggregates import AVG, COUNT, FIRST, LAST, MAX, MIN, SUM, FieldAggregate
from penstock.engine.runtime.columns.aggregate_arrays import (
    AggregateArray,
    CountArray,
    FirstArray,
    LastArray,
    MaxArray,
    MinArray,
    array_type,
)
from penstock.engine.runtime.columns.sum_arrays import AverageArray, NarrowSumArray, SumArray
from penstock.engine.runtime.columns.user_arrays import UserArray

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

    `types` of users' aggregates are not read. `are_partial`: they are sent as columns of integers of 64 bits.
    """
    classes = {**_CLASSES, SUM: NarrowSumArray} if are_partial else _CLASSES
    return [
        classes[one.kind](kind) if one.function is None else UserArray(one.function)
        for one, kind in zip(aggregates, types, strict=True)
    ]


def value_types(aggregates: Sequence[FieldAggregate], schema: pyarrow.Schema) -> list[Any]:
    """Return NumPy's type of the values of each aggregate; None for counts of records and users' aggregates."""
    return [None if one.field is None else array_type(schema.field(one.field).type) for one in aggregates]
