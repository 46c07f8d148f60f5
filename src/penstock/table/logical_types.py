"""Types of SQL by Flink's names: what a plan says of a column. Source: Flink docs, "Data Types" of the Table API.

`parse` reads the text that Flink writes (`DECIMAL(10, 2) NOT NULL`), `str(type)` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

MAX_LENGTH = 2147483647
MAX_PRECISION = 38

CHARACTER_STRING = frozenset({"CHAR", "VARCHAR"})
BINARY_STRING = frozenset({"BINARY", "VARBINARY"})
INTEGER_NUMERIC = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
EXACT_NUMERIC = INTEGER_NUMERIC | {"DECIMAL"}
APPROXIMATE_NUMERIC = frozenset({"FLOAT", "DOUBLE"})
NUMERIC = EXACT_NUMERIC | APPROXIMATE_NUMERIC
TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})
DATETIME = TIMESTAMPS | {"DATE", "TIME"}
INTERVALS = frozenset({"INTERVAL_MONTH", "INTERVAL_SECOND"})
ROWS = frozenset({"ROW", "STRUCTURED"})
CONSTRUCTED = ROWS | {"ARRAY", "MAP", "MULTISET"}

INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""Precision of the decimal that holds all values of an integer type."""


class TypeSyntaxError(ValueError):
    """The text is not a type of Flink's SQL."""


