"""JSON objects as batches of columns.

Each object is decoded as that of a row, to an object with the fields of the value type that costs the least, and its
fields become columns. pyarrow.json takes longer, and has other rules: it reads a missing key as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, NamedTuple, NotRequired, Required, get_origin, get_type_hints

import msgspec
import msgspec.inspect
import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import results_and_failures, results_of
from penstock.common.typeinfo import LocalTimeTypeInfo, RowTypeInfo, TimestampTypeInfo, TypeInformation
from penstock.common.values.decoding import json_decoder
from penstock.connectors.formats.json_decimals import decoder_of
from penstock.connectors.formats.json_fields import Reader
from penstock.connectors.formats.json_typed import part_of
from penstock.connectors.formats.text_columns import TextReader, usual_moments

Decode = Callable[[bytes], Any]
BatchDecoder = Callable[[Sequence[bytes]], pyarrow.RecordBatch]
"""From objects to a batch. Raises any error if one of them is unusual: then only the decoder of rows can tell."""


class _Field(NamedTuple):
    """How to decode a field: the type for msgspec, and its default or nothing.

    `read_texts`: makes the column of decoded texts. `finish`: completes a value that is not None.
    """

    hint: Any
    default: tuple[Any, ...] = ()
    read_texts: TextReader | None = None
    finish: Reader | None = None


def decoder_of_type(columns: RecordColumns, value_type: Any, *, times_as_texts: bool = True) -> ObjectDecoder | None:
    """Return a decoder of what `json_decimals.decoder_of` decodes to a class; None if only objects have the values.

    `times_as_texts`: Arrow reads the times of a batch, at once, and refuses the batch for one that is unusual.
    """
    found = _fields_of(value_type)
    if found is None or not found.keys() >= set(columns.names):
        return None
    fields = {name: _Field(hint, tuple(default)) for name, (hint, *default) in found.items()}
    for column in columns.schema:
        field = fields[column.name]
        if times_as_texts and _is_time(column, field.hint):
            fields[column.name] = field._replace(hint=_TEXTS[field.hint], read_texts=_moments_of(column.type))
    return ObjectDecoder(columns, fields, decoder_of)


def decoder_of_rows(columns: RecordColumns, row_type: RowTypeInfo, fail_on_missing: bool) -> BatchDecoder | None:
    """Return a decoder of what `json_typed.typed_decoder` decodes to Rows; None if they lack a column."""
    kinds = dict(zip(row_type.get_field_names(), row_type.get_field_types(), strict=True))
    if not kinds.keys() >= set(columns.names):
        return None
    columns_by_name = {column.name: column.type for column in columns.schema}
    fields = {}
    for name, kind in kinds.items():
        hint, finish = part_of(kind, fail_on_missing)
        read_texts = None
        # A column that is not read is checked, as that of a row.
        if _is_timestamp(kind) and columns_by_name.get(name, _NAIVE) == _NAIVE:
            hint, finish, read_texts = str, None, _naive_moments
        fields[name] = _Field(hint | None, () if fail_on_missing else (None,), read_texts, finish)
    try:
        return ObjectDecoder(columns, fields, lambda kind: json_decoder(kind, float_hook=Decimal).decode)
    except (TypeError, ValueError):
        # A name with a quotation mark: structs do not accept it.
        return None


class ObjectDecoder:
    """Decodes objects to a struct of all `fields`, and makes `columns` of some of them."""

    def __init__(
        self, columns: RecordColumns, fields: Mapping[str, _Field], decoder_of_struct: Callable[[Any], Decode]
    ) -> None:
        # Names may be keywords.
        attributes = {name: f"f{index}" for index, name in enumerate(fields)}
        line = msgspec.defstruct(
            "Line",
            [(attributes[name], field.hint, *field.default) for name, field in fields.items()],
            rename={attribute: name for name, attribute in attributes.items()},
            gc=False,
        )
        self._decode = decoder_of_struct(line)
        self._columns = columns
        self._getters = {name: attrgetter(attribute) for name, attribute in attributes.items()}
        self._readers = {name: field.read_texts for name, field in fields.items() if field.read_texts is not None}
        self._finishers = {name: field.finish for name, field in fields.items() if field.finish is not None}
        self._others = [name for name in columns.names if name not in self._readers]
        self._columns_of_others = columns.only(self._others) if self._others else None

    def __call__(self, texts: Sequence[bytes]) -> pyarrow.RecordBatch:
        """Return the objects as columns. Raise any error if one is unusual."""
        return self._batch_of(results_of(self._decode, len(texts), texts))

    def readable(self, texts: Sequence[bytes]) -> tuple[pyarrow.RecordBatch, list[int]]:
        """Return the objects that can be decoded as columns, and the positions of the other texts.

        Raise any error for an object that can be decoded, and is unusual otherwise.
        """
        objects, failed = results_and_failures(self._decode, texts)
        return self._batch_of(objects), failed

    def _batch_of(self, objects: list[Any]) -> pyarrow.RecordBatch:
        found = {
            name: read(pyarrow.array(map(self._getters[name], objects), "str", size=len(objects)))
            for name, read in self._readers.items()
        }
        finished = {name: self._finished(name, objects) for name in self._finishers}
        if self._columns_of_others is not None:
            values = [
                finished[name] if name in finished else list(map(self._getters[name], objects)) for name in self._others
            ]
            batch = self._columns_of_others.exact_batch(values)
            found.update(zip(self._others, batch.columns, strict=True))
        for name in self._readers:
            if name in self._columns.names and not self._columns.schema.field(name).nullable and found[name].null_count:
                raise TypeError(f"the column {name!r} does not allow None")
        return pyarrow.RecordBatch.from_arrays(
            [found[name] for name in self._columns.names], schema=self._columns.schema
        )

    def _finished(self, name: str, objects: list[Any]) -> list[Any]:
        finish = self._finishers[name]
        return [None if value is None else finish(value) for value in map(self._getters[name], objects)]


_NAIVE = pyarrow.timestamp("us")
_IN_UTC = pyarrow.timestamp("us", "UTC")
_TEXTS = {datetime: str, datetime | None: str | None}


def _moments_of(kind: pyarrow.DataType) -> TextReader:
    return lambda texts: usual_moments(texts, kind)


def _naive_moments(texts: pyarrow.Array) -> pyarrow.Array:
    """Return times in UTC without a zone, of texts that all have a zone, or all lack it."""
    try:
        return usual_moments(texts, _NAIVE)
    except pyarrow.ArrowInvalid:
        return usual_moments(texts, _IN_UTC).cast(_NAIVE)


def _is_timestamp(kind: TypeInformation) -> bool:
    return isinstance(kind._same if isinstance(kind, LocalTimeTypeInfo) else kind, TimestampTypeInfo)


def _is_time(field: pyarrow.Field, hint: Any) -> bool:
    return arrow.is_timestamp(field.type) and field.type.unit == "us" and hint in (datetime, datetime | None)


def _fields_of(value_type: Any) -> dict[str, tuple[Any, ...]] | None:
    """Return names, types and defaults of the fields of a type; None if its objects are more than their fields."""
    info = msgspec.inspect.type_info(value_type)
    if isinstance(info, msgspec.inspect.StructType):
        if info.tag is not None or info.array_like or info.forbid_unknown_fields:
            return None
    elif not isinstance(info, (msgspec.inspect.DataclassType, msgspec.inspect.TypedDictType)):
        return None
    if not isinstance(value_type, type) or hasattr(value_type, "__post_init__"):
        return None
    hints = get_type_hints(value_type, include_extras=True)
    fields: dict[str, tuple[Any, ...]] = {}
    for field in info.fields:
        if field.name != field.encode_name:
            return None
        if field.default_factory is not msgspec.NODEFAULT:
            fields[field.name] = hints[field.name], msgspec.field(default_factory=field.default_factory)
        elif field.default is not msgspec.NODEFAULT:
            fields[field.name] = hints[field.name], field.default
        else:
            # A record may lack the key of a TypedDict: the parser of rows reads it.
            fields[field.name] = (_of_present(hints[field.name]),)
    # Fields without a default come first.
    return dict(sorted(fields.items(), key=lambda field: len(field[1])))


def _of_present(hint: Any) -> Any:
    return hint.__args__[0] if get_origin(hint) in (Required, NotRequired) else hint
