"""The texts of values in files and messages: JSON and CSV."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import msgspec

from penstock.common.types import Row

CSV_UNCHANGED = frozenset({str, int, float, Decimal})
"""Types whose values the csv module writes as they are."""


def json_bytes(value: Any) -> bytes:
    """Return `value` in JSON. NaN and infinities become texts, Rows objects or arrays. Raises TypeError."""
    found = _JSON.encode(value)
    # msgspec writes NaN and infinities as null, too.
    if b"null" not in found or _has_nones(value, found.count(b"null")):
        return found
    return _JSON.encode(with_number_texts(msgspec.to_builtins(value, enc_hook=json_form)))


def _has_nones(value: Any, count: int) -> bool:
    """Return whether the top level has `count` Nones: then each null in the JSON stands for None."""
    if isinstance(value, dict):
        return list(value.values()).count(None) == count
    return isinstance(value, (list, tuple, Row)) and list(value).count(None) == count


def number_text(value: float) -> str:
    """Return the text of NaN or an infinity, as Java writes it: NaN, Infinity or -Infinity."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def with_number_texts(value: Any) -> Any:
    """Return a value with the texts of NaN and infinities in their place."""
    if isinstance(value, float):
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, dict):
        return {key: with_number_texts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_number_texts(item) for item in value]
    return value


def json_form(value: Any) -> Any:
    """Return a dict or list for a Row, as msgspec's `enc_hook`. Raises TypeError for other values."""
    if isinstance(value, Row):
        return list(value) if value._fields is None else value.as_dict()
    raise TypeError(f"{value!r} of type {type(value).__name__} can't be written as JSON")


# Module-level, because the encoder is pickled.
_JSON = msgspec.json.Encoder(enc_hook=json_form, decimal_format="string")


def csv_text(value: Any) -> str:
    """Return the CSV text of any field that is not None."""
    if isinstance(value, float) and not math.isfinite(value):
        return number_text(value)
    return str(value) if type(value) in CSV_UNCHANGED else csv_form(value)


def csv_form(value: Any) -> str:
    """Return the CSV text of a field that is not None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (Row, list, tuple, dict)):
        return json_bytes(value).decode()
    if isinstance(value, bytes):
        return _JSON.encode(value).decode()[1:-1]
    return str(value)
