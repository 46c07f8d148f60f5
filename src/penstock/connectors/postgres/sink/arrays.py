"""Columns of Arrow as arrays of PostgreSQL, in its binary form: one parameter has all values of a column.

An array is a header and its elements; an element is its length (-1 for null) and its bytes, big-endian. NumPy and Arrow
write a whole column at once. Source: PostgreSQL's `array_send` and the send functions of the types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.connectors.postgres.sink.array_parameters import EncodedArray

_HEADER = struct.Struct(">iIIii")
"""Dimensions, whether there are nulls, the element's type, the number of elements, the first index."""
_LENGTH_BYTES = 4
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
"""PostgreSQL counts from 2000-01-01."""


class ArrayType(NamedTuple):
    """The type of an array's elements, and how a column becomes their numbers.

    `numbers`: of this form; None for texts and bytes. `cast`: the type that the server makes of each element.
    """

    name: str
    oid: int
    form: str | None = None
    numbers: Callable[[pyarrow.Array], pyarrow.Array] | None = None
    cast: str | None = None


def _as(kind: pyarrow.DataType) -> Callable[[pyarrow.Array], pyarrow.Array]:
    return lambda column: column.cast(kind)


def _since_2000(column: pyarrow.Array) -> pyarrow.Array:
    microseconds = column.cast(pyarrow.timestamp("us", column.type.tz)).cast(pyarrow.int64())
    return compute.subtract_checked(microseconds, _MICROSECONDS_TO_2000)


def _days_since_2000(column: pyarrow.Array) -> pyarrow.Array:
    return compute.subtract_checked(column.cast(pyarrow.int32()), _DAYS_TO_2000)


def _microseconds(column: pyarrow.Array) -> pyarrow.Array:
    return column.cast(pyarrow.time64("us")).cast(pyarrow.int64())


_BOOL = ArrayType("bool", 16, "u1", _as(pyarrow.uint8()))
_INT8 = ArrayType("int8", 20, ">i8", _as(pyarrow.int64()))
_FLOAT8 = ArrayType("float8", 701, ">f8", _as(pyarrow.float64()))
_DATE = ArrayType("date", 1082, ">i4", _days_since_2000)
_TIME = ArrayType("time", 1083, ">i8", _microseconds)
_TIMESTAMP = ArrayType("timestamp", 1114, ">i8", _since_2000)
_TIMESTAMPTZ = ArrayType("timestamptz", 1184, ">i8", _since_2000)
_BYTEA = ArrayType("bytea", 17)
TEXT = ArrayType("text", 25)
_NUMERIC = ArrayType("text", 25, cast="numeric")


def array_type(kind: pyarrow.DataType) -> ArrayType | None:
    """Return the array for a column: psycopg has the same type for its values. None: there is no such array.

    Nanoseconds are written as records, whose conversion to microseconds names a value that would lose some.
    """
    if arrow.is_dictionary(kind):
        return array_type(kind.value_type)
    if arrow.is_boolean(kind):
        return _BOOL
    if arrow.is_integer(kind) and kind != pyarrow.uint64():
        return _INT8
    if arrow.is_float32(kind) or arrow.is_float64(kind):
        return _FLOAT8
    if arrow.is_string(kind) or arrow.is_large_string(kind):
        return TEXT
    if arrow.is_binary(kind) or arrow.is_large_binary(kind):
        return _BYTEA
    if arrow.is_decimal128(kind) or arrow.is_decimal256(kind):
        return _NUMERIC
    if arrow.is_date32(kind):
        return _DATE
    if arrow.is_temporal(kind) and getattr(kind, "unit", "ns") != "ns":
        return _of_time(kind)
    return None


def _of_time(kind: pyarrow.DataType) -> ArrayType | None:
    if arrow.is_timestamp(kind):
        return _TIMESTAMP if kind.tz is None else _TIMESTAMPTZ
    return _TIME if arrow.is_time(kind) else None


def encoded(column: pyarrow.Array) -> EncodedArray:
    """Return a column, which is not empty, as an array of its `array_type`. Raises pyarrow.ArrowInvalid."""
    kind = array_type(column.type)
    assert kind is not None
    if arrow.is_dictionary(column.type):
        column = column.dictionary_decode()
    header = _HEADER.pack(1, column.null_count > 0, kind.oid, len(column), 1)
    if kind.form is None or kind.numbers is None:
        return EncodedArray(header + _of_bytes(column.cast(pyarrow.string()) if kind is _NUMERIC else column))
    return EncodedArray(header + _of_numbers(kind.numbers(column), kind.form))


def _of_numbers(column: pyarrow.Array, form: str) -> bytes:
    elements = numpy.empty(len(column), [("length", ">i4"), ("value", form)])
    elements["length"] = elements.dtype["value"].itemsize
    elements["value"] = column.fill_null(0).to_numpy(zero_copy_only=False)
    if not column.null_count:
        return elements.tobytes()
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    elements["length"][is_null] = -1
    rows = elements.view(numpy.uint8).reshape(len(column), -1)
    is_sent = numpy.ones(rows.shape, bool)
    is_sent[is_null, _LENGTH_BYTES:] = False
    return rows[is_sent].tobytes()


def _of_bytes(column: pyarrow.Array) -> bytes:
    lengths = compute.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(">i4")
    offsets = numpy.arange(0, lengths.nbytes + 1, _LENGTH_BYTES, dtype=numpy.int64)
    heads = pyarrow.Array.from_buffers(
        pyarrow.large_binary(), len(column), [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(lengths)]
    )
    values = column.cast(pyarrow.large_binary()).fill_null(b"")
    joined = compute.binary_join_element_wise(heads, values, pyarrow.scalar(b"", pyarrow.large_binary()))
    _, ends, data = joined.buffers()
    size = int(numpy.frombuffer(ends, numpy.int64)[len(column)])
    return data.slice(0, size).to_pybytes()  # type: ignore[no-any-return]
