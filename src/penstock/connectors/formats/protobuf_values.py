"""Read values from Protobuf messages as dicts or Rows, and write values to messages.

Source: Flink docs, "Protobuf format" (null values, enums, oneof).
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.types.floats import single
from penstock.common.types.record_fields import fields_of
from penstock.connectors.formats.conversion import integer_of
from penstock.connectors.formats.protobuf_schema import is_map
from penstock.connectors.formats.row_values import row_maker

Convert = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]


def reader_of(descriptor: Any, *, as_row: bool, defaults: bool) -> Convert:
    """Return a reader from messages to dicts or Rows, on all levels. `defaults`: absent fields have default values.

    Otherwise absent fields are None if Protobuf shows that they are absent. Absent messages are always None.
    """
    return _reader(descriptor, as_row, defaults, {})


def _reader(descriptor: Any, as_row: bool, defaults: bool, known: dict[str, Convert]) -> Convert:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    # A message may contain itself.
    known[descriptor.full_name] = lambda message: read(message)
    # Compiled for these fields: a usual value needs no Python call.
    scope: dict[str, Any] = {"make": row_maker([field.name for field in descriptor.fields], as_row)}
    values = [
        _expression(
            field=field, index=index, convert=_converter(field, as_row, defaults, known), defaults=defaults, scope=scope
        )
        for index, field in enumerate(descriptor.fields)
    ]
    exec(f"def read(message):\n    return make([{', '.join(values)}])", scope)
    read: Convert = scope["read"]
    return read


def _expression(field: Any, index: int, convert: Convert | None, defaults: bool, scope: dict[str, Any]) -> str:
    """Return the expression for the value of a field of `message`. It uses names in `scope`."""
    # The name of a field may be a keyword of Python.
    name = str.__repr__(field.name)
    needs_getattr = keyword.iskeyword(field.name) or not field.name.isidentifier()
    value = f"getattr(message, {name})" if needs_getattr else f"message.{field.name}"
    if field.enum_type is not None and not field.is_repeated:
        # A value of the enum that was added later is read as its number.
        scope[f"names{index}"] = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        value = f"(names{index}.get(number := {value}) or str(number))"
    elif convert is not None:
        scope[f"convert{index}"] = convert
        value = f"convert{index}({value})"
    # An absent message reads as one with absent fields.
    may_be_absent = field.has_presence and not (defaults and field.message_type is None)
    return f"{value} if message.HasField({name}) else None" if may_be_absent else value


def _converter(field: Any, as_row: bool, defaults: bool, known: dict[str, Convert]) -> Convert | None:
    if is_map(field):
        of_value = _single(field.message_type.fields_by_name["value"], as_row, defaults, known)
        return dict if of_value is None else lambda found: {key: of_value(value) for key, value in found.items()}
    of_item = _single(field, as_row, defaults, known)
    if field.is_repeated:
        return list if of_item is None else lambda found: list(map(of_item, found))
    return of_item


def _single(field: Any, as_row: bool, defaults: bool, known: dict[str, Convert]) -> Convert | None:
    if field.message_type is not None:
        return _reader(field.message_type, as_row, defaults, known)
    if field.enum_type is None:
        return None
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    # A value of the enum that was added later is read as its number.
    return lambda number: names.get(number) or str(number)


def filler_of(descriptor: Any, null_text: str) -> Fill:
    """Return a function that writes a dict, Row, tuple, list or object to a message. Fields that are None are omitted.

    Lists and maps cannot omit an item: None becomes `null_text` or the default value of its type. The function raises
    ValueError for values that do not fit.
    """
    return _filler(descriptor, null_text, {})


def _filler(descriptor: Any, null_text: str, known: dict[str, Fill]) -> Fill:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    known[descriptor.full_name] = lambda message, value: fill(message, value)
    names = tuple(field.name for field in descriptor.fields)
    setters = [_setter(field, null_text, known) for field in descriptor.fields]

    def fill(message: Any, value: Any) -> None:
        for name, put, field_value in zip(names, setters, fields_of(value, names, has_all=False), strict=True):
            if field_value is None:
                continue
            try:
                put(message, field_value)
            except UnicodeError:
                raise ValueError(f"field {name!r}: {field_value!r:.100} is not valid UTF-8 text") from None
            except (TypeError, ValueError) as error:
                raise ValueError(f"field {name!r}: {error}") from None

    return fill


def _setter(field: Any, null_text: str, known: dict[str, Fill]) -> Fill:
    name = field.name
    if is_map(field):
        return _of_map(name, field.message_type.fields_by_name["value"], null_text, known)
    if field.message_type is not None:
        fill = _filler(field.message_type, null_text, known)
        return _of_messages(name, fill) if field.is_repeated else _of_message(name, fill)
    of_item = _scalar(field, null_text)
    if field.is_repeated:
        return lambda message, values: getattr(message, name).extend(map(of_item, _items(values)))
    return lambda message, value: setattr(message, name, of_item(value))


def _of_map(name: str, field: Any, null_text: str, known: dict[str, Fill]) -> Fill:
    fill = None if field.message_type is None else _filler(field.message_type, null_text, known)
    of_value = None if fill is not None else _scalar(field, null_text)

    def put(message: Any, values: Any) -> None:
        entries = getattr(message, name)
        for key, value in values.items():
            if of_value is not None:
                entries[key] = of_value(value)
            elif value is None:
                entries[key].SetInParent()
            else:
                fill(entries[key], value)  # type: ignore[misc]  # one of the two is there

    return put


def _of_message(name: str, fill: Fill) -> Fill:
    def put(message: Any, value: Any) -> None:
        inner = getattr(message, name)
        # Mark the message as present, even without fields.
        inner.SetInParent()
        fill(inner, value)

    return put


def _of_messages(name: str, fill: Fill) -> Fill:
    def put(message: Any, values: Any) -> None:
        for value in values:
            added = getattr(message, name).add()
            if value is not None:
                fill(added, value)

    return put


def _scalar(field: Any, null_text: str) -> Convert:
    if field.enum_type is not None:
        return _number_of(field.enum_type)
    if field.type == field.TYPE_BYTES:
        return lambda value: b"" if value is None else _bytes(value)
    if field.type == field.TYPE_FLOAT:
        return lambda value: 0.0 if value is None else single(value)
    null = {field.TYPE_STRING: null_text, field.TYPE_BOOL: False}.get(field.type, 0)
    return lambda value: null if value is None else value


def _items(values: Any) -> Any:
    # A text would be written letter by letter.
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise TypeError(f"expected a list, got {values!r:.100}")
    return values


def _bytes(value: Any) -> bytes:
    # `bytes` of a number returns zeros.
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"expected bytes, got {value!r:.100}")
    return bytes(value)


def _number_of(enum: Any) -> Convert:
    first = enum.values[0].number
    numbers = {value.name: value.number for value in enum.values}

    def convert(value: Any) -> int:
        if value is None:
            return int(first)
        if not isinstance(value, str):
            return operator.index(value)
        number = numbers.get(value)
        if number is None:
            try:
                return integer_of(value)
            except ValueError:
                raise ValueError(f"{value!r} is not one of {enum.full_name}: {', '.join(numbers)}") from None
        return int(number)

    return convert
