"""JSON lines as batches of columns.

Each line is decoded as that of a row, to an object with the fields of the value type that costs the least, and its
fields become columns. pyarrow.json takes longer, and has other rules: it reads a missing key as null.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any, NotRequired, Required, get_origin, get_type_hints

import msgspec
import msgspec.inspect
import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.connectors.files.formats.line_columns import ColumnsParser, LineColumns
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.formats.json_decimals import decoder_of
from penstock.connectors.formats.text_columns import usual_moments


class JsonColumns(LineColumns):
    """Read batches of `columns`, whose values are those that `records` reads row by row."""

    def __init__(self, records: LineFormat[Any], columns: RecordColumns, value_type: Any) -> None:
        super().__init__(records, columns)
        self._value_type = value_type

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser with its own decoder."""
        return _JsonColumnsParser(path, self._records.parser(path, cr_ends), self._columns, self._value_type)


class _JsonColumnsParser(ColumnsParser):
    def __init__(self, path: str, records: LineParser, columns: RecordColumns, value_type: Any) -> None:
        super().__init__(path, records, columns)
        self._decode: Callable[[bytes], Any] | None = None
        fields = _fields_of(value_type)
        if fields is None or not fields.keys() >= set(columns.names):
            return
        # Times remain texts, which Arrow reads at once.
        self._times = {field.name: field.type for field in columns.schema if _is_time(field, fields[field.name][0])}
        hints = {name: _TEXTS[hint] if name in self._times else hint for name, (hint, *_) in fields.items()}
        # Names may be keywords.
        attributes = {name: f"f{index}" for index, name in enumerate(fields)}
        line = msgspec.defstruct(
            "Line",
            [(attributes[name], hints[name], *default) for name, (_, *default) in fields.items()],
            rename={attribute: name for name, attribute in attributes.items()},
            gc=False,
        )
        self._decode = decoder_of(line)
        self._getters = [attrgetter(attributes[name]) for name in columns.names]
        self._others = [name for name in columns.names if name not in self._times]
        self._columns_of_others = columns.only(self._others) if self._others else None

    def parse_usual(self, block: bytes, last: bool) -> tuple[pyarrow.RecordBatch, int] | None:
        if self._decode is None:
            return None
        lines = list(filter(None, block.split(b"\n")))
        try:
            found = results_of(self._decode, len(lines), lines)
            return self._batch([list(map(get, found)) for get in self._getters]), 0
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # The parser of rows finds the line.
            return None

    def _batch(self, columns: list[list[Any]]) -> pyarrow.RecordBatch:
        values = dict(zip(self.columns.names, columns, strict=True))
        found = {name: usual_moments(pyarrow.array(values[name], "str"), kind) for name, kind in self._times.items()}
        if self._columns_of_others is not None:
            others = self._columns_of_others.exact_batch([values[name] for name in self._others])
            found.update(zip(self._others, others.columns, strict=True))
        batch = pyarrow.RecordBatch.from_arrays([found[name] for name in values], schema=self.columns.schema)
        for name in self._times:
            if not self.columns.schema.field(name).nullable and found[name].null_count:
                raise TypeError(f"the column {name!r} does not allow None")
        return batch


_TEXTS = {datetime: str, datetime | None: str | None}


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
