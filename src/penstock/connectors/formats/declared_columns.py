"""Columns that are written as the fields of Rows of a declared type are."""

from __future__ import annotations

from penstock.common.columns.lines import have_values_of_records
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TypeInformation,
)
from penstock.common.types.integers import BITS

_BASIC = (*BITS, BasicType.STRING, BasicType.BOOLEAN, BasicType.FLOAT, BasicType.DOUBLE)


def has_declared_columns(columns: RecordColumns, row_type: RowTypeInfo) -> bool:
    """Return whether there is a column for each field, whose values are those of the records and of its type.

    So values need no check. Types whose texts depend on the format, such as decimals, are not among them.
    """
    names, kinds = row_type.get_field_names(), row_type.get_field_types()
    if not set(names) <= set(columns.names):
        return False
    written = columns.only(names)
    return have_values_of_records(written) and all(
        _is_single(kind) and kind.to_arrow() == column for kind, column in zip(kinds, written.schema.types, strict=True)
    )


def _is_single(kind: TypeInformation) -> bool:
    if isinstance(kind, LocalTimeTypeInfo):
        return _is_single(kind._same)
    return isinstance(kind, (DateTypeInfo, TimestampTypeInfo)) or (
        isinstance(kind, BasicTypeInfo) and kind._basic_type in _BASIC
    )
