"""Types of columns that differ only in their layout in memory."""

from __future__ import annotations

import pyarrow
from pyarrow import types as arrow


def is_text(kind: pyarrow.DataType) -> bool:
    """Return whether values are texts."""
    return bool(arrow.is_string(kind) or arrow.is_large_string(kind) or arrow.is_string_view(kind))


def is_bytes(kind: pyarrow.DataType) -> bool:
    """Return whether values are bytes, of one length or of any."""
    return bool(
        arrow.is_binary(kind)
        or arrow.is_large_binary(kind)
        or arrow.is_fixed_size_binary(kind)
        or arrow.is_binary_view(kind)
    )


def is_list(kind: pyarrow.DataType) -> bool:
    """Return whether values are lists, of one length or of any. Maps and views of lists are other types."""
    return bool(arrow.is_list(kind) or arrow.is_large_list(kind) or arrow.is_fixed_size_list(kind))
