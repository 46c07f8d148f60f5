"""The declared type of the values of a column: the way back from `TypeInformation.to_arrow`."""

from __future__ import annotations

import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.families import is_bytes, is_list, is_text
from penstock.common.types.basic_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import BYTES, ListTypeInfo, MapTypeInfo, RowTypeInfo

_SINGLE = {
    pyarrow.bool_(): BasicType.BOOLEAN,
    pyarrow.int8(): BasicType.BYTE,
    pyarrow.int16(): BasicType.SHORT,
    pyarrow.int32(): BasicType.INT,
    pyarrow.int64(): BasicType.LONG,
    pyarrow.uint8(): BasicType.SHORT,
    pyarrow.uint16(): BasicType.INT,
    pyarrow.uint32(): BasicType.LONG,
    pyarrow.uint64(): BasicType.BIG_INT,
    pyarrow.float16(): BasicType.FLOAT,
    pyarrow.float32(): BasicType.FLOAT,
    pyarrow.float64(): BasicType.DOUBLE,
}


def declared_type(kind: pyarrow.DataType) -> TypeInformation:
    """Return the narrowest declared type that has all values of a column.

    Parts for which there is no type are pickled. A time with a zone is an INSTANT, one without a SQL_TIMESTAMP. Source:
    Flink docs, "Data Types" of the Table API.
    """
    if arrow.is_dictionary(kind):
        return declared_type(kind.value_type)
    if is_list(kind):
        return ListTypeInfo(declared_type(kind.value_type))
    if arrow.is_map(kind):
        return MapTypeInfo(declared_type(kind.key_type), declared_type(kind.item_type))
    if arrow.is_struct(kind):
        return RowTypeInfo([declared_type(field.type) for field in kind], [field.name for field in kind])
    return single_type(kind) or PickledBytesTypeInfo()


def single_type(kind: pyarrow.DataType) -> TypeInformation | None:
    """Return the type of a column without parts, or None if there is none, and for a column with parts."""
    if (basic := _SINGLE.get(kind)) is not None:
        return BasicTypeInfo(basic)
    if arrow.is_decimal(kind):
        return BasicTypeInfo(BasicType.BIG_DEC)
    if is_text(kind):
        return BasicTypeInfo(BasicType.STRING)
    if is_bytes(kind):
        return BYTES
    if arrow.is_date(kind):
        return DateTypeInfo()
    if arrow.is_time(kind):
        return TimeTypeInfo()
    if arrow.is_timestamp(kind):
        return TimestampTypeInfo() if kind.tz is None else InstantTypeInfo()
    return None
