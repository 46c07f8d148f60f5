"""Types whose layout in memory most functions of Arrow do not know, such as filters: views, and encoded runs."""

from __future__ import annotations

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.to_values import replaced_parts


def has_other_layout(kind: pyarrow.DataType) -> bool:
    """Return whether a type, or a part of it, has such a layout."""
    if arrow.is_dictionary(kind):
        return has_other_layout(kind.value_type)
    if _own_layout(kind) is not None:
        return True
    return any(has_other_layout(kind.field(index).type) for index in range(kind.num_fields))


def usual_layout(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type of the same values that all functions know."""
    if arrow.is_dictionary(kind):
        return pyarrow.dictionary(kind.index_type, usual_layout(kind.value_type), kind.ordered)
    return replaced_parts(_own_layout(kind) or kind, usual_layout)


def _own_layout(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    if arrow.is_string_view(kind):
        return pyarrow.string()
    if arrow.is_binary_view(kind):
        return pyarrow.binary()
    if arrow.is_list_view(kind):
        return pyarrow.list_(kind.value_field)
    if arrow.is_large_list_view(kind):
        return pyarrow.large_list(kind.value_field)
    return kind.value_type if arrow.is_run_end_encoded(kind) else None


def in_usual_layout(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column with the same values in the usual layout."""
    kind = column.type
    if not has_other_layout(kind):
        return column
    if arrow.is_dictionary(kind):
        # Neither a cast nor a decoding of dictionaries knows these layouts.
        values = in_usual_layout(column.dictionary)
        return pyarrow.DictionaryArray.from_arrays(column.indices, values, ordered=kind.ordered)
    if arrow.is_run_end_encoded(kind):
        return in_usual_layout(compute.run_end_decode(column))
    if arrow.is_string_view(kind) or arrow.is_binary_view(kind):
        return column.cast(usual_layout(kind))
    # Arrow's cast of views of lists writes beyond its buffers (26.0), so nested values pass through Python.
    return pyarrow.array(column.to_pylist(), usual_layout(kind))
