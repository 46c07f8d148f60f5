"""Fields of both records of a join as its results, checked with what is known of the streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import names_of
from penstock.common.functions.field_key import FieldKey
from penstock.common.functions.joined_fields import LEFT, RIGHT, JoinedField, JoinedFields, joined_fields
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.datastream.column_types import given_columns
from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.interval_join import IntervalJoinOperator

NAME = "Interval Join"


def field_join(
    streams: tuple[Transformation, Transformation],
    selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
    left: Sequence[str] | Mapping[str, str],
    right: Sequence[str] | Mapping[str, str],
    *,
    bounds: tuple[int, int],
    late_tags: tuple[OutputTag[Any] | None, OutputTag[Any] | None],
) -> tuple[IntervalJoinOperator, RowTypeInfo | None]:
    """Create the operator of an interval join, unopened, and the type of its results: on columns if both have them.

    Raises TypeError or ValueError for fields that can't be selected.
    """
    columns = given_columns(streams[0]), given_columns(streams[1])
    record_types = streams[0].output_type, streams[1].output_type
    names = tuple(names_of(kind) if of is None else of.names for kind, of in zip(record_types, columns, strict=True))
    fields = JoinedFields(joined_fields(left, right, (names[0], names[1])))
    types = {
        side: kind if of is None else of.described_type(fields.fields_of(side))
        for side, kind, of in zip((LEFT, RIGHT), record_types, columns, strict=True)
    }
    result_type = joined_type(fields.fields, types)
    on_columns = _on_columns(columns, selectors)
    if on_columns is None or result_type is None:
        function = UserFunction(fields, "process_element")
        on_rows = IntervalJoinOperator(
            name=NAME, key_selectors=selectors, lower=bounds[0], upper=bounds[1], function=function, late_tags=late_tags
        )
        return on_rows, result_type
    from penstock.engine.runtime.columns.interval_join import ColumnIntervalJoinOperator, JoinInput

    inputs = tuple(JoinInput(of, fields_of_key) for of, fields_of_key in on_columns)
    operator = ColumnIntervalJoinOperator(
        name=NAME,
        key_selectors=selectors,
        lower=bounds[0],
        upper=bounds[1],
        fields=fields,
        late_tags=late_tags,
        inputs=(inputs[0], inputs[1]),
        given=RecordColumns(result_type),
    )
    return operator, result_type


def joined_type(fields: Sequence[JoinedField], types: Mapping[str, TypeInformation | None]) -> RowTypeInfo | None:
    """Return the type of the results; None if that of one of the streams is not known."""
    kinds = []
    for one in fields:
        record_type = types[one.side]
        if not isinstance(record_type, RowTypeInfo):
            return None
        kinds.append(dict(zip(record_type.get_field_names(), record_type.get_field_types(), strict=True))[one.field])
    return Types.ROW_NAMED([one.name for one in fields], kinds)


def fields_of_pairs(
    streams: tuple[Transformation, Transformation],
    left: Sequence[str] | Mapping[str, str],
    right: Sequence[str] | Mapping[str, str],
) -> tuple[JoinedFields, RowTypeInfo | None]:
    """Return the function that selects fields of pairs, and the type of its results.

    Raises TypeError or ValueError for fields that can't be selected.
    """
    first, second = (stream.output_type for stream in streams)
    fields = joined_fields(left, right, (names_of(first), names_of(second)))
    return JoinedFields(fields), joined_type(fields, {LEFT: first, RIGHT: second})


def _on_columns(
    columns: tuple[RecordColumns | None, RecordColumns | None], selectors: Sequence[Any]
) -> list[tuple[RecordColumns, tuple[str, ...]]] | None:
    """Return the columns of both streams with the fields of their keys; None unless both have keys of one form."""
    found: list[tuple[RecordColumns, tuple[str, ...]]] = []
    for of, select in zip(columns, selectors, strict=True):
        if of is None or not (isinstance(select, FieldKey) and of.can_be_sent and all(map(of.has_keys, select.fields))):
            return None
        found.append((of, select.fields))
    kinds = [[of.schema.field(field).type for field in fields] for of, fields in found]
    # 1 and 1.0 are one key to Python, and have different places in arrays.
    return found if kinds[0] == kinds[1] else None
