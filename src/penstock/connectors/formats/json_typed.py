"""Decode JSON objects directly to values of a type of rows, without a Python call for each field of a JSON type.

msgspec makes a struct of a message, whose fields become those of a Row. It refuses similar types, such as a number in a
text: `json_fields` reads these.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import row_factory
from penstock.common.types.composite_types import LIST_TYPES
from penstock.common.types.integers import BITS, bounds_of
from penstock.common.values.decoding import json_decoder
from penstock.connectors.formats.json_fields import Reader, reader_of

DecodeRows = Callable[[Sequence[Any]], list[Any]]
_TEXTS = (BasicType.STRING, BasicType.CHAR)
_SIMPLE: dict[BasicType, Any] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: bool,
    BasicType.BIG_INT: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
}


def typed_decoder(type_info: RowTypeInfo, fail_on_missing: bool) -> DecodeRows:
    """Return a decoder from messages to Rows.

    It raises ValueError or TypeError if a message has values of other types.
    """
    try:
        struct, to_row = _struct_of(type_info, fail_on_missing)
        decode = json_decoder(struct, float_hook=Decimal).decode
    except (TypeError, ValueError) as error:
        # A name with a quotation mark: structs do not accept it.
        return _refusing(str(error))
    return lambda messages: [to_row(found) for found in map(decode, messages)]


def _refusing(reason: str) -> DecodeRows:
    def refuse(messages: Sequence[Any]) -> list[Any]:
        raise ValueError(reason)

    return refuse


def _struct_of(type_info: RowTypeInfo, fail_on_missing: bool) -> tuple[Any, Reader]:
    """Return a class to which msgspec decodes objects, and a converter from its instances to Rows."""
    names = type_info.get_field_names()
    parts = [part_of(kind, fail_on_missing) for kind in type_info.get_field_types()]
    # Names of JSON need not be valid names in Python.
    struct_names = [f"field{index}" for index in range(len(names))]
    fields: list[Any] = [
        (name, kind | None) if fail_on_missing else (name, kind | None, None)
        for name, (kind, _) in zip(struct_names, parts, strict=True)
    ]
    struct = msgspec.defstruct("Fields", fields, rename=dict(zip(struct_names, names, strict=True)), gc=False)
    finishing = [(index, finish) for index, (_, finish) in enumerate(parts) if finish is not None]
    make, values_of = row_factory(names), msgspec.structs.astuple
    if not finishing:
        return struct, lambda found: make(values_of(found))

    def to_row(found: Any) -> Any:
        values = list(values_of(found))
        for index, finish in finishing:
            if values[index] is not None:
                values[index] = finish(values[index])
        return make(values)

    return struct, to_row


def part_of(type_info: TypeInformation, fail_on_missing: bool) -> tuple[Any, Reader | None]:
    """Return the type to which msgspec decodes a field's values, and the function that completes them, or None."""
    if isinstance(type_info, ExternalTypeInfo):
        return part_of(type_info._type_info, fail_on_missing)
    if isinstance(type_info, RowTypeInfo):
        return _struct_of(type_info, fail_on_missing)
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _SIMPLE:
        return _SIMPLE[type_info._basic_type], None
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in BITS:
        least, most = bounds_of(type_info._basic_type)
        return Annotated[int, msgspec.Meta(ge=least, le=most)], None
    if isinstance(type_info, DateTypeInfo):
        return datetime.date, None
    is_bytes = isinstance(type_info, PrimitiveArrayTypeInfo) and type_info._element_type == Types.BYTE()
    if isinstance(type_info, LIST_TYPES) and not is_bytes:
        kind, finish = part_of(type_info._element_type, fail_on_missing)
        return list[kind | None], finish and _of_items(finish)  # type: ignore[valid-type]
    if isinstance(type_info, MapTypeInfo):
        kind, finish = part_of(type_info._value_type_info, fail_on_missing)
        key = type_info._key_type_info
        if isinstance(key, BasicTypeInfo) and key._basic_type in _TEXTS:
            return dict[str, kind | None], finish and _of_values(finish)  # type: ignore[valid-type]
    # The decoder's hook keeps all digits of decimals, and `reader_of` refuses texts that only Python accepts. msgspec
    # would round times with more digits than Python's, unlike `json_fields`.
    return Any, reader_of(type_info, fail_on_missing)


def _of_items(finish: Reader) -> Reader:
    return lambda items: [None if item is None else finish(item) for item in items]


def _of_values(finish: Reader) -> Reader:
    return lambda entries: {key: None if value is None else finish(value) for key, value in entries.items()}
