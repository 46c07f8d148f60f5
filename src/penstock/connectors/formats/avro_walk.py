"""Find where each record of an Avro block begins: only the record before it tells.

A function is compiled for the schema, because an interpreted walk takes twice as long. It accepts damaged bytes:
decoding the records shows the damage.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from penstock.connectors.formats.avro_bytes import Positions
from penstock.connectors.formats.avro_plain import FIXED_BYTES, PlainTypes

_LAST_BYTES = bytes(int(byte > 127) for byte in range(256))
"""Translates bytes, so that those that end an integer are 0."""


class RecordWalk:
    """Walk over the records of a schema that PlainTypes accepts."""

    def __init__(self, types: PlainTypes) -> None:
        source = [
            "def walk(data, last, at, count, found):",
            "    for _ in range(count):",
            "        found(at)",
            *(f"        {line}" for line in _lines(types, types.record)),
            "    return at",
        ]
        names: dict[str, Any] = {"after_text": _after_text}
        exec("\n".join(source), names)
        self._walk: Callable[..., int] = names["walk"]

    def starts(self, data: bytes, blocks: Sequence[tuple[int, int]]) -> Positions | None:
        """Return where the records of joined blocks begin, or None if they do not end where their block ends.

        `blocks`: the number of records and the size in bytes of each.
        """
        last = data.translate(_LAST_BYTES).index
        starts = array.array("q")
        at = 0
        for count, size in blocks:
            # A record without bytes would be found without end in a damaged block.
            if count > size:
                return None
            try:
                expected = at + size
                at = self._walk(data=data, last=last, at=at, count=count, found=starts.append)
            except (IndexError, ValueError):
                return None
            if at != expected:
                return None
        return numpy.frombuffer(starts, numpy.int64)


def _after_text(data: bytes, last: Callable[[bytes, int], int], at: int) -> int:
    """Return the end of a text of 64 bytes or more, or of any length that is negative."""
    start = last(b"\0", at) + 1
    length = 0
    for byte in reversed(data[at:start]):
        length = length << 7 | byte & 127
    return start + (length >> 1)


def _lines(types: PlainTypes, schema: Any) -> list[str]:
    """Return statements that move `at` behind a value."""
    if isinstance(schema, list):
        value = types.value_branch(schema)
        return [
            f"if data[at] == {2 * schema.index(value)}:",
            "    at += 1",
            *(f"    {line}" for line in _lines(types, value)),
            "else:",
            "    at += 1",
        ]
    definition, base = types.definition(schema)
    if base == "record":
        return [line for field in definition["fields"] for line in _lines(types, field["type"])]
    if base in ("int", "long", "enum"):
        return ["at = at + 1 if data[at] < 128 else last(b'\\0', at) + 1"]
    if base in ("string", "bytes"):
        return ["length = data[at]", "at = at + 1 + (length >> 1) if length < 128 else after_text(data, last, at)"]
    return [f"at += {definition['size'] if base == 'fixed' else FIXED_BYTES[base]}"]
