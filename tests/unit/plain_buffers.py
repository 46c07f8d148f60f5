"""Buffers for tests, in which a chunk of rows is a pair of lists: values and timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.buffer import Header, decode_items, encode


def encoded(header: Header, items: Iterable[Any]) -> bytes:
    """Encode chunks, each a pair of lists, and elements."""
    return encode(header, [Rows(*item) if isinstance(item, tuple) else item for item in items])


def decoded(buffer: bytes) -> list[Any]:
    """Decode a buffer to pairs of lists, and elements."""
    return [(item.values, item.timestamps) if isinstance(item, Rows) else item for item in decode_items(buffer)]
