"""Read a column as values of a declared type, whatever type the column has.

Columns of savepoints are wider than declared, those of Spark have the zone of a session, and files have the types of
the day on which they were written. `check_fits` tells before a column is read whether the declared type has all values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.families import is_bytes, is_list, is_text
from penstock.common.columns.to_values import python_values
from penstock.common.time import Instant
from penstock.common.types.basic_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import (
    BYTES,
    LIST_TYPES,
    ExternalTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.types.record_fields import dict_factory

Reader = Callable[[pyarrow.Array], list[Any]]
"""Returns the values of a column, None for null. Raises what `python_values` raises."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Form(NamedTuple):
    """Options of reading, for points that the declared type does not determine."""

    rows_are_dicts: bool = False
    """Whether nested rows become dicts."""
    keeps_zones: bool = False
    """Whether a SQL_TIMESTAMP keeps the zone of its column. Otherwise it is the time in UTC, without a zone."""
    of_texts: Mapping[BasicType, Callable[[str], Any]] = MappingProxyType(
        {BasicType.BIG_INT: int, BasicType.BIG_DEC: Decimal}
    )
    """The numbers in columns of texts."""


AS_DECLARED = Form()


def typed_values(column: pyarrow.Array | pyarrow.ChunkedArray, declared: TypeInformation) -> list[Any]:
    """Return the values of a column, see `reader_of`."""
    read = reader_of(column.type, declared)
    if isinstance(column, pyarrow.ChunkedArray):
        return [value for chunk in column.chunks for value in read(chunk)]
    return read(column)


def reader_of(stored: pyarrow.DataType, declared: TypeInformation, form: Form = AS_DECLARED) -> Reader:
    """Return the function that reads columns of the type `stored` as values of the type `declared`.

    Values of a pickled type are read as they are. Raises TypeError if no value of the column is of the type.
    """
    if isinstance(declared, ExternalTypeInfo):
        return reader_of(stored, declared._type_info, form)
    if isinstance(declared, LocalTimeTypeInfo):
        return reader_of(stored, declared._same, form)
    if arrow.is_null(stored) or isinstance(declared, PickledBytesTypeInfo):
        return python_values
    if arrow.is_dictionary(stored):
        read = reader_of(stored.value_type, declared, form)
        return lambda column: read(column.dictionary_decode())
    if isinstance(declared, InstantTypeInfo) and arrow.is_timestamp(stored):
        return _instants(_PER_SECOND[stored.unit])
    if isinstance(declared, BasicTypeInfo) and not isinstance(declared, InstantTypeInfo):
        return _single(stored, declared._basic_type, form)
    if isinstance(declared, TimestampTypeInfo) and arrow.is_timestamp(stored):
        return python_values if stored.tz is None or form.keeps_zones else _after_cast(pyarrow.timestamp(stored.unit))
    if isinstance(declared, TimestampTypeInfo) and arrow.is_date(stored):
        return _after_cast(pyarrow.timestamp("s" if arrow.is_date32(stored) else "ms"))
    if (isinstance(declared, DateTypeInfo) and arrow.is_date(stored)) or (
        isinstance(declared, TimeTypeInfo) and arrow.is_time(stored)
    ):
        return python_values
    return _nested(stored, declared, form)


def _single(stored: pyarrow.DataType, kind: BasicType, form: Form) -> Reader:
    if kind in form.of_texts and is_text(stored):
        return _each(form.of_texts[kind])
    if kind is BasicType.BIG_DEC and arrow.is_integer(stored):
        return _each(Decimal)
    if kind is BasicType.BIG_INT and arrow.is_decimal(stored):
        return _each(int)
    if kind in (BasicType.FLOAT, BasicType.DOUBLE) and arrow.is_integer(stored):
        return _after_cast(pyarrow.float64())
    return python_values


def _each(convert: Callable[[Any], Any]) -> Reader:
    return lambda column: [None if value is None else convert(value) for value in python_values(column)]


def _after_cast(kind: pyarrow.DataType) -> Reader:
    return lambda column: python_values(column.cast(kind))


def _instants(per_second: int) -> Reader:
    """Read the numbers, which have no bounds, and all nanoseconds. A column without a zone is in UTC."""
    nanos = 1_000_000_000 // per_second

    def read(column: pyarrow.Array) -> list[Any]:
        return [
            None if moment is None else Instant(moment // per_second, moment % per_second * nanos)
            for moment in python_values(column.cast(pyarrow.int64()))
        ]

    return read


def _nested(stored: pyarrow.DataType, declared: TypeInformation, form: Form) -> Reader:
    if isinstance(declared, LIST_TYPES):
        if is_list(stored):
            return _lists(reader_of(stored.value_type, declared._element_type, form))
        if is_bytes(stored) and declared == BYTES:
            return python_values
    if isinstance(declared, MapTypeInfo) and arrow.is_map(stored):
        keys = reader_of(stored.key_type, declared._key_type_info, form)
        return _maps(keys, reader_of(stored.item_type, declared._value_type_info, form))
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)) and arrow.is_struct(stored):
        names = declared._column_names()
        positions = {field.name: index for index, field in enumerate(stored)}
        if len(positions) == stored.num_fields:
            readers = [
                (at, reader_of(stored.field(at).type, kind, form))
                if (at := positions.get(name)) is not None
                else (None, python_values)
                for name, kind in zip(names, declared.get_field_types(), strict=True)
            ]
            is_dict = form.rows_are_dicts and isinstance(declared, RowTypeInfo)
            return _structs(readers, dict_factory(names) if is_dict else declared._factory())
    raise TypeError(f"a column of the type {stored} has no values of the type {declared}")


def _lists(read_items: Reader) -> Reader:
    if read_items is python_values:
        return python_values

    def read(column: pyarrow.Array) -> list[Any]:
        return _cut(read_items(column.flatten()), column)

    return read


def _maps(read_keys: Reader, read_items: Reader) -> Reader:
    if read_keys is read_items is python_values:
        return _each(dict)

    def read(column: pyarrow.Array) -> list[Any]:
        # `keys` and `items` of a slice would be those of the whole column.
        lists = column.cast(pyarrow.list_(column.type.field(0)))
        keys, items = lists.flatten().flatten()
        pairs = list(zip(read_keys(keys), read_items(items), strict=True))
        return [None if some is None else dict(some) for some in _cut(pairs, lists)]

    return read


def _cut(items: list[Any], column: pyarrow.Array) -> list[list[Any] | None]:
    """Return the items of each list of a column."""
    lists: list[list[Any] | None] = []
    end = 0
    for length in python_values(compute.list_value_length(column)):
        start, end = end, end + (length or 0)
        lists.append(None if length is None else items[start:end])
    return lists


def _structs(readers: Sequence[tuple[int | None, Reader]], make: Callable[[Sequence[Any]], Any]) -> Reader:
    """`readers`: the position of each field, None if it is missing, and its reader."""

    def read_present(column: pyarrow.Array) -> list[Any]:
        if not readers:
            return [make(()) for _ in range(len(column))]
        fields = [
            repeat(None, len(column)) if at is None else read_field(compute.struct_field(column, [at]))
            for at, read_field in readers
        ]
        return list(map(make, zip(*fields, strict=True)))

    def read(column: pyarrow.Array) -> list[Any]:
        if not column.null_count:
            return read_present(column)
        is_present = column.is_valid()
        present = iter(read_present(column.filter(is_present)))
        return [next(present) if here else None for here in python_values(is_present)]

    return read
