"""Aggregates of fields that a user declares, checked with what is known of the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.aggregate_results import ResultRows
from penstock.common.functions.field_aggregates import (
    FieldAggregates,
    field_aggregates,
    names_of,
    result_type,
    with_families,
)
from penstock.common.functions.field_key import FieldKey
from penstock.common.typeinfo import RowTypeInfo
from penstock.datastream.array_aggregation import with_users_aggregates
from penstock.datastream.column_types import given_columns
from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.running_aggregate import RunningAggregateOperator


class FieldAggregation(NamedTuple):
    """What to aggregate, by which fields, and the type of the results, if it is known."""

    key_fields: tuple[str, ...]
    function: FieldAggregates
    columns: RecordColumns | None
    """The columns of the stream, if it has columns."""
    result_type: RowTypeInfo | None

    def result_rows(self) -> ResultRows:
        """Return what makes the results."""
        return ResultRows(self.key_fields, self.function.declared, self.result_type)


def fields_of_key(select: Callable[[Any], Any]) -> tuple[str, ...]:
    """Return the fields of the key that a selector selects. Raises TypeError if it is not made of fields."""
    if not isinstance(select, FieldKey):
        raise TypeError(
            'aggregates of fields need a key of fields, whose values are in the results: key_by("airport"), not a '
            "function"
        )
    return select.fields


def field_aggregation(
    stream: Transformation, key_fields: tuple[str, ...], declared: Mapping[str, Any]
) -> FieldAggregation:
    """Return the aggregates of a stream. Raises TypeError or ValueError for those that can't be computed."""
    columns = given_columns(stream)
    record_type = stream.output_type
    names = names_of(record_type) if columns is None else columns.names
    aggregates = field_aggregates(with_users_aggregates(declared), key_fields, names)
    if columns is not None:
        read = {field for one in aggregates for field in one.fields}
        record_type = columns.described_type({*key_fields, *read})
    aggregates = with_families(aggregates, record_type)
    found = result_type(key_fields, aggregates, record_type)
    return FieldAggregation(key_fields, FieldAggregates(aggregates), columns, found)


def running_aggregate_operator(
    name: str, key_selector: Callable[[Any], Any], of_fields: FieldAggregation, ttl: StateTtlConfig | None = None
) -> RunningAggregateOperator:
    """Create the operator of running aggregates, unopened: on columns if the stream has columns that NumPy can add.

    `ttl`: how long a key lives after its last record, if set. Raises ValueError for the bounds of a window.
    """
    ttl = checked_ttl(ttl)
    bound = next((one for one in of_fields.function.declared if one.of_window), None)
    if bound is not None:
        raise ValueError(f"{bound.name!r}: {bound.kind} is of a window, and there is no window: call window() first")
    function, key_fields, columns = of_fields.function, of_fields.key_fields, of_fields.columns
    results = of_fields.result_rows()
    if columns is None or of_fields.result_type is None:
        return RunningAggregateOperator(name, key_selector, function, results, ttl=ttl)
    from penstock.engine.runtime.columns.aggregate_arrays import can_aggregate
    from penstock.engine.runtime.columns.keyed_input import keys_stay
    from penstock.engine.runtime.columns.running_aggregate import ColumnRunningAggregateOperator

    given = RecordColumns(of_fields.result_type)
    if not (all(map(columns.has_keys, key_fields)) and keys_stay(columns, given, key_fields)):
        return RunningAggregateOperator(name, key_selector, function, results, ttl=ttl)
    if not can_aggregate(function.aggregates, columns.schema):
        return RunningAggregateOperator(name, key_selector, function, results, ttl=ttl)
    return ColumnRunningAggregateOperator(
        name, key_selector, function, results, key_fields=key_fields, columns=columns, given=given, ttl=ttl
    )


def checked_ttl(ttl: StateTtlConfig | None) -> StateTtlConfig | None:
    """Return a time to live; None if it is disabled.

    Raises TypeError for another object, and ValueError for one whose expired values could be read.
    """
    if ttl is None:
        return None
    if not isinstance(ttl, StateTtlConfig):
        raise TypeError(f"expected a StateTtlConfig, got {ttl!r}: StateTtlConfig.new_builder(Time.hours(1)).build()")
    if ttl.get_state_visibility() is not StateTtlConfig.StateVisibility.NeverReturnExpired:
        raise ValueError(
            "the aggregates of a key that has expired begin again, so the time to live must have the visibility "
            "NeverReturnExpired, which is the default"
        )
    return ttl if ttl.is_enabled() else None
