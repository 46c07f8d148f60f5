"""Functions of text: case, padding, trimming, joining. Lengths and positions count code points.

Source: Flink docs, "System (Built-in) Functions", string functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.cast_text import text_of
from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.conditional import common
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.java_format import formatted
from penstock.table.functions.java_text import parse_double
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import (
    BOOLEAN,
    CHARACTER_STRING,
    INT,
    INTEGER_NUMERIC,
    MAX_LENGTH,
    NUMERIC,
    STRING,
    LogicalType,
)

FAMILY = Family()
_TEXT = ["<CHARACTER_STRING>"]


def _is_ascii(column: Column) -> bool:
    if is_constant(column):
        return not column.is_valid or column.as_py().isascii()
    return pc.all(pc.string_is_ascii(column)).as_py() is not False


def _register_case(name: str, kernel: Callable[[Any], Any], function: Callable[[str], str]) -> None:
    @FAMILY.kernel(name, signatures=_TEXT, result=lambda one: one.types[0])
    def _(call: Call) -> Column:
        if _is_ascii(call.columns[0]):
            return kernel(call.columns[0])
        return per_distinct(function, call.columns, pa.string())


_register_case("UPPER", pc.ascii_upper, str.upper)
_register_case("LOWER", pc.ascii_lower, str.lower)


@FAMILY.kernel("CHAR_LENGTH", "CHARACTER_LENGTH", signatures=_TEXT, result=INT)
def char_length(call: Call) -> Column:
    """Return the number of characters."""
    return pc.utf8_length(call.columns[0])


@FAMILY.values("INITCAP", *_TEXT, result=STRING)
def initcap(text: str) -> str:
    """Return the text with the first letter of each word in upper case. Words are of ASCII letters and digits."""
    return re.sub(r"[A-Za-z0-9]+", lambda match: match[0][0].upper() + match[0][1:].lower(), text)


def _concatenated(arguments: Arguments) -> LogicalType:
    left, right = arguments.types
    root = "CHAR" if left.root == right.root == "CHAR" else "VARCHAR"
    return LogicalType(root, length=min(left.length + right.length, MAX_LENGTH), nullable=arguments.nullable)


@FAMILY.kernel("CONCAT", signatures=["<CHARACTER_STRING>..."], result=STRING)
@FAMILY.kernel("||", signatures=["<CHARACTER_STRING>, <CHARACTER_STRING>"], result=_concatenated)
def concat(call: Call) -> Column:
    """Join the arguments; NULL if any is NULL."""
    return pc.binary_join_element_wise(*(one.cast(pa.string()) for one in call.columns), "")


@FAMILY.kernel("CONCAT_WS", signatures=["<CHARACTER_STRING>, <CHARACTER_STRING>..."], result=STRING)
def concat_ws(call: Call) -> Column:
    """Join the arguments that are not NULL with the first between them."""
    separator, *texts = columns = [one.cast(pa.string()) for one in call.columns]
    if not texts or any(not one.is_valid if is_constant(one) else one.null_count for one in texts):
        # Arrow's join that skips NULL (26.0) leaves out rows in which all texts are NULL.
        return per_distinct(_joined, columns, pa.string(), nulls=True)
    return pc.binary_join_element_wise(*texts, separator)


def _joined(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _register_trim(
    name: str, kernel: Callable[..., Any], function: Callable[[str, str], str], signatures: list[str]
) -> None:
    @FAMILY.kernel(name, signatures=signatures, result=STRING)
    def _(call: Call) -> Column:
        if len(call.columns) == 1:
            return kernel(call.columns[0], characters=" ")
        return per_distinct(function, call.columns, pa.string())


_TRIMS: dict[str, tuple[Callable[..., Any], Callable[[str, str], str]]] = {
    "BOTH": (pc.utf8_trim, lambda text, characters: text.strip(characters) if characters else text),
    "LEADING": (pc.utf8_ltrim, lambda text, characters: text.lstrip(characters) if characters else text),
    "TRAILING": (pc.utf8_rtrim, lambda text, characters: text.rstrip(characters) if characters else text),
}
_PAIR = ["<CHARACTER_STRING>", "<CHARACTER_STRING>, <CHARACTER_STRING>"]
_register_trim(
    "BTRIM", *_TRIMS["BOTH"], ["str <CHARACTER_STRING>", "str <CHARACTER_STRING>, trimStr <CHARACTER_STRING>"]
)
_register_trim("LTRIM", *_TRIMS["LEADING"], _PAIR)
_register_trim("RTRIM", *_TRIMS["TRAILING"], _PAIR)


def _trimmed(arguments: Arguments) -> LogicalType:
    return LogicalType("VARCHAR", length=arguments.types[-1].length or MAX_LENGTH, nullable=arguments.nullable)


@FAMILY.kernel("TRIM", signatures=[*_TEXT, "<SYMBOL>, <CHARACTER_STRING>, <CHARACTER_STRING>"], result=_trimmed)
def trim(call: Call) -> Column:
    """Remove characters from the ends: TRIM(text), or as plans have it: BOTH, characters, text."""
    if len(call.columns) == 1:
        return pc.utf8_trim(call.columns[0], characters=" ")
    if call.constant(0) not in _TRIMS:
        raise InvalidCallError(f"TRIM: expected BOTH, LEADING or TRAILING, got {call.constant(0)}")
    kernel, function = _TRIMS[call.constant(0)]
    if is_constant(call.columns[1]) and call.columns[1].as_py():
        return kernel(call.columns[2], characters=call.columns[1].as_py())
    return per_distinct(function, [call.columns[2], call.columns[1]], pa.string())


_PAD = "<CHARACTER_STRING>, <INTEGER>, <CHARACTER_STRING>"


@FAMILY.values("LPAD", _PAD, result=STRING)
def lpad(text: str, length: int, pad: str) -> str | None:
    """Fill up to a length from the left, or cut."""
    fill = _fill(text, length, pad)
    return None if fill is None else fill + text[:length]


@FAMILY.values("RPAD", _PAD, result=STRING)
def rpad(text: str, length: int, pad: str) -> str | None:
    """Fill up to a length from the right, or cut."""
    fill = _fill(text, length, pad)
    return None if fill is None else text[:length] + fill


def _fill(text: str, length: int, pad: str) -> str | None:
    missing = length - len(text)
    if length < 0 or not pad:
        return None
    return (pad * (missing // len(pad) + 1))[:missing] if missing > 0 else ""


@FAMILY.values("REPEAT", "<CHARACTER_STRING>, <INTEGER>", result=STRING)
def repeat(text: str, count: int) -> str:
    """Return the text so many times; less than once is never."""
    return text * max(count, 0)


@FAMILY.values("REVERSE", *_TEXT, result=STRING, nullable=True)
def reverse(text: str) -> str:
    """Return the characters in reverse."""
    return text[::-1]


@FAMILY.kernel("REPLACE", signatures=["<CHARACTER_STRING>, <CHARACTER_STRING>, <CHARACTER_STRING>"], result=STRING)
def replace(call: Call) -> Column:
    """Replace each occurrence of a text."""
    text, *others = call.columns
    if all(is_constant(one) and one.is_valid for one in others) and others[0].as_py():
        return pc.replace_substring(text, others[0].as_py(), others[1].as_py())
    return per_distinct(
        lambda one, search, other: one.replace(search, other) if search else one, call.columns, pa.string()
    )


@FAMILY.values(
    "TRANSLATE3", "expr <CHARACTER_STRING>, fromStr <CHARACTER_STRING>, toStr <CHARACTER_STRING>",
    result=lambda one: STRING.with_nullability(one.types[0].nullable), nulls=True,
)  # fmt: skip
def translate(text: str | None, source: str | None, target: str | None) -> str | None:
    """Replace characters by those at the same place of another text, or remove those without a counterpart."""
    if text is None or not source:
        return text
    goal = target or ""
    table: dict[int, str | None] = {}
    for index, character in enumerate(source):
        table.setdefault(ord(character), goal[index] if index < len(goal) else None)
    return text.translate(table)


FAMILY.functions["TRANSLATE"] = FAMILY.functions["TRANSLATE3"]


def _register_end(name: str, kernel: Callable[..., Any], operator: Callable[[Any, Any], bool], part: str) -> None:
    signatures = [f"expr <{family}>, {part} <{family}>" for family in ("CHARACTER_STRING", "BINARY_STRING")]

    @FAMILY.kernel(name, signatures=signatures, result=BOOLEAN)
    def _(call: Call) -> Column:
        text, end = call.columns
        if is_constant(end) and end.is_valid:
            return kernel(text, end.as_py())
        return per_distinct(operator, call.columns, pa.bool_())


_register_end("STARTSWITH", pc.starts_with, lambda text, start: text.startswith(start), "startExpr")
_register_end("ENDSWITH", pc.ends_with, lambda text, end: text.endswith(end), "endExpr")


def _chosen(arguments: Arguments) -> LogicalType:
    index = arguments.literal(0)
    if index is not None and index < 0:
        raise InvalidCallError(f"Index must be an integer starting from '0', but was '{index}'.")
    return common(arguments.types[1:])


@FAMILY.kernel(
    "ELT", nullable=True, result=_chosen,
    signatures=[
        "index <INTEGER_NUMERIC>, expr <CHARACTER_STRING>, exprs <CHARACTER_STRING>...",
        "index <INTEGER_NUMERIC>, expr <BINARY_STRING>, exprs <BINARY_STRING>...",
    ],
)  # fmt: skip
def elt(call: Call) -> Column:
    """Return the argument at a position from 1, NULL if there is none."""
    index, *values = call.columns
    result: Column = pa.scalar(None, call.arrow_type)
    for position, value in enumerate(values, 1):
        result = pc.if_else(pc.equal(index, position).fill_null(False) if not is_constant(index) else pa.scalar(
            index.as_py() == position), value.cast(call.arrow_type), result)  # fmt: skip
    return result


@FAMILY.kernel("PRINTF", signatures=["format <CHARACTER_STRING>, obj <ANY>..."], result=STRING, nullable=True)
def printf(call: Call) -> Column:
    """Format values by a pattern of `java.util.Formatter`; NULL if they do not fit."""
    columns = [call.columns[0]]
    for column, kind in zip(call.columns[1:], call.types[1:], strict=True):
        if kind.root in ("DATE", "TIME", "INTERVAL_MONTH"):
            column = column.cast(pa.int32())
        elif kind.root == "INTERVAL_SECOND":
            column = column.cast(pa.int64())
        elif kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            column = _iso_text(column, kind)
        columns.append(column)
    return per_distinct(formatted, columns, pa.string(), nulls=True)


def _iso_text(column: Column, kind: LogicalType) -> Column:
    """Return timestamps as `LocalDateTime.toString` does: seconds and their digits only if they are not 0."""

    def shortened(text: str) -> str:
        text = text.replace(" ", "T")
        whole, _, fraction = text.partition(".")
        fraction = fraction.rstrip("0")
        if not fraction:
            return whole.removesuffix(":00")
        return f"{whole}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"

    return per_distinct(shortened, [text_of(column, kind, "UTC")], pa.string())


def _register_is(name: str, holds: Callable[[str], bool], roots: frozenset[str]) -> None:
    """Register a test of text that holds for all values of some types, and never for NULL."""

    @FAMILY.kernel(name, signatures=["<ANY>"], result=BOOLEAN, nullable=False)
    def _(call: Call) -> Column:
        if call.types[0].root in CHARACTER_STRING:
            return per_distinct(lambda text: bool(text) and holds(text), call.columns, pa.bool_(), nulls=True)
        return pc.and_(pc.is_valid(call.columns[0]), call.types[0].root in roots)


def _is_number(text: str) -> bool:
    try:
        parse_double(text)
    except ValueError:
        return False
    return True


_register_is("IS_ALPHA", str.isalpha, frozenset())
_register_is("IS_DIGIT", str.isdecimal, INTEGER_NUMERIC)
_register_is("IS_DECIMAL", _is_number, NUMERIC)
