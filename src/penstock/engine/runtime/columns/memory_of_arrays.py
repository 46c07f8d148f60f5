"""The memory of Arrow's arrays as arrays of NumPy, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

_WIDTHS = (8, 16, 32, 64)
_INTEGERS = {
    **{pyarrow.type_for_alias(f"{sign}int{width}").id: f"{sign}int{width}" for sign in ("", "u") for width in _WIDTHS},
    **{kind.id: "int32" for kind in (pyarrow.date32(), pyarrow.time32("s"))},
    **{kind("ns").id: "int64" for kind in (pyarrow.time64, pyarrow.timestamp, pyarrow.duration)},
    pyarrow.date64().id: "int64",
}
_OFFSETS = {
    **{kind.id: "int32" for kind in (pyarrow.string(), pyarrow.binary())},
    **{kind.id: "int64" for kind in (pyarrow.large_string(), pyarrow.large_binary())},
}


def integers_of(kind: pyarrow.DataType) -> str | None:
    """Return NumPy's name of the integers that a column consists of, such as those of its times; None if of others."""
    return _INTEGERS.get(kind.id)


def offsets_of(kind: pyarrow.DataType) -> str | None:
    """Return NumPy's name of the offsets of a column of texts or bytes; None if it has others."""
    return _OFFSETS.get(kind.id)


def values_in(column: pyarrow.Array, place: int, kind: Any, count: int) -> Any:
    """Return `count` values of a column's buffer, from its first row on, as an array of NumPy."""
    kind = numpy.dtype(kind)
    return numpy.frombuffer(column.buffers()[place], kind, count, column.offset * kind.itemsize)


def validity_of(column: pyarrow.Array) -> bytes | None:
    """Return a bit for each row, set if it has a value, as Arrow has them; None without nulls."""
    if not column.null_count:
        return None
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    return numpy.packbits(is_valid, bitorder="little").tobytes()


def array_of(kind: pyarrow.DataType, rows: int, validity: bytes | None, content: Sequence[Any]) -> pyarrow.Array:
    """Return an array with these buffers, without a copy."""
    first = None if validity is None else pyarrow.py_buffer(validity)
    return pyarrow.Array.from_buffers(kind, rows, [first, *map(pyarrow.py_buffer, content)])
