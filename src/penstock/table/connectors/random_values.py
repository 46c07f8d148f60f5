"""Random values of the types of SQL for `datagen`: the same for the same number of a row and name of a field."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.fitted import fitted
from penstock.connectors.base.generated_fields import FieldGenerator, FieldGenerators, Numbers
from penstock.connectors.base.split_mix import STEP, Words, mixed

_DIGITS = numpy.frombuffer(b"0123456789abcdef", numpy.uint8)
_NUMBER_MAX = (1 << 62) - 1


class RandomBytes(FieldGenerator):
    """Random bytes of one length."""

    def __init__(self, length: int) -> None:
        self._length = length

    def values(self, numbers: Numbers, name: str) -> Any:
        octets = _octets(numbers, name, self._length)
        return _of_one_length(pyarrow.binary(), octets[:, : self._length])


class RandomTexts(FieldGenerator):
    """Random hexadecimal digits, as Flink's."""

    def __init__(self, length: int) -> None:
        self._length = length

    def values(self, numbers: Numbers, name: str) -> Any:
        octets = _octets(numbers, name, -(-self._length // 2))
        nibbles = numpy.stack([octets >> 4, octets & 15], axis=2).reshape(len(numbers), 2 * octets.shape[1])
        return _of_one_length(pyarrow.string(), _DIGITS[nibbles[:, : self._length]])


class RandomDecimals(FieldGenerator):
    """Random decimals from `low` (0) to `high` (the largest of the type), of at most 18 digits at random."""

    def __init__(self, kind: pyarrow.Decimal128Type, low: float | None, high: float | None) -> None:
        self._kind = kind
        largest = min(10**kind.precision - 1, _NUMBER_MAX)
        least = 0 if low is None else max(round(low * 10**kind.scale), -largest)
        most = largest if high is None else min(round(high * 10**kind.scale), largest)
        self._unscaled = FieldGenerators.random(least, most)

    def values(self, numbers: Numbers, name: str) -> Any:
        integers = pyarrow.array(self._unscaled.values(numbers, name)).cast(pyarrow.decimal128(19, 0))
        # The same integers, with another place of the point.
        return pyarrow.Array.from_buffers(self._kind, len(integers), integers.buffers())


class Converted(FieldGenerator):
    """The integers of another generator as values of another type."""

    def __init__(self, inner: FieldGenerator, kind: pyarrow.DataType) -> None:
        self._inner = inner
        self._kind = kind

    def values(self, numbers: Numbers, name: str) -> Any:
        return pyarrow.array(self._inner.values(numbers, name)).cast(pyarrow.decimal128(19, 0)).cast(self._kind)


class RecentTimes(FieldGenerator):
    """Times up to `past_ms` before the time at which a row is generated, or their dates, or their times of the day."""

    def __init__(self, past_ms: int, kind: pyarrow.DataType) -> None:
        self._past_ms = past_ms
        self._kind = kind

    def values(self, numbers: Numbers, name: str) -> Any:
        from penstock.common.time.wall_clock import now_ms

        past = (_words(numbers, name) % numpy.uint64(self._past_ms + 1)).astype(numpy.int64)
        zone = self._kind.tz if pyarrow.types.is_timestamp(self._kind) else None
        moments = pyarrow.array(now_ms() - past).cast(pyarrow.timestamp("ms", zone))
        return moments.cast(self._kind, safe=False)


class RandomRows(FieldGenerator):
    """Rows of random fields. `parts`: the generators of the fields."""

    def __init__(self, kind: pyarrow.StructType, parts: Sequence[FieldGenerator]) -> None:
        self._fields = [kind.field(place) for place in range(kind.num_fields)]
        self._parts = parts

    def values(self, numbers: Numbers, name: str) -> Any:
        columns = [
            _column(part, field, numbers, f"{name}.{field.name}")
            for part, field in zip(self._parts, self._fields, strict=True)
        ]
        return pyarrow.StructArray.from_arrays(columns, fields=self._fields)


class RandomLists(FieldGenerator):
    """Lists of random elements, or maps of random entries. A key that a map has already is left out, as in Flink."""

    def __init__(self, kind: pyarrow.DataType, parts: Sequence[FieldGenerator], length: int) -> None:
        self._kind = kind
        self._parts = parts
        self._length = length
        is_map = pyarrow.types.is_map(kind)
        self._fields = [kind.key_field, kind.item_field] if is_map else [kind.value_field]

    def values(self, numbers: Numbers, name: str) -> Any:
        length, rows = self._length, len(numbers)
        entries = (numbers[:, None] * length + numpy.arange(length)).reshape(rows * length)
        columns = [
            _column(part, field, entries, f"{name}.{place}")
            for place, (part, field) in enumerate(zip(self._parts, self._fields, strict=True))
        ]
        offsets = numpy.arange(rows + 1, dtype=numpy.int32) * length
        if len(columns) == 1:
            return pyarrow.ListArray.from_arrays(offsets, columns[0])
        kept = _first_places(columns[0].to_pylist(), length)
        offsets = numpy.searchsorted(kept, offsets).astype(numpy.int32)
        return pyarrow.MapArray.from_arrays(offsets, *(column.take(pyarrow.array(kept)) for column in columns))


class WithNulls(FieldGenerator):
    """The values of another generator, a share of which is NULL."""

    def __init__(self, inner: FieldGenerator, rate: float) -> None:
        self._inner = inner
        self._rate = rate

    def values(self, numbers: Numbers, name: str) -> Any:
        values = self._inner.values(numbers, name)
        is_null = (_words(numbers, f"{name} is NULL") >> numpy.uint64(11)).astype(numpy.float64) / (
            1 << 53
        ) < self._rate
        column = values if isinstance(values, pyarrow.Array) else pyarrow.array(values)
        return pyarrow.compute.if_else(pyarrow.array(is_null), pyarrow.scalar(None, column.type), column)


def _words(numbers: Numbers, name: str) -> Words:
    """Return a random word for each number, of a sequence of the field's own."""
    return mixed(numbers.view(numpy.uint64) * STEP + numpy.uint64(zlib.crc32(name.encode())))


def _octets(numbers: Numbers, name: str, count: int) -> Any:
    """Return at least `count` random bytes for each number, in rows."""
    words = -(-count // 8)
    entries = numbers.view(numpy.uint64)[:, None] * numpy.uint64(words) + numpy.arange(words, dtype=numpy.uint64)
    return _words(entries.reshape(-1).view(numpy.int64), name).view(numpy.uint8).reshape(len(numbers), 8 * words)


def _of_one_length(kind: pyarrow.DataType, octets: Any) -> pyarrow.Array:
    rows, length = octets.shape
    offsets = numpy.arange(rows + 1, dtype=numpy.int32) * numpy.int32(length)
    data = numpy.ascontiguousarray(octets)
    return pyarrow.Array.from_buffers(kind, rows, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)])


def _column(part: FieldGenerator, field: pyarrow.Field, numbers: Numbers, name: str) -> pyarrow.Array:
    values = part.values(numbers, name)
    return fitted(values if isinstance(values, pyarrow.Array) else pyarrow.array(values), field)


def _first_places(keys: Sequence[Any], length: int) -> Any:
    """Return the places of keys that are the first of their map, which has `length` keys."""
    seen: set[Any] = set()
    places = []
    for place, key in enumerate(keys):
        if place % length == 0:
            seen = set()
        text = repr(key)
        if text not in seen:
            seen.add(text)
            places.append(place)
    return numpy.array(places, numpy.int64)
