"""JSON objects as columns: msgspec makes objects of the fields that are read, and Arrow columns of their values.

Values of another JSON type than SQL's, such as a number in a text, are read one by one (`json_values`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate, chain, repeat
from operator import attrgetter, is_
from typing import Any

import msgspec
import numpy
import pyarrow
from pyarrow import types as arrow

from penstock.common.functions.user_calls import results_of
from penstock.common.values.decoding import json_decoder
from penstock.table.connectors.formats.json_values import JsonReading, decimal_of, row_converter, value_of
from penstock.table.connectors.formats.message_format import MessageDecoder
from penstock.table.connectors.formats.text_values import DATE, TIME, cast, moments

_Build = Callable[[list[Any]], pyarrow.Array]
"""From decoded values, None for NULL, to a column."""


class JsonDecoder(MessageDecoder):
    """Decodes objects. Fields that are not columns are not looked at."""

    name = "JSON"
    remedy = "json.ignore-parse-errors to true"

    def __init__(self, schema: pyarrow.Schema, reading: JsonReading) -> None:
        super().__init__(schema, ignores_errors=reading.ignores_errors)
        self._convert = row_converter(schema, reading)
        self._reading = reading
        self._fast: tuple[Callable[[bytes], Any], _Build] | None = None
        try:
            kind, build = _row(list(schema), reading)
            self._fast = json_decoder(kind, float_hook=Decimal).decode, build
        except (TypeError, ValueError):
            # A name with a quotation mark: structs do not accept it.
            pass

    def usual(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        if self._fast is None:
            raise ValueError("only values one by one can be read")
        decode, build = self._fast
        rows = build(results_of(decode, len(messages), messages))
        return pyarrow.RecordBatch.from_arrays(rows.flatten(), schema=self.schema)

    def single(self, message: bytes) -> dict[str, Any] | None:
        value = value_of(message)
        return None if value is None else self._convert(value)


def _row(fields: Sequence[pyarrow.Field], reading: JsonReading) -> tuple[Any, _Build]:
    """Return the class of a row's objects, and the builder of its column."""
    parts = [_part(field.type, reading) for field in fields]
    # Names of SQL need not be names in Python.
    names = [f"f{index}" for index in range(len(fields))]
    default: tuple[Any, ...] = () if reading.fails_on_missing else (None,)
    kind = msgspec.defstruct(
        "Fields",
        [(name, hint | None, *default) for name, (hint, _) in zip(names, parts, strict=True)],
        rename={name: field.name for name, field in zip(names, fields, strict=True)},
        gc=False,
    )
    nothing = kind(*[None] * len(names))
    getters = [attrgetter(name) for name in names]
    builders = [build for _, build in parts]

    def columns_of(values: list[Any]) -> list[pyarrow.Array]:
        return [build(list(map(get, values))) for get, build in zip(getters, builders, strict=True)]

    def build_row(values: list[Any]) -> pyarrow.Array:
        is_null = numpy.frombuffer(bytes(map(is_, values, repeat(None))), numpy.bool_)
        if not is_null.any():
            return pyarrow.StructArray.from_arrays(columns_of(values), fields=list(fields))
        if 2 * numpy.count_nonzero(is_null) < len(values):
            filled = [nothing if value is None else value for value in values]
            return pyarrow.StructArray.from_arrays(columns_of(filled), fields=list(fields), mask=pyarrow.array(is_null))
        rows = pyarrow.StructArray.from_arrays(columns_of(list(filter(None, values))), fields=list(fields))
        return rows.take(pyarrow.array(numpy.cumsum(~is_null) - 1, mask=is_null))

    return kind, build_row


def _part(kind: pyarrow.DataType, reading: JsonReading) -> tuple[Any, _Build]:
    """Return the type to which msgspec decodes a value, and the builder of its column."""
    if arrow.is_string(kind):
        return str, _plain(kind)
    if arrow.is_boolean(kind):
        return bool, _plain(kind)
    if arrow.is_integer(kind):
        # Arrow refuses integers that are too large.
        return int, _plain(kind)
    if arrow.is_floating(kind):
        return float, _plain(kind)
    if arrow.is_decimal(kind):
        return Any, lambda values: pyarrow.array([_decimal(value, kind) for value in values], kind)
    if arrow.is_date32(kind):
        return str, lambda values: _cast(values, DATE, kind)
    if arrow.is_time32(kind):
        return str, lambda values: _cast(values, TIME, kind)
    if arrow.is_timestamp(kind):
        return str, lambda values: moments(pyarrow.array(values, pyarrow.string()), kind, reading.separator)
    if arrow.is_binary(kind):
        return str, lambda values: pyarrow.array([None if one is None else _bytes(one) for one in values], kind)
    if arrow.is_list(kind):
        return _list(kind, reading)
    if arrow.is_map(kind):
        return _map(kind, reading)
    if arrow.is_struct(kind):
        return _row(list(kind), reading)
    return type(None), _only_null(kind)


def _plain(kind: pyarrow.DataType) -> _Build:
    return lambda values: pyarrow.array(values, kind)


def _only_null(kind: pyarrow.DataType) -> _Build:
    """Return a builder for types whose values are read one by one: msgspec refuses all but null."""
    return lambda values: pyarrow.nulls(len(values), kind)


def _decimal(value: Any, kind: pyarrow.Decimal128Type) -> Decimal | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise TypeError("only numbers are usual")
    return decimal_of(str(value), kind)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _cast(values: list[Any], pattern: str, kind: pyarrow.DataType) -> pyarrow.Array:
    return cast(pyarrow.array(values, pyarrow.string()), pattern, kind)


def _list(kind: pyarrow.ListType, reading: JsonReading) -> tuple[Any, _Build]:
    hint, build_element = _part(kind.value_type, reading)

    def build(values: list[Any]) -> pyarrow.Array:
        elements = build_element(list(chain.from_iterable(filter(None, values))))
        return pyarrow.ListArray.from_arrays(_offsets(values), elements, type=kind)

    return list[hint | None], build  # type: ignore[valid-type]


def _map(kind: pyarrow.MapType, reading: JsonReading) -> tuple[Any, _Build]:
    hint, build_item = _part(kind.item_type, reading)

    def build(values: list[Any]) -> pyarrow.Array:
        maps = list(filter(None, values))
        keys = pyarrow.array(list(chain.from_iterable(maps)), pyarrow.string())
        items = build_item(list(chain.from_iterable(one.values() for one in maps)))
        return pyarrow.MapArray.from_arrays(_offsets(values), keys, items, type=kind)

    return dict[str, hint | None], build  # type: ignore[valid-type]


def _offsets(values: list[Any]) -> pyarrow.Array:
    """Return where each value begins; null: it is NULL."""
    ends = list(accumulate((len(value or ()) for value in values), initial=0))
    starts = [None if value is None else start for value, start in zip(values, ends[:-1], strict=True)]
    return pyarrow.array([*starts, ends[-1]], pyarrow.int32())
