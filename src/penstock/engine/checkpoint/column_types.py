"""Convert columns of Python values to and from Parquet: by declared type, by the type of the values, or pickled.

Values that are read equal those that were written, types of nested values included: `to_column` refuses values that a
typed column would change.
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

from penstock.common.columns.to_values import replaced_parts
from penstock.common.columns.typed_values import typed_values
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
from penstock.engine.state.pickles import dumps
from penstock.engine.state.unpickling import StateUnpickler, found_by_former_name

TYPE_KEY = b"penstock.type"
"""Key in a field's metadata for the type of its values, in the format of `type_encoding`. Without it: pickles."""

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
"""Declared types may be narrower than Python's numbers, and a savepoint must not truncate values."""


def field_for(name: str, declared: TypeInformation | None, values: Sequence[Any]) -> pa.Field:
    """Return a field for a column that starts with `values`: of the declared type, or of the type of all values."""
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
    return pa.field(name, _wide(arrow), metadata={TYPE_KEY: text})


def _wide(kind: pa.DataType) -> pa.DataType:
    return _WIDER.get(kind) or replaced_parts(kind, _wide)


def pickled_field(name: str) -> pa.Field:
    """Return a field of pickles."""
    return pa.field(name, pa.large_binary())


def to_column(field: pa.Field, values: Sequence[Any]) -> pa.Array | None:
    """Convert values to a column. Returns None if reading the column would not return equal values."""
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
    # Read back immediately: Arrow converts silently, for example True to 1, which would show only after a restore.
    try:
        again = typed_values(column, type_)
    except RAISED:
        # The constructor of a record's class does not accept the fields.
        return None
    return column if _same(list(values), again) else None


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _fits(kind: pa.DataType, value: Any) -> bool:
    """Whether all maps in a value are dicts without a None key.

    Arrow ends the process without an exception if a map is given as a list with a None.
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
    """Return the values of a column as they were written."""
    type_ = type_of(field)
    if type_ is None:
        return [StateUnpickler(io.BytesIO(data)).load_complete() for data in column.to_pylist()]
    return typed_values(column, type_)


def type_of(field: pa.Field) -> TypeInformation | None:
    """Return the type of a field's values. None: they are pickles."""
    text = (field.metadata or {}).get(TYPE_KEY)
    if text is None:
        return None
    if text.startswith(b"["):
        return decode_type(text)
    # Manifest version 1 pickled types.
    type_: TypeInformation = _TypeUnpickler(io.BytesIO(base64.b64decode(text))).load()
    return type_


def inferred(values: Sequence[Any]) -> TypeInformation | None:
    """Return the type that all values have, or None if there is no such type."""
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


def _same(before: Any, after: Any) -> bool:
    """Whether two values are equal and have the same types at every depth."""
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
        # The `==` of a record may ignore fields, and treats 1 and True as equal.
        return False
    # `==` ignores `fold`, which distinguishes the two occurrences of a time when clocks are set back.
    return bool(before == after and getattr(before, "fold", 0) == getattr(after, "fold", 0))


def _attributes(record: Any) -> dict[str, Any]:
    """Return the attributes of an object, including those in slots."""
    in_slots = {name: getattr(record, name) for name in slots_of(type(record)) if hasattr(record, name)}
    return {**in_slots, **getattr(record, "__dict__", {})}


class _TypeUnpickler(pickle.Unpickler):
    """Unpickles a TypeInformation. Omits a record class that cannot be imported: its values are read as Rows."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            if (found := found_by_former_name(module, name)) is not None:
                return found
            importlib.import_module(module)
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return None