@dataclass(frozen=True)
class LogicalType:
    """A type with its nullability. Equality ignores how an interval is written: `YEAR(2) TO MONTH` or `MONTH`."""

    root: str
    """CHAR, VARCHAR, DECIMAL, ..., TIMESTAMP_LTZ, INTERVAL_MONTH and INTERVAL_SECOND, ARRAY, ROW, NULL, SYMBOL."""
    nullable: bool = True
    length: int = 0
    """The length of CHAR, VARCHAR, BINARY and VARBINARY, in characters or bytes."""
    precision: int = 0
    """Digits of DECIMAL; digits of the fraction of seconds of TIME, TIMESTAMP, TIMESTAMP_LTZ."""
    scale: int = 0
    children: tuple[LogicalType, ...] = ()
    """The element of ARRAY and MULTISET, key and value of MAP, the fields of ROW and STRUCTURED."""
    names: tuple[str, ...] = ()
    class_name: str = ""
    resolution: str = field(default="", compare=False)

    def with_nullability(self, nullable: bool) -> LogicalType:
        """Return this type, nullable or NOT NULL."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def with_children(self, children: Sequence[LogicalType]) -> LogicalType:
        """Return this type with other elements or fields."""
        return replace(self, children=tuple(children))

    @property
    def summary(self) -> str:
        """The text of the type without its nullability."""
        return _text(self)

    def __str__(self) -> str:
        return _text(self) + ("" if self.nullable or self.root == "NULL" else " NOT NULL")


def _text(one: LogicalType) -> str:
    root = one.root
    if root in ("VARCHAR", "VARBINARY") and one.length == MAX_LENGTH:
        return "STRING" if root == "VARCHAR" else "BYTES"
    if root in CHARACTER_STRING or root in BINARY_STRING:
        return f"{root}({one.length})"
    if root == "DECIMAL":
        return f"DECIMAL({one.precision}, {one.scale})"
    if root == "TIME" or root in TIMESTAMPS:
        return f"{root}({one.precision})"
    if root in INTERVALS:
        return f"INTERVAL {one.resolution}"
    if root in ROWS:
        fields = ", ".join(f"`{name}` {child}" for name, child in zip(one.names, one.children, strict=True))
        return f"ROW<{fields}>" if root == "ROW" else f"STRUCTURED<'{one.class_name}', {fields}>"
    if one.children:
        return f"{root}<{', '.join(map(str, one.children))}>"
    return root


def parse(text: str) -> LogicalType:
    """Return the type that Flink writes as `text`. Raises TypeSyntaxError."""
    reader = TypeReader(text)
    result = reader.type()
    reader.end()
    return result


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|([A-Za-z_][A-Za-z_0-9]*)|(\d+)|([<>(),]))", re.DOTALL)

_BEHAVIOR = re.compile(r"\s*NULL\s+ON\b", re.IGNORECASE)
"""A clause that may follow the type after RETURNING; NULL does not belong to the type then."""

_SIMPLE = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "DATE": "DATE", "NULL": "NULL", "BITMAP": "BITMAP", "VARIANT": "VARIANT",
    "DESCRIPTOR": "DESCRIPTOR", "SYMBOL": "SYMBOL",
}  # fmt: skip


class TypeReader:
    """Reads a type from the beginning of a text; `rest` is what follows it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def rest(self) -> str:
        """The text that has not been read yet."""
        return self._text[self._at :]

    def type(self) -> LogicalType:
        """Read a type with its nullability. Raises TypeSyntaxError."""
        result = self._nullability(self._base())
        while (suffix := self._word_if("ARRAY", "MULTISET")) is not None:
            result = self._nullability(LogicalType(suffix, children=(result,)))
        return result

    def end(self) -> None:
        """Raise TypeSyntaxError if text follows the type."""
        if self.rest.strip():
            raise self._error("the end of the type")

    def _base(self) -> LogicalType:
        name = self._word()
        if name in _SIMPLE:
            if name == "DOUBLE":
                self._word_if("PRECISION")
            return LogicalType(_SIMPLE[name])
        if name in ("CHAR", "CHARACTER", "VARCHAR", "BINARY", "VARBINARY"):
            if name == "CHARACTER" or name == "CHAR":
                name = "VARCHAR" if self._word_if("VARYING") else "CHAR"
            default = MAX_LENGTH if name.startswith("VAR") and not self._at_symbol("(") else 1
            return LogicalType(name, length=self._numbers(default)[0])
        if name in ("STRING", "BYTES"):
            return LogicalType("VARCHAR" if name == "STRING" else "VARBINARY", length=MAX_LENGTH)
        if name in ("DECIMAL", "DEC", "NUMERIC"):
            precision, *scale = self._numbers(10)
            return LogicalType("DECIMAL", precision=precision, scale=scale[0] if scale else 0)
        if name in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
            return self._time(name)
        if name == "INTERVAL":
            return self._interval()
        if name in ("ARRAY", "MULTISET", "MAP"):
            return LogicalType(name, children=self._children())
        if name in ("ROW", "STRUCTURED"):
            return self._row(name)
        raise self._error(f"a type, got {name}")

    def _time(self, name: str) -> LogicalType:
        precision = self._numbers(0 if name == "TIME" else 6)[0]
        if self._word_if("WITH"):
            for word in ("LOCAL", "TIME", "ZONE"):
                self._expect(word)
            name = "TIMESTAMP_LTZ"
        elif self._word_if("WITHOUT"):
            for word in ("TIME", "ZONE"):
                self._expect(word)
        return LogicalType(name, precision=precision)

    def _interval(self) -> LogicalType:
        start = self._at
        first = last = self._unit()
        if self._word_if("TO"):
            last = self._unit()
        root = "INTERVAL_MONTH" if last in ("YEAR", "MONTH") and first in ("YEAR", "MONTH") else "INTERVAL_SECOND"
        return LogicalType(root, resolution=self._text[start : self._at].strip())

    def _unit(self) -> str:
        unit = self._word()
        if unit not in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"):
            raise self._error(f"a unit of time, got {unit}")
        self._numbers(0)
        return unit

    def _children(self) -> tuple[LogicalType, ...]:
        self._symbol("<")
        children = [self.type()]
        while self._at_symbol(","):
            self._symbol(",")
            children.append(self.type())
        self._symbol(">")
        return tuple(children)

    def _row(self, root: str) -> LogicalType:
        closing = ")" if self._at_symbol("(") else ">"
        self._symbol("(" if closing == ")" else "<")
        class_name = ""
        names: list[str] = []
        children: list[LogicalType] = []
        if root == "STRUCTURED":
            class_name = self._token(2)[1:-1].replace("''", "'")
        while not self._at_symbol(closing):
            if names or class_name:
                self._symbol(",")
            names.append(self._name())
            children.append(self.type())
            if (match := _TOKEN.match(self._text, self._at)) and match.group(2):  # the comment of a field
                self._at = match.end()
        self._symbol(closing)
        return LogicalType(root, children=tuple(children), names=tuple(names), class_name=class_name)

    def _nullability(self, result: LogicalType) -> LogicalType:
        if self._word_if("NOT"):
            self._expect("NULL")
            return result.with_nullability(False)
        if not _BEHAVIOR.match(self._text, self._at):
            self._word_if("NULL")
        return result

    def _numbers(self, *default: int) -> list[int]:
        if not self._at_symbol("("):
            return list(default)
        self._symbol("(")
        numbers = [int(self._token(4))]
        while self._at_symbol(","):
            self._symbol(",")
            numbers.append(int(self._token(4)))
        self._symbol(")")
        return numbers

    def _name(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match and match.group(1):
            self._at = match.end()
            return match.group(1)[1:-1].replace("``", "`")
        return self._token(3)

    def _word(self) -> str:
        return self._token(3).upper()

    def _word_if(self, *words: str) -> str | None:
        match = _TOKEN.match(self._text, self._at)
        if match and match.group(3) and match.group(3).upper() in words:
            self._at = match.end()
            return match.group(3).upper()
        return None

    def _expect(self, word: str) -> None:
        if not self._word_if(word):
            raise self._error(word)

    def _at_symbol(self, symbol: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        return match is not None and match.group(5) == symbol

    def _symbol(self, symbol: str) -> None:
        if not self._at_symbol(symbol):
            raise self._error(repr(symbol))
        self._token(5)

    def _token(self, group: int) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.group(group) is None:
            raise self._error("a type" if group == 3 else "another token")
        self._at = match.end()
        return match.group(group)

    def _error(self, expected: str) -> TypeSyntaxError:
        return TypeSyntaxError(f"expected {expected} at position {self._at} of the type {self._text!r}")


BOOLEAN = LogicalType("BOOLEAN")
INT = LogicalType("INT")
BIGINT = LogicalType("BIGINT")
DOUBLE = LogicalType("DOUBLE")
STRING = LogicalType("VARCHAR", length=MAX_LENGTH)
BYTES = LogicalType("VARBINARY", length=MAX_LENGTH)
DATE = LogicalType("DATE")


def decimal(precision: int, scale: int) -> LogicalType:
    """Return DECIMAL(precision, scale)."""
    return LogicalType("DECIMAL", precision=precision, scale=scale)


def array_of(element: LogicalType) -> LogicalType:
    """Return ARRAY<element>."""
    return LogicalType("ARRAY", children=(element,))


def map_of(key: LogicalType, value: LogicalType) -> LogicalType:
    """Return MAP<key, value>."""
    return LogicalType("MAP", children=(key, value))


def row_of(**fields: LogicalType) -> LogicalType:
    """Return ROW<...> with these fields."""
    return LogicalType("ROW", names=tuple(fields), children=tuple(fields.values()))
