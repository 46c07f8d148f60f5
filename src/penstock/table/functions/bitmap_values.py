"""Bitmaps: sets of unsigned 32-bit integers, in the portable format of Roaring bitmaps.

Source: RoaringFormatSpec, "General layout". A bitmap is held as its bytes, and read into a sorted numpy array.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NO_RUNS = 12346
_WITH_RUNS = 12347
_ARRAY_MAX = 4096
"""A container with more values is a bit set of 8 KiB."""
_NO_OFFSETS_BELOW = 4
_TEXT_LENGTH_MAX = 0x80000


def encoded(values: Any) -> bytes:
    """Return the bytes of a bitmap with these values, which are sorted and distinct."""
    values = np.asarray(values, np.uint32)
    keys, starts = np.unique(values >> 16, return_index=True)
    parts = np.split((values & 0xFFFF).astype("<u2"), starts[1:]) if len(values) else []
    header = struct.pack("<II", _NO_RUNS, len(parts))
    header += b"".join(struct.pack("<HH", key, len(part) - 1) for key, part in zip(keys.tolist(), parts, strict=True))
    bodies = [part.tobytes() if len(part) <= _ARRAY_MAX else _bit_set(part) for part in parts]
    at = len(header) + 4 * len(bodies)
    for body in bodies:
        header += struct.pack("<I", at)
        at += len(body)
    return header + b"".join(bodies)


def _bit_set(part: Any) -> bytes:
    bits = np.zeros(1 << 16, np.uint8)
    bits[part] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def decoded(data: bytes) -> Any:
    """Return the values of a bitmap, sorted. Raises ValueError for other bytes."""
    try:
        return _decoded(data)
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"expected the bytes of a Roaring bitmap, got {data[:16]!r}: {error}") from None


def _decoded(data: bytes) -> Any:
    (cookie,) = struct.unpack_from("<I", data)
    at, runs = 4, b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += len(runs)
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    else:
        raise ValueError(f"unknown cookie {cookie}")
    descriptions = np.frombuffer(data, "<u2", 2 * count, at).reshape(-1, 2)
    at += 4 * count
    if not runs or count >= _NO_OFFSETS_BELOW:
        at += 4 * count
    parts = []
    for index, (key, last) in enumerate(descriptions.tolist()):
        is_run = bool(runs) and bool(runs[index // 8] >> index % 8 & 1)
        part, at = _container(data, at, last + 1, is_run)
        parts.append(part.astype(np.uint32) + np.uint32(key << 16))
    return np.concatenate(parts) if parts else np.array([], np.uint32)


def _container(data: bytes, at: int, cardinality: int, is_run: bool) -> tuple[Any, int]:
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        runs = np.frombuffer(data, "<u2", 2 * count, at + 2).reshape(-1, 2).tolist()
        values = [np.arange(start, start + length + 1) for start, length in runs]
        return np.concatenate(values) if values else np.array([], np.int64), at + 2 + 4 * count
    if cardinality > _ARRAY_MAX:
        bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, at), bitorder="little")
        return np.flatnonzero(bits), at + 8192
    return np.frombuffer(data, "<u2", cardinality, at), at + 2 * cardinality


def text_of(values: Any) -> str:
    """Return a bitmap as `{1,2,3}`, and `,...}` after half a million characters."""
    parts: list[str] = []
    length = 0
    for value in values.tolist():
        if length > _TEXT_LENGTH_MAX:
            parts.append("...")
            break
        parts.append(str(value))
        length += len(parts[-1]) + 1
    return "{" + ",".join(parts) + "}"
