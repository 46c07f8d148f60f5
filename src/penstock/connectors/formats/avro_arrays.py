"""Read values of Avro as arrays: each reader takes the values of many records at once.

A reader returns the same values as fastavro, converted to the same type of column, or raises: UnusualError, or an
error of Arrow. Then the reader of single records decides.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.connectors.formats.avro_bytes import AvroBytes, Positions, UnusualError
from penstock.connectors.formats.avro_plain import DAYS, FIXED_BYTES, MICROSECONDS, PlainTypes, check_bounds

Reader = Callable[[AvroBytes, Positions], tuple[Any, Positions]]
"""Returns the array of the values at these positions, or None if it only skips them, and the positions behind them."""

_TIMES_OF_DAY = (0, 24 * 60 * 60 * 1_000_000 - 1)
_DECIMAL_BYTES = 16


def reader_of(types: PlainTypes, schema: Any, kind: pyarrow.DataType | None) -> Reader | None:
    """Return the reader of a type as a column of this type, None if there is none.

    `kind` None: it only skips values.
    """
    if isinstance(schema, list):
        value = types.value_branch(schema)
        read = reader_of(types, value, kind)
        return None if read is None else _nullable(read, schema.index(value))
    definition, base = types.definition(schema)
    if base == "record":
        return _struct(types, definition, kind)
    if kind is None:
        return _skipper(base, definition)
    logical = definition.get("logicalType") if isinstance(definition, dict) else None
    make = _LOGICAL.get(f"{base}-{logical}") or (None if f"{base}-{logical}" in _OTHERS else _SINGLE.get(base))
    return None if make is None else make(definition, kind)


def fields_reader(
    types: PlainTypes, record: Any, kinds: dict[str, pyarrow.DataType]
) -> Callable[[AvroBytes, Positions], tuple[dict[str, pyarrow.Array], Positions]] | None:
    """Return the reader of those fields of a record that are in `kinds`; None if a field has no reader."""
    readers = [(field["name"], reader_of(types, field["type"], kinds.get(field["name"]))) for field in record["fields"]]
    if any(read is None for _, read in readers) or not kinds.keys() <= {name for name, _ in readers}:
        return None

    def read_fields(data: AvroBytes, positions: Positions) -> tuple[dict[str, pyarrow.Array], Positions]:
        found = {}
        for name, read in readers:
            assert read is not None
            found[name], positions = read(data, positions)
        return {name: found[name] for name in kinds}, positions

    return read_fields


def _struct(types: PlainTypes, record: Any, kind: pyarrow.DataType | None) -> Reader | None:
    fields = [] if kind is None else list(kind) if arrow.is_struct(kind) else None
    if fields is None or any(not field.nullable for field in fields):
        return None
    names = {field["name"] for field in record["fields"]}
    if kind is not None and (not names or {field.name for field in fields} != names or len(fields) != len(names)):
        return None
    read_fields = fields_reader(types, record, {field.name: field.type for field in fields})
    if read_fields is None:
        return None

    def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
        found, after = read_fields(data, positions)
        return None if kind is None else pyarrow.StructArray.from_arrays(list(found.values()), fields=fields), after

    return read


def _nullable(read_values: Reader, branch: int) -> Reader:
    """Return the reader of a union with null. `branch`: the position of the other type."""

    def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
        branches = data.bytes_at(positions)
        is_value = branches == 2 * branch
        if not (is_value | (branches == 2 * (1 - branch))).all():
            raise UnusualError
        after = positions + 1
        if is_value.all():
            return read_values(data, after)
        found, after[is_value] = read_values(data, after[is_value])
        if found is None:
            return None, after
        return found.take(pyarrow.array(numpy.cumsum(is_value) - 1, mask=~is_value)), after

    return read


def _skipper(base: str, definition: Any) -> Reader:
    if base in ("int", "long", "enum"):
        return lambda data, positions: (None, data.longs_at(positions)[1])
    if base in ("string", "bytes"):
        bounds = _bounds_of(definition)
        return lambda data, positions: (None, bounds(data, positions)[1])
    size = definition["size"] if base == "fixed" else FIXED_BYTES[base]
    return lambda data, positions: (None, positions + size)


def _booleans(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    if not arrow.is_boolean(kind):
        return None
    return lambda data, positions: (pyarrow.array(data.bytes_at(positions) != 0), positions + 1)


def _integers(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    if not arrow.is_integer(kind):
        return None

    def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
        found, after = data.longs_at(positions)
        # Raises ArrowInvalid for one that is out of bounds.
        return pyarrow.array(found).cast(kind), after

    return read


def _floats(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    if kind not in (pyarrow.float32(), pyarrow.float64()):
        return None
    return lambda data, positions: (pyarrow.array(data.words_at(positions, "<f4")[::2]).cast(kind), positions + 4)


def _doubles(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    if kind != pyarrow.float64():
        return None
    return lambda data, positions: (pyarrow.array(data.words_at(positions, "<f8")), positions + 8)


def _texts(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    # Raises ArrowInvalid for bytes that are not UTF-8.
    return _byte_strings(definition, kind) if arrow.is_string(kind) or arrow.is_large_string(kind) else None


def _bytes(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    return _byte_strings(definition, kind) if arrow.is_binary(kind) or arrow.is_large_binary(kind) else None


def _byte_strings(definition: Any, kind: pyarrow.DataType) -> Reader:
    bounds = _bounds_of(definition)

    def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
        starts, ends = bounds(data, positions)
        return data.slices(starts, ends).cast(kind), ends

    return read


def _bounds_of(definition: Any) -> Callable[[AvroBytes, Positions], tuple[Positions, Positions]]:
    """Return the function to the first byte and the end of texts, bytes or fixed values."""
    if isinstance(definition, dict) and definition["type"] == "fixed":
        size = definition["size"]
        return lambda data, positions: (positions, positions + size)

    def bounds(data: AvroBytes, positions: Positions) -> tuple[Positions, Positions]:
        lengths, starts = data.lengths_at(positions)
        return starts, starts + lengths

    return bounds


def _enums(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    if not arrow.is_string(kind) and not arrow.is_large_string(kind):
        return None
    symbols = pyarrow.array(definition["symbols"], kind)

    def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
        found, after = data.longs_at(positions)
        check_bounds(found, (0, len(symbols) - 1))
        return symbols.take(pyarrow.array(found)), after

    return read


def _decimals(definition: Any, kind: pyarrow.DataType) -> Reader | None:
    precision, scale = definition["precision"], definition.get("scale", 0)
    if not arrow.is_decimal128(kind) or precision > kind.precision or scale != kind.scale:
        return None
    bounds = _bounds_of(definition)
    # fastavro rounds one of more digits.
    too_large = Decimal(1).scaleb(precision - scale) if precision < kind.precision else None

    def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
        starts, ends = bounds(data, positions)
        if (ends - starts > _DECIMAL_BYTES).any() or (ends == starts).any():
            raise UnusualError
        # Of little endian, and 128 bits: the bytes before the first one are those of its sign.
        numbers = numpy.empty((len(starts), _DECIMAL_BYTES), numpy.uint8)
        numbers[:] = numpy.where(data.bytes_at(starts) & 0x80, 0xFF, 0)[:, None]
        for index in range(_DECIMAL_BYTES):
            has_byte = ends - index > starts
            numbers[has_byte, index] = data.bytes_at(ends[has_byte] - 1 - index)
        found = pyarrow.Array.from_buffers(kind, len(starts), [None, pyarrow.py_buffer(numbers)])
        found.validate(full=True)
        if too_large is not None and compute.any(compute.greater_equal(compute.abs(found), too_large)).as_py():
            raise UnusualError
        return found, ends

    return read


def _units(kinds: Callable[[pyarrow.DataType], bool], bounds: tuple[int, int], factor: int = 1) -> Any:
    """Return a maker of readers of times, whose values in microseconds (days, if of dates) are in these bounds."""

    def make(definition: Any, kind: pyarrow.DataType) -> Reader | None:
        if not kinds(kind):
            return None

        def read(data: AvroBytes, positions: Positions) -> tuple[Any, Positions]:
            found, after = data.longs_at(positions)
            check_bounds(found, (-(-bounds[0] // factor), bounds[1] // factor))
            values = pyarrow.array(found * factor)
            return (values.cast(pyarrow.int32()) if arrow.is_date32(kind) else values).cast(kind), after

        return read

    return make


def _is_instant(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None)


def _is_local(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_timestamp(kind) and kind.unit == "us" and kind.tz is None)


def _is_time(kind: pyarrow.DataType) -> bool:
    return bool(kind == pyarrow.time64("us"))


_SINGLE: dict[str, Callable[[Any, pyarrow.DataType], Reader | None]] = {
    "boolean": _booleans,
    "int": _integers,
    "long": _integers,
    "float": _floats,
    "double": _doubles,
    "string": _texts,
    "bytes": _bytes,
    "fixed": _bytes,
    "enum": _enums,
}
_LOGICAL: dict[str, Callable[[Any, pyarrow.DataType], Reader | None]] = {
    "int-date": _units(arrow.is_date32, DAYS),
    "int-time-millis": _units(_is_time, _TIMES_OF_DAY, 1000),
    "long-time-micros": _units(_is_time, _TIMES_OF_DAY),
    "long-timestamp-millis": _units(_is_instant, MICROSECONDS, 1000),
    "long-timestamp-micros": _units(_is_instant, MICROSECONDS),
    "long-local-timestamp-millis": _units(_is_local, MICROSECONDS, 1000),
    "long-local-timestamp-micros": _units(_is_local, MICROSECONDS),
    "bytes-decimal": _decimals,
    "fixed-decimal": _decimals,
}
_OTHERS = ("string-uuid", "fixed-uuid")
"""Logical types whose values in Python are objects that columns do not take."""
