"""Key groups of keys of several columns: those of tuples as Python objects (`engine/state/keys.py`), without these.

A tuple is encoded as its length and its parts, one behind the other. The CRC of two texts in a row is that of the first
one, shifted by the length of the second, XOR that of the second. A shift is linear: four looks into a table.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.keys import coded_keys
from penstock.engine.runtime.columns.text_codes import codes_of_texts
from penstock.engine.state.arrays.integer_groups import codes_of_integers, groups_of_codes
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.keys import encode_key

_BYTES_OF_CODE = 4
_ALL = 0xFFFFFFFF


def groups_of_tuples(columns: Sequence[pyarrow.Array], max_parallelism: int, *, exact: bool = False) -> Integers:
    """Return the key group of each row. Raises KeyTypeError if a value can't be a key. `exact`: see `keys.py`."""
    # What an encoded tuple begins with: that of no part has nothing else, but for the number of parts at its end.
    empty = encode_key(())
    beginning = empty[:-1] + bytes([len(columns)])
    codes = numpy.full(len(columns[0]), zlib.crc32(beginning), numpy.uint32)
    for column in columns:
        codes = _appended(codes, *_codes_of(column, exact))
    return groups_of_codes(codes, max_parallelism)


def _codes_of(column: pyarrow.Array, exact: bool = False) -> tuple[Any, Integers]:
    """Return the CRC of each value's encoding, and its length."""
    if column.null_count and _has_codes(column.type):
        return _with_nulls(column)
    if pyarrow.types.is_signed_integer(column.type):
        return codes_of_integers(column.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False))
    if pyarrow.types.is_string(column.type):
        encoded = column.dictionary_encode()
        codes, lengths = codes_of_texts(encoded.dictionary)
        places = encoded.indices.to_numpy()
        return codes[places], lengths[places]
    values, places = coded_keys(column, exact=exact)
    keys = [encode_key(value) for value in values]
    codes = numpy.array([zlib.crc32(one) for one in keys], numpy.uint32)
    return codes[places], numpy.array([len(one) for one in keys], numpy.int64)[places]


def _has_codes(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_signed_integer(kind) or pyarrow.types.is_string(kind))


def _with_nulls(column: pyarrow.Array) -> tuple[Any, Integers]:
    null = encode_key(None)
    codes = numpy.full(len(column), zlib.crc32(null), numpy.uint32)
    lengths = numpy.full(len(column), len(null), numpy.int64)
    if column.null_count < len(column):
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        codes[valid], lengths[valid] = _codes_of(column.drop_null())
    return codes, lengths


def _appended(codes: Any, more: Any, lengths: Integers) -> Any:
    """Return the CRCs of what `codes` are the CRCs of, followed by what `more` are the CRCs of, of these lengths."""
    found = numpy.zeros(int(lengths.max()) + 1, numpy.int64)
    distinct = numpy.flatnonzero(numpy.bincount(lengths))
    found[distinct] = numpy.arange(len(distinct))
    tables = numpy.stack([_shift(length) for length in distinct.tolist()])
    of_rows = found[lengths]
    shifted = tables[of_rows, 0, codes & 0xFF]
    for byte in range(1, _BYTES_OF_CODE):
        shifted ^= tables[of_rows, byte, (codes >> numpy.uint32(8 * byte)) & 0xFF]
    return shifted ^ more


@functools.lru_cache(maxsize=1024)
def _shift(length: int) -> Any:
    """Return for each byte of a CRC, and each of its values, what it is behind so many bytes more."""
    table = numpy.zeros((_BYTES_OF_CODE, 256), numpy.uint32)
    zeros = bytes(length)
    for bit in range(8 * _BYTES_OF_CODE):
        # Without the inversions before and behind that zlib makes, a CRC is linear.
        image = zlib.crc32(zeros, (1 << bit) ^ _ALL) ^ _ALL
        byte, value = bit // 8, 1 << bit % 8
        table[byte, value : 2 * value] = table[byte, :value] ^ numpy.uint32(image)
    return table
