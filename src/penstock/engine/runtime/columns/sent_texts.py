"""The forms in which texts and bytes are sent: lengths in place of offsets, or each distinct value once."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.memory_of_arrays import array_of, offsets_of, validity_of, values_in
from penstock.engine.runtime.columns.narrow import Narrowed, narrow, widen
from penstock.engine.runtime.network import worth
from penstock.engine.runtime.network.worth import Cost

_LENGTHS = Cost(call_ns=16_000, row_ns=0.8)
_DISTINCT = Cost(call_ns=40_000, row_ns=17)
"""A call takes 25,000 ns; the rest is for samples of columns without repeated values."""
_OFFSET_SAVED = 3
"""A length takes a byte, an offset four."""
_SAMPLE_MIN = 64
_SAMPLED = 32
"""A sample has so many neighbors, one of so many rows: do they have few values, so has the column."""
_DISTINCT_MAX = 0.75
"""If more of the sample are distinct, a dictionary is too long."""
_LENGTH_MAX = 256
"""The longest average of values for a dictionary (bytes): the bytes of a buffer limit its rows, so a buffer of longer
values could become gigabytes when it is decoded."""

Texts = tuple[Narrowed, bytes, "bytes | None"]
"""Lengths, all values one behind the other, and which rows have a value."""
Distinct = tuple[str, bytes, int, bytes, bytes, "bytes | None"]
"""NumPy's name of the type of numbers, the number of each row's value; and how many values there are, their offsets,
all values, and which of them are not null."""


def texts(column: pyarrow.Array, byte_ns: float) -> Texts | None:
    """Return the texts with narrowed lengths; None if to send them as they are takes less time."""
    rows = len(column)
    if not worth.pays(rows * _OFFSET_SAVED, rows, _LENGTHS, byte_ns):
        return None
    offsets = _offsets(column)
    narrowed = narrow(numpy.diff(offsets), byte_ns)
    return None if narrowed is None else (narrowed, _values(column, offsets), validity_of(column))


def of_texts(sent: Texts, kind: pyarrow.DataType, rows: int) -> pyarrow.Array:
    """Return the column of `texts`."""
    lengths, values, validity = sent
    offsets = numpy.zeros(rows + 1, offsets_of(kind))
    numpy.cumsum(widen(lengths, offsets.dtype, rows), out=offsets[1:])
    return array_of(kind, rows, validity, [offsets, values])


def distinct(column: pyarrow.Array, byte_ns: float) -> Distinct | None:
    """Return each distinct value once, and a number for each row; None if that takes more time than it saves."""
    rows = len(column)
    # At least a byte for each row is sent, and some values.
    saved = column.nbytes - rows
    if saved > rows * _LENGTH_MAX or not worth.pays(saved, rows, _DISTINCT, byte_ns) or not _is_repeated(column):
        return None
    encoded = column.dictionary_encode(null_encoding="encode")
    dictionary, count = encoded.dictionary, len(encoded.dictionary)
    number = "u1" if count <= 1 << 8 else "u2"
    numbers, offsets = values_in(encoded.indices, 1, "i4", rows), _offsets(dictionary)
    values = _values(dictionary, offsets)
    saved -= len(values) + offsets.nbytes + rows * (numpy.dtype(number).itemsize - 1)
    # What the attempt has cost is spent.
    if saved <= 0 or count > 1 << 16:
        return None
    return number, numbers.astype(number).tobytes(), count, offsets.tobytes(), values, validity_of(dictionary)


def of_distinct(sent: Distinct, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the column of `distinct`."""
    number, numbers, count, offsets, values, validity = sent
    dictionary = array_of(kind, count, validity, [offsets, values])
    return dictionary.take(pyarrow.array(numpy.frombuffer(numbers, number)))


def _is_repeated(column: pyarrow.Array) -> bool:
    sample = column.slice(len(column) // 2, max(_SAMPLE_MIN, len(column) // _SAMPLED))
    return len(sample.unique()) <= _DISTINCT_MAX * len(sample)


def _offsets(column: pyarrow.Array) -> Any:
    return values_in(column, 1, offsets_of(column.type), len(column) + 1)


def _values(column: pyarrow.Array, offsets: Any) -> bytes:
    first, last = int(offsets[0]), int(offsets[-1])
    return column.buffers()[2][first:last].to_pybytes() if last > first else b""
