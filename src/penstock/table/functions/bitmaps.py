"""Functions of bitmaps: sets of 32-bit integers, which are unsigned in text and signed in arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.functions.bitmap_values import decoded, encoded, text_of
from penstock.table.functions.columns import Column, per_row
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.registry import Call, Family
from penstock.table.logical_types import BIGINT, BYTES, INT, STRING, LogicalType, array_of

FAMILY = Family()
BITMAP = LogicalType("BITMAP")
_ONE = "bitmap <BITMAP>"
_TWO = "bitmap1 <BITMAP>, bitmap2 <BITMAP>"
_ARRAY_MAX = 2**31 - 1


def _register(name: str, operation: Callable[..., Any]) -> None:
    @FAMILY.values(name, _TWO, result=BITMAP)
    def _(left: bytes, right: bytes) -> bytes:
        return encoded(operation(decoded(left), decoded(right), assume_unique=True))


def _union(left: Any, right: Any, *, assume_unique: bool) -> Any:
    return np.union1d(left, right)


_register("BITMAP_AND", np.intersect1d)
_register("BITMAP_ANDNOT", np.setdiff1d)
_register("BITMAP_OR", _union)
_register("BITMAP_XOR", np.setxor1d)


@FAMILY.kernel("BITMAP_BUILD", signatures=["array ARRAY<INT> NOT NULL", "array ARRAY<INT>"], result=BITMAP)
def bitmap_build(call: Call) -> Column:
    """Make a bitmap of the integers in an array; NULL is left out."""

    def built(values: list[int | None]) -> bytes:
        known = np.array([value & 0xFFFFFFFF for value in values if value is not None], np.uint32)
        return encoded(np.unique(known))

    return per_row(built, call.columns, pa.binary())


@FAMILY.values("BITMAP_CARDINALITY", _ONE, result=BIGINT)
def bitmap_cardinality(data: bytes) -> int:
    """Return the number of integers."""
    return len(decoded(data))


@FAMILY.values("BITMAP_FROM_BYTES", "bytes <BINARY_STRING>", result=BITMAP)
def bitmap_from_bytes(data: bytes) -> bytes:
    """Read a bitmap from the portable format of Roaring bitmaps."""
    try:
        return encoded(decoded(data))
    except ValueError as error:
        raise FunctionError(f"Failed to deserialize bitmap from bytes. {error}") from None


@FAMILY.values("BITMAP_TO_BYTES", _ONE, result=BYTES)
def bitmap_to_bytes(data: bytes) -> bytes:
    """Return the portable format."""
    return data


@FAMILY.values("BITMAP_TO_ARRAY", _ONE, result=array_of(INT))
def bitmap_to_array(data: bytes) -> list[int]:
    """Return the integers in an array, in the order of unsigned ones."""
    values = decoded(data)
    if len(values) > _ARRAY_MAX:
        raise FunctionError("Failed to convert bitmap to an array. It has too many values.")
    return [int(value) for value in values.astype(np.int32)]


@FAMILY.values("BITMAP_TO_STRING", _ONE, result=STRING)
def bitmap_to_string(data: bytes) -> str:
    """Return the integers as text: `{1,2,3}`."""
    return text_of(decoded(data))
