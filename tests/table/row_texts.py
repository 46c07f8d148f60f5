"""Rows from the text that Flink gives them: `+I[1, Hi, 2020-10-10T00:00:01, {a=1}, [1, 2]]`."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from penstock.table.logical_types import APPROXIMATE_NUMERIC, INTEGER_NUMERIC, ROWS, LogicalType

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def parse_row(text: str, types: list[LogicalType]) -> tuple[int, list[Any]]:
    """Return kind and values of a row."""
    kind, fields = text[:2], _parts(text[3:-1])
    fields += ["null"] * (len(types) - len(fields))
    more = len(fields) - len(types)
    # A text may have commas: it is the first one with which the other values fit their types.
    for place in range(len(types)) if more else [0]:
        whole = [*fields[:place], ", ".join(fields[place : place + more + 1]), *fields[place + more + 1 :]]
        if more and types[place].root not in ("CHAR", "VARCHAR"):
            continue
        try:
            return KINDS[kind], [parse_value(one, logical) for one, logical in zip(whole, types, strict=True)]
        except ValueError:
            if not more:
                raise
    raise ValueError(f"{len(fields)} values for {len(types)} columns: {text}")


def trimmed(rows: list[str], count: int) -> list[str]:
    """Return rows without values that no column has, if all rows have such."""
    if not rows or min(len(_parts(row[3:-1])) for row in rows) <= count:
        return rows
    return [f"{row[:3]}{', '.join(_parts(row[3:-1])[:count])}]" for row in rows]


def parse_value(text: str, one: LogicalType) -> Any:
    """Return the value of a text, as pyarrow takes it."""
    if text == "null":
        return None
    root = one.root
    if root in INTEGER_NUMERIC:
        return int(text)
    if root in APPROXIMATE_NUMERIC:
        return float(text)
    if root == "DECIMAL":
        return Decimal(text).quantize(Decimal(1).scaleb(-one.scale))
    if root == "BOOLEAN":
        return text == "true"
    if root in ("CHAR", "VARCHAR"):
        return text
    if root in ("BINARY", "VARBINARY"):
        return bytes(int(part) % 256 for part in _parts(text[1:-1]))
    if root == "DATE":
        return datetime.date.fromisoformat(text)
    if root == "TIME":
        return datetime.time.fromisoformat(text)
    if root == "TIMESTAMP":
        return datetime.datetime.fromisoformat(text)
    if root == "TIMESTAMP_LTZ":
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if root == "ARRAY":
        return [parse_value(part, one.children[0]) for part in _parts(text[1:-1])]
    if root == "MAP":
        pairs = (part.partition("=") for part in _parts(text[1:-1]))
        return [(parse_value(key, one.children[0]), parse_value(value, one.children[1])) for key, _, value in pairs]
    if root in ROWS:
        fields = _parts(text[3:-1] if text.startswith("+I[") else text[1:-1])
        return {name: parse_value(part, kind) for name, part, kind in zip(one.names, fields, one.children, strict=True)}
    raise NotImplementedError(f"a value of {one} from {text!r}")


def _parts(text: str) -> list[str]:
    """Return the parts between commas that are in no brackets."""
    if not text:
        return []
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += character in "[{"
        depth -= character in "]}"
        if character == "," and not depth and text[place : place + 2] == ", ":
            parts.append(text[start:place])
            start = place + 2
    return [*parts, text[start:]]
