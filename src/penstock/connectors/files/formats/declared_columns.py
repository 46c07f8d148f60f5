"""Convert values of a column to the type that the program declares, from the type that the file has.

The files of a table are written over years: columns are widened, and fields of nested rows are added and dropped. A
type whose values all fit the declared one is read, any other is refused before the first record. Source: ORC docs,
"Schema Evolution"; Spark docs, "Parquet Files", Schema Merging. Flink's Parquet reader fills missing columns, and
refuses other types.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow
from pyarrow import types as arrow

from penstock.common.time import Instant
from penstock.common.types.basic_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import LIST_TYPES, ExternalTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo
from penstock.common.types.integers import BITS
from penstock.connectors.formats.conversion import decimal_of, integer_of
from penstock.connectors.formats.row_values import row_maker

Convert = Callable[[Any], Any]

_FLOAT_BITS = {BasicType.FLOAT: (32, 24), BasicType.DOUBLE: (64, 53)}
"""All bits, and the bits of integers that the type represents exactly."""
_EPOCH = datetime.datetime(1970, 1, 1)


def conversion_of(stored: pyarrow.DataType, declared: TypeInformation, column: str, as_row: bool) -> Convert | None:
    """Return the conversion from Arrow's values (other than None) to the declared type, or None if it is not needed.

    `as_row`: nested rows become Rows, otherwise dicts. Raise ValueError if the column may have values outside the
    declared type. A pickled type accepts any column.
    """
    if isinstance(declared, ExternalTypeInfo):
        return conversion_of(stored, declared._type_info, column, as_row)
    if arrow.is_dictionary(stored):
        stored = stored.value_type
    if arrow.is_null(stored) or declared.to_arrow() is None:
        return None
    if isinstance(declared, InstantTypeInfo):
        return _instant if arrow.is_timestamp(stored) else _refuse(stored, declared, column)
    if isinstance(declared, BasicTypeInfo):
        return _of_single(stored, declared, column)
    if isinstance(declared, (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, LocalTimeTypeInfo)):
        return _of_time(stored, declared, column)
    return _of_nested(stored, declared, column, as_row)


def _refuse(stored: pyarrow.DataType, declared: TypeInformation, column: str) -> Any:
    raise ValueError(
        f"the column {column} has the type {stored}, whose values do not fit the declared type {declared}: declare "
        "another type"
    )


def _of_single(stored: pyarrow.DataType, declared: BasicTypeInfo, column: str) -> Convert | None:
    kind = declared._basic_type
    is_text = arrow.is_string(stored) or arrow.is_large_string(stored) or arrow.is_string_view(stored)
    integer_bits = stored.bit_width + arrow.is_unsigned_integer(stored) if arrow.is_integer(stored) else 0
    if kind in (BasicType.STRING, BasicType.CHAR):
        return None if is_text else _refuse(stored, declared, column)
    if kind is BasicType.BOOLEAN:
        return None if arrow.is_boolean(stored) else _refuse(stored, declared, column)
    if kind is BasicType.BIG_DEC:
        if arrow.is_decimal(stored):
            return None
        if is_text:
            return decimal_of
        return Decimal if integer_bits else _refuse(stored, declared, column)
    if kind is BasicType.BIG_INT:
        if integer_bits:
            return None
        if is_text:
            return integer_of
        return int if arrow.is_decimal(stored) and stored.scale == 0 else _refuse(stored, declared, column)
    if kind in BITS:
        return None if 0 < integer_bits <= BITS[kind] else _refuse(stored, declared, column)
    bits, exact_bits = _FLOAT_BITS[kind]
    if arrow.is_floating(stored) and stored.bit_width <= bits:
        return None
    return float if 0 < integer_bits <= exact_bits else _refuse(stored, declared, column)


def _of_time(stored: pyarrow.DataType, declared: TypeInformation, column: str) -> Convert | None:
    wanted = declared.to_arrow()
    if arrow.is_timestamp(wanted) and arrow.is_date(stored):
        return lambda day: datetime.datetime(day.year, day.month, day.day)
    for is_same in (arrow.is_date, arrow.is_time, arrow.is_timestamp):
        if is_same(wanted) and is_same(stored):
            return None
    return _refuse(stored, declared, column)  # type: ignore[no-any-return]


def _of_nested(stored: pyarrow.DataType, declared: TypeInformation, column: str, as_row: bool) -> Convert | None:
    if arrow.is_binary(wanted := declared.to_arrow()):
        is_same = arrow.is_binary(stored) or arrow.is_large_binary(stored) or arrow.is_fixed_size_binary(stored)
        return None if is_same else _refuse(stored, declared, column)
    if isinstance(declared, LIST_TYPES) and not arrow.is_map(stored) and _is_list(stored):
        convert = conversion_of(stored.value_type, declared._element_type, f"{column}[]", as_row)
        return None if convert is None else _of_items(_unless_none(convert))
    if isinstance(declared, MapTypeInfo) and arrow.is_map(stored):
        to_key = conversion_of(stored.key_type, declared._key_type_info, f"{column} (key)", as_row)
        to_value = conversion_of(stored.item_type, declared._value_type_info, f"{column} (value)", as_row)
        return _of_pairs(_unless_none(to_key), _unless_none(to_value))
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)) and arrow.is_struct(stored):
        make = tuple if isinstance(declared, TupleTypeInfo) else row_maker(declared.get_field_names(), as_row)
        fields = zip(declared._column_names(), declared.get_field_types(), strict=True)
        present = {field.name: field.type for field in stored}
        converts = [
            (
                name,
                _unless_none(
                    conversion_of(present[name], kind, f"{column}.{name}", as_row) if name in present else None
                ),
            )
            for name, kind in fields
        ]
        return lambda found: make([convert(found.get(name)) for name, convert in converts])
    assert wanted is not None
    return _refuse(stored, declared, column)  # type: ignore[no-any-return]


def _is_list(stored: pyarrow.DataType) -> bool:
    return bool(arrow.is_list(stored) or arrow.is_large_list(stored) or arrow.is_fixed_size_list(stored))


def _unless_none(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _of_items(convert: Convert) -> Convert:
    return lambda items: [convert(item) for item in items]


def _of_pairs(to_key: Convert, to_value: Convert) -> Convert:
    return lambda pairs: {to_key(key): to_value(value) for key, value in pairs}


def _instant(moment: datetime.datetime | int) -> Instant:
    if isinstance(moment, int):
        # A column in nanoseconds: their number since the epoch.
        return Instant(*divmod(moment, 1_000_000_000))
    # Without a zone it is in UTC, like a column of Instants.
    since = (moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)) - _EPOCH
    return Instant(since.days * 86_400 + since.seconds, since.microseconds * 1000)
