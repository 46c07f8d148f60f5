"""JSON as Jackson writes it: without spaces, fields in order of their names, numbers as they were written."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec

from penstock.common.values.decoding import DECODING_ERRORS

_DECODER = msgspec.json.Decoder(float_hook=Decimal)


class Raw(str):
    """Text that is JSON already."""

    __slots__ = ()


def parse(text: str) -> Any:
    """Read JSON. Fractions are Decimals, so that no digit is lost. Raises ValueError."""
    try:
        return _DECODER.decode(text)
    except DECODING_ERRORS:
        # It refuses what Jackson reads, and has no position.
        return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def write(value: Any, *, ordered: bool = True) -> str:
    """Return the JSON of a value."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        pairs = sorted(value.items()) if ordered else value.items()
        return "{" + ",".join(f"{write(str(key))}:{write(item, ordered=ordered)}" for key, item in pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(write(item, ordered=ordered) for item in value) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value)


def scalar_text(value: Any) -> str:
    """Return a scalar without quotes."""
    return value if isinstance(value, str) else write(value)
