"""Encode declared types as JSON for the metadata of a savepoint's column: a list of the type's name and its parts.

    ["LONG"]    ["LIST", element]    ["MAP", key, value]    ["TUPLE", [field, ...]]    ["EXTERNAL", type]
    ["ROW", names or null, [type, ...], class or null]

A user's class is named `module:qualified name`, a class of penstock by the name under which its values are stored. If a
class cannot be imported where the column is read, the values are read as Rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.stored import stored_name_of, type_stored_as
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types.basic_types import BasicType, BasicTypeInfo, LocalTimeTypeInfo
from penstock.common.types.composite_types import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.values.stored_class import StoredClass

_ARRAYS: dict[str, Callable[[TypeInformation], TypeInformation]] = {
    "LIST": ListTypeInfo,
    "PRIMITIVE_ARRAY": PrimitiveArrayTypeInfo,
    "BASIC_ARRAY": BasicArrayTypeInfo,
    "OBJECT_ARRAY": ObjectArrayTypeInfo,
}
_ARRAY_NAMES: dict[Any, str] = {kind: name for name, kind in _ARRAYS.items()}
_SINGLE: dict[str, TypeInformation] = {
    **{kind.name: BasicTypeInfo(kind) for kind in BasicType},
    **{kind.name: LocalTimeTypeInfo(kind) for kind in LocalTimeTypeInfo.TimeType},
    "INSTANT": Types.INSTANT(),
    "SQL_DATE": Types.SQL_DATE(),
    "SQL_TIME": Types.SQL_TIME(),
    "SQL_TIMESTAMP": Types.SQL_TIMESTAMP(),
    "PICKLED": Types.PICKLED_BYTE_ARRAY(),
}


def encode_type(type_: TypeInformation) -> bytes:
    """Encode a type as JSON. Raises TypeError for a type that is not in penstock.common.Types."""
    return msgspec.json.encode(_parts_of(type_))


def decode_type(data: bytes) -> TypeInformation:
    """Decode a type. Raises CheckpointError for a type that only a newer penstock knows."""
    return _type_of(msgspec.json.decode(data))


def _parts_of(type_: TypeInformation) -> list[Any]:
    for name, single in _SINGLE.items():
        if type(type_) is type(single) and type_ == single:
            return [name]
    if isinstance(type_, MapTypeInfo):
        return ["MAP", _parts_of(type_._key_type_info), _parts_of(type_._value_type_info)]
    if isinstance(type_, RowTypeInfo):
        names = type_.get_field_names() if type_._field_names is not None else None
        fields = list(map(_parts_of, type_.get_field_types()))
        return ["ROW", names, fields, type_.record_class and _class_name(type_.record_class)]
    if isinstance(type_, TupleTypeInfo):
        return ["TUPLE", list(map(_parts_of, type_.get_field_types()))]
    if isinstance(type_, ExternalTypeInfo):
        return ["EXTERNAL", _parts_of(type_._type_info)]
    if type(type_) in _ARRAY_NAMES:
        return [_ARRAY_NAMES[type(type_)], _parts_of(type_._element_type)]  # type: ignore[attr-defined]
    raise TypeError(f"cannot encode the type {type_!r}: expected a type of penstock.common.Types")


def _type_of(parts: list[Any]) -> TypeInformation:
    name, *rest = parts
    if name in _SINGLE:
        return _SINGLE[name]
    if name in _ARRAYS:
        return _ARRAYS[name](_type_of(rest[0]))
    if name == "MAP":
        return MapTypeInfo(_type_of(rest[0]), _type_of(rest[1]))
    if name == "TUPLE":
        return TupleTypeInfo(list(map(_type_of, rest[0])))
    if name == "ROW":
        kind = rest[2] and _class_named(rest[2])
        return RowTypeInfo(list(map(_type_of, rest[1])), rest[0], kind and _record_maker(kind, rest[0]))
    if name == "EXTERNAL":
        return ExternalTypeInfo(_type_of(rest[0]))
    raise CheckpointError(f"a column has values of the type {name}, which this version of penstock does not know")


def _record_maker(kind: Any, names: list[str]) -> Any:
    """Return the class, or if its fields have changed a function that creates its values from these fields."""
    stored = StoredClass(kind)
    if not stored.names or set(stored.names) == set(names):
        return kind

    def make(**fields: Any) -> Any:
        stored.completed(fields)
        return kind(**{name: value for name, value in fields.items() if name in stored.defaults})

    return make


def _class_name(kind: type[Any]) -> str:
    return stored_name_of(kind) or f"{kind.__module__}:{kind.__qualname__}"


def _class_named(name: str) -> type[Any] | None:
    module, colon, qualified = name.partition(":")
    if not colon:
        return type_stored_as(name)
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ProgramError):
        return None
    return found if isinstance(found, type) else None
