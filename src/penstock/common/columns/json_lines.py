"""Batches as JSON lines, which are those that msgspec writes for their records."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.families import is_text
from penstock.common.columns.lines import (
    TEXT,
    Lines,
    content_of,
    have_values_of_records,
    joined,
    lines_of,
    replaced,
    texts_of,
)
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import python_values
from penstock.common.values.written_texts import json_bytes

_ESCAPED = r'["\\\x00-\x1f]'
"""The characters that JSON must escape. msgspec escapes no others."""


def takes_columns(columns: RecordColumns) -> bool:
    """Return whether `json_lines` writes these columns as msgspec writes their records. Tuples become arrays."""
    kind = columns.record_type
    is_tuple = isinstance(kind, type) and issubclass(kind, tuple)
    return not is_tuple and have_values_of_records(columns)


def json_lines(batch: pyarrow.RecordBatch, zone: str = "") -> Lines:
    """Return the lines of a batch. Raises what `python_values` raises, and pyarrow.ArrowInvalid.

    `zone`: the text behind times without a zone.
    """
    parts: list[pyarrow.Array | str] = []
    before = "{"
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{before}{_json(name)}:", _values(column, zone)]
        before = ","
    return lines_of(*parts, "}\n")


def json_messages(batch: pyarrow.RecordBatch, zone: str = "") -> list[bytes]:
    """Return the lines of a batch without their ends, each by itself."""
    # JSON escapes the line breaks of texts.
    return json_lines(batch, zone).data.split(b"\n")[:-1]


def _values(column: pyarrow.Array, zone: str) -> pyarrow.Array:
    """Return each value of a column in JSON."""
    texts = texts_of(column, _json)
    if texts is None:
        texts = pyarrow.array([None if value is None else _json(value) for value in python_values(column)], TEXT)
    elif is_text(column.type):
        texts = quoted(texts)
    elif arrow.is_temporal(column.type):
        texts = joined('"', texts, f'{zone}"' if arrow.is_timestamp(column.type) else '"')
    return texts.fill_null("null")


def quoted(texts: pyarrow.Array) -> pyarrow.Array:
    """Return texts as JSON: quoted, and escaped where needed."""
    return joined('"', escaped(texts), '"')


def escaped(texts: pyarrow.Array) -> pyarrow.Array:
    """Return texts as they are between the quotation marks of JSON."""
    content = content_of(texts)
    if bool((numpy.frombuffer(content, numpy.uint8) < ord(" ")).any()):
        is_escaped = compute.match_substring_regex(texts, _ESCAPED).fill_null(False)
        return replaced(texts, is_escaped, lambda: [_json(one)[1:-1] for one in texts.filter(is_escaped).to_pylist()])
    # Looking for bytes takes a tenth of the time that replacing them does.
    for character in ("\\", '"'):
        if character.encode() in content:
            texts = compute.replace_substring(texts, character, f"\\{character}")
    return texts


def _json(value: Any) -> str:
    return json_bytes(value).decode()
