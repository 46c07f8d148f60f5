"""Columns of times in nanoseconds, which pyarrow gives as values of pandas: read as what has values in Python."""

from __future__ import annotations

import pyarrow
from pyarrow import types as arrow

from penstock.common.types.basic_types import InstantTypeInfo, TypeInformation
from penstock.common.types.composite_types import LIST_TYPES, ExternalTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo


def read_as(stored: pyarrow.DataType, declared: TypeInformation | None) -> pyarrow.DataType:
    """The type to which a column is cast before its values are taken: `stored`, if there are no nanoseconds in it.

    In microseconds, as Python's times are. Of a declared Instant, which has nanoseconds, their number since the epoch.
    """
    if isinstance(declared, ExternalTypeInfo):
        return read_as(stored, declared._type_info)
    if arrow.is_timestamp(stored) and stored.unit == "ns":
        return pyarrow.int64() if isinstance(declared, InstantTypeInfo) else pyarrow.timestamp("us", stored.tz)
    if arrow.is_time64(stored) and stored.unit == "ns":
        return pyarrow.time64("us")
    if arrow.is_duration(stored) and stored.unit == "ns":
        return pyarrow.duration("us")
    if arrow.is_dictionary(stored):
        values = read_as(stored.value_type, declared)
        return stored if values == stored.value_type else values
    if arrow.is_struct(stored):
        kinds = _of_fields(declared)
        return pyarrow.struct([field.with_type(read_as(field.type, kinds.get(field.name))) for field in stored])
    if arrow.is_map(stored):
        key, value = (
            (declared._key_type_info, declared._value_type_info) if isinstance(declared, MapTypeInfo) else (None, None)
        )
        key_field, value_field = stored.key_field, stored.item_field
        return pyarrow.map_(
            key_field.with_type(read_as(key_field.type, key)), value_field.with_type(read_as(value_field.type, value))
        )
    return _list(stored, declared._element_type if isinstance(declared, LIST_TYPES) else None)


def _of_fields(declared: TypeInformation | None) -> dict[str, TypeInformation]:
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return dict(zip(declared._column_names(), declared.get_field_types(), strict=True))
    return {}


def _list(stored: pyarrow.DataType, item: TypeInformation | None) -> pyarrow.DataType:
    if not (arrow.is_list(stored) or arrow.is_large_list(stored) or arrow.is_fixed_size_list(stored)):
        return stored
    field = stored.value_field.with_type(read_as(stored.value_type, item))
    if arrow.is_large_list(stored):
        return pyarrow.large_list(field)
    return pyarrow.list_(field, stored.list_size) if arrow.is_fixed_size_list(stored) else pyarrow.list_(field)
