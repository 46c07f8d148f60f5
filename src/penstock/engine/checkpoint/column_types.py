"""How a column of Python values is stored in Parquet: by its declared type, by the type of its values, or pickled.

What is read must equal what was written, types of nested values included: `to_column` refuses values that a typed
column would change.
"""

from __future__ import annotations

import base64
import datetime
import importlib
import io
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.common.functions.user_calls import RAISED
from penstock.common.typeinfo import (
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import Row
from penstock.common.values.copies import ATOMS
from penstock.common.values.stored_class import slots_of
from penstock.engine.checkpoint.type_encoding import decode_type, encode_type
from penstock.engine.state.gained_fields import StateUnpickler, found_by_former_name
from penstock.engine.state.pickles import dumps

TYPE_KEY = b"penstock.type"
"""In the metadata of a field: the type of its values, as `type_encoding` writes it. Without it, they are pickles."""

_PLAIN: dict[type, TypeInformation] = {
    str: Types.STRING(),
    int: Types.LONG(),
    float: Types.DOUBLE(),
    bool: Types.BOOLEAN(),
    bytes: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    datetime.date: Types.SQL_DATE(),
    datetime.datetime: Types.SQL_TIMESTAMP(),
}
_WIDER = {pa.int8(): pa.int64(), pa.int16(): pa.int64(), pa.int32(): pa.int64(), pa.float32(): pa.float64()}
"""Declared types may be narrower than Python's numbers: a savepoint must not truncate them."""
_NUMBERS = {
    pa.date32(): pa.int32(),
    pa.time64("us"): pa.int64(),
    pa.timestamp("us"): pa.int64(),
    pa.timestamp("us", "UTC"): pa.int64(),
}


def field_for(name: str, declared: TypeInformation | None, values: Sequence[Any]) -> pa.Field:
    """A field for a column that starts with `values`: of the declared type, or of the type of all values."""
    type_ = declared
    arrow = type_.to_arrow() if type_ is not None else None
    if arrow is None:
        type_ = inferred(values)
        arrow = type_.to_arrow() if type_ is not None else None
    if type_ is None or arrow is None:
        return pickled_field(name)
    try:
        text = encode_type(type_)
    except TypeError:
        return pickled_field(name)
    return pa.field(name, _replaced(arrow, _WIDER), metadata={TYPE_KEY: text})


def pickled_field(name: str) -> pa.Field:
    """A field of pickles."""
    return pa.field(name, pa.large_binary())


def to_column(field: pa.Field, values: Sequence[Any]) -> pa.Array | None:
    """Values as a column; None if reading the column would not return equal values."""
    type_ = type_of(field)
    if type_ is None:
        return pa.array([dumps(value) for value in values], field.type)
    try:
        internal = [type_.to_internal_type(value) for value in values]
        if _has_map(field.type) and not all(_fits(field.type, value) for value in internal):
            return None
        column = pa.array(internal, field.type)
    except (pa.ArrowException, TypeError, ValueError, AttributeError, KeyError, OverflowError):
        return None
    # Read again at once: Arrow converts silently, for example True to 1, and the difference would show after a restore.
    try:
        again = _typed_values(column, type_)
    except RAISED:
        # Of the constructor of a record's class, which takes something else than its fields.
        return None
    return column if _same(list(values), again) else None


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _fits(kind: pa.DataType, value: Any) -> bool:
    """Whether its maps are dicts, with keys that are not None.

    For a list with a None in it Arrow ends the process, and raises nothing.
    """
    if value is None:
        return True
    if pa.types.is_map(kind):
        if not isinstance(value, dict) or None in value:
            return False
        return all(_fits(kind.key_type, key) and _fits(kind.item_type, item) for key, item in value.items())
    if pa.types.is_struct(kind):
        parts = [kind.field(at).type for at in range(kind.num_fields)]
        return all(map(_fits, parts, value.values() if isinstance(value, dict) else value))
    return kind.num_fields == 0 or all(_fits(kind.value_type, one) for one in value)


def from_column(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, as they were written."""
    type_ = type_of(field)
    if type_ is None:
        return [StateUnpickler(io.BytesIO(data)).load_complete() for data in column.to_pylist()]
    return _typed_values(column, type_)


def type_of(field: pa.Field) -> TypeInformation | None:
    """The type of a field's values, or None: they are pickles."""
    text = (field.metadata or {}).get(TYPE_KEY)
    if text is None:
        return None
    if text.startswith(b"["):
        return decode_type(text)
    # Manifest version 1 has pickled types.
    type_: TypeInformation = _TypeUnpickler(io.BytesIO(base64.b64decode(text))).load()
    return type_


def inferred(values: Sequence[Any]) -> TypeInformation | None:
    """The type that all values have, or None if there is no such type."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return Types.STRING()
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    present = [value for value in values if value is not None]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is list:
        element = inferred([element for value in present for element in value])
        return None if element is None else ListTypeInfo(element)
    if kind is dict:
        key = inferred([key for value in present for key in value])
        of_value = inferred([entry for value in present for entry in value.values()])
        return None if key is None or of_value is None else MapTypeInfo(key, of_value)
    if issubclass(kind, tuple) or kind is Row:
        return _inferred_fields(kind, present)
    return None


def _inferred_fields(kind: type, values: list[Any]) -> TypeInformation | None:
    first = values[0]
    if any(len(value) != len(first) for value in values):
        return None
    types = [inferred([value[position] for value in values]) for position in range(len(first))]
    known = [type_ for type_ in types if type_ is not None]
    if not first or len(known) < len(types):
        return None
    if kind is tuple:
        return TupleTypeInfo(known)
    names = getattr(first, "_fields", None)
    if kind is Row:
        return RowTypeInfo(known, names)
    return RowTypeInfo(known, names, kind) if names is not None else None


def _typed_values(column: pa.Array | pa.ChunkedArray, type_: TypeInformation) -> list[Any]:
    # Dates and times as the numbers by which Arrow stores them: these are what the type converts from.
    return list(map(type_.from_internal_type, column.cast(_replaced(column.type, _NUMBERS)).to_pylist()))


def _replaced(arrow: pa.DataType, by: dict[pa.DataType, pa.DataType]) -> pa.DataType:
    """A type whose innermost types are replaced."""
    if pa.types.is_map(arrow):
        return pa.map_(_replaced(arrow.key_type, by), _replaced(arrow.item_type, by))
    if pa.types.is_list(arrow):
        return pa.list_(_replaced(arrow.value_type, by))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, _replaced(field.type, by)) for field in arrow])
    return by.get(arrow, arrow)


def _same(before: Any, after: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(before) is not type(after):
        return False
    if isinstance(before, (list, tuple)):
        is_same = len(before) == len(after) and all(map(_same, before, after))
        return is_same and (type(before) in (list, tuple) or _same(_attributes(before), _attributes(after)))
    if isinstance(before, dict):
        return _same(list(before.items()), list(after.items()))
    if isinstance(before, Row):
        return before == after and _same(list(before), list(after)) and before._fields == after._fields
    if isinstance(before, float):
        # NaN is not equal to itself.
        return before == after or (before != before and after != after)
    if type(before) not in ATOMS and not _same(_attributes(before), _attributes(after)):
        # The `==` of a record may look at some fields only, and takes 1 for True.
        return False
    # `==` ignores `fold`, by which a time that occurs twice when clocks are set back is one or the other.
    return bool(before == after and getattr(before, "fold", 0) == getattr(after, "fold", 0))


def _attributes(record: Any) -> dict[str, Any]:
    """What an object has by name, in slots and otherwise."""
    in_slots = {name: getattr(record, name) for name in slots_of(type(record)) if hasattr(record, name)}
    return {**in_slots, **getattr(record, "__dict__", {})}


class _TypeUnpickler(pickle.Unpickler):
    """Reads a TypeInformation. A record class that can't be imported here is omitted: its values are read as Rows."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            if (found := found_by_former_name(module, name)) is not None:
                return found
            importlib.import_module(module)
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return None
