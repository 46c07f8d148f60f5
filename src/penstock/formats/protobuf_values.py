"""Values of messages of Protobuf: read from them, as dicts or Rows, and filled into them.

Source: Flink docs, "Protobuf format" (null values, enums, oneof).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from penstock.common.record_fields import fields_of
from penstock.formats.protobuf_schema import is_map
from penstock.formats.row_values import row_maker

Convert = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]


def reader_of(descriptor: Any, *, as_row: bool, defaults: bool) -> Convert:
    """From a message to a dict or a Row, on all levels. `defaults`: fields that are absent have their default values.

    Else these are None, if Protobuf knows that they are absent; messages always are.
    """
    return _reader(descriptor, as_row, defaults, {})


def _reader(descriptor: Any, as_row: bool, defaults: bool, known: dict[str, Convert]) -> Convert:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    # A message may hold itself.
    known[descriptor.full_name] = lambda message: read(message)
    fields = list(descriptor.fields)
    names = [field.name for field in fields]
    make = row_maker(names, as_row)
    get = _getter(names)
    told = [
        (index, field.name)
        for index, field in enumerate(fields)
        if field.has_presence and not (defaults and field.message_type is None)
    ]
    found = [(index, _converter(field, as_row, defaults, known)) for index, field in enumerate(fields)]
    conversions = [(index, convert) for index, convert in found if convert is not None]

    def read(message: Any) -> Any:
        values = get(message)
        for index, name in told:
            if not message.HasField(name):
                values[index] = None
        for index, convert in conversions:
            if values[index] is not None:
                values[index] = convert(values[index])
        return make(values)

    return read


def _getter(names: list[str]) -> Callable[[Any], list[Any]]:
    # One call for all fields.
    if len(names) < 2:
        return lambda message: [getattr(message, name) for name in names]
    get = attrgetter(*names)
    return lambda message: list(get(message))


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
    # One that was added later is its number.
    return lambda number: names.get(number) or str(number)


def filler_of(descriptor: Any, null_text: str) -> Fill:
    """From a dict, Row, tuple, list or object to the fields of a message. None: a field is left out.

    Inside of lists and maps, which can't leave out anything, None is `null_text` or the default value of its type. The
    function raises ValueError for what does not fit.
    """
    return _filler(descriptor, null_text, {})


def _filler(descriptor: Any, null_text: str, known: dict[str, Fill]) -> Fill:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    known[descriptor.full_name] = lambda message, value: fill(message, value)
    names = tuple(field.name for field in descriptor.fields)
    setters = [_setter(field, null_text, known) for field in descriptor.fields]

    def fill(message: Any, value: Any) -> None:
        for name, put, field_value in zip(names, setters, fields_of(value, names), strict=True):
            if field_value is None:
                continue
            try:
                put(message, field_value)
            except UnicodeError:
                raise ValueError(f"field {name!r}: {field_value!r:.100} is no text in UTF-8") from None
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
        # It is there, though it may have no field.
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
    null = {field.TYPE_STRING: null_text, field.TYPE_BOOL: False}.get(field.type, 0)
    return lambda value: null if value is None else value


def _items(values: Any) -> Any:
    # A text would be taken letter by letter.
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise TypeError(f"expected a list, got {values!r:.100}")
    return values


def _bytes(value: Any) -> bytes:
    # Of a number `bytes` makes zeros.
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
                return int(value)
            except ValueError:
                raise ValueError(f"{value!r} is none of {enum.full_name}: {', '.join(numbers)}") from None
        return int(number)

    return convert
