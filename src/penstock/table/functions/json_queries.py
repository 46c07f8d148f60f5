"""JSON_EXISTS, JSON_VALUE, JSON_QUERY, IS JSON, JSON_QUOTE and JSON_UNQUOTE.

In plans and here, behaviors are symbols after the path. JSON_VALUE has what (`NULL`, `ERROR`, `DEFAULT`), the value of
a DEFAULT, and when (`EMPTY` or `ERROR`); JSON_QUERY has the wrapper, and what to do if there is no value, and if there
is an error (`NULL`, `ERROR`, `EMPTY_ARRAY`, `EMPTY_OBJECT`). A path is `strict` unless it begins with `lax`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.errors import FunctionError, InvalidCallError, InvalidOptionError
from penstock.table.functions.json_paths import InvalidPathError, PathNotFoundError, find
from penstock.table.functions.json_values import parse, scalar_text, write
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import BOOLEAN, CHARACTER_STRING, STRING, LogicalType

FAMILY = Family()

_MODE = re.compile(r"\s*(strict|lax)\s+(.*)", re.IGNORECASE | re.DOTALL)


class _Found(NamedTuple):
    value: Any
    error: str | None
    lax: bool


@lru_cache(maxsize=100)
def _document(text: str) -> Any:
    return parse(text)


@lru_cache(maxsize=1000)
def _mode_of(path: str) -> tuple[bool, str]:
    match = _MODE.fullmatch(path)
    return (False, path) if match is None else (match[1].lower() == "lax", match[2])


def _find(text: str, path: str) -> _Found:
    """Follow a path. In lax mode what is not there is None, in strict mode an error."""
    lax, path = _mode_of(path)
    try:
        return _Found(find(_document(text), path), None, lax)
    except PathNotFoundError as error:
        return _Found(None, None if lax else str(error), lax)
    except (ValueError, InvalidPathError) as error:
        return _Found(None, str(error), lax)


class _Behavior(NamedTuple):
    what: str
    value: Any = None


def _behaviors(call: Call, start: int) -> dict[str, _Behavior]:
    """Return what to do, by `EMPTY` and `ERROR`."""
    found: dict[str, _Behavior] = {}
    what, value = "", None
    for index in range(start, len(call.columns)):
        if call.types[index].root == "SYMBOL":
            symbol = call.constant(index)
            if what and symbol in ("EMPTY", "ERROR"):
                found[symbol] = _Behavior(what, value)
                what, value = "", None
            else:
                what = symbol
        elif what == "DEFAULT":
            value = call.constant(index)
    return found


@FAMILY.kernel(
    "JSON_EXISTS", nullable=True, result=BOOLEAN,
    signatures=["<CHARACTER_STRING>, <CHARACTER_STRING>", "<CHARACTER_STRING>, <CHARACTER_STRING>, <SYMBOL>..."],
)  # fmt: skip
def json_exists(call: Call) -> Column:
    """Tell whether a path leads to a value."""
    on_error = call.constant(2, "FALSE")

    def exists(text: str, path: str) -> bool | None:
        found = _find(text, path)
        if found.error is None:
            return found.value is not None
        if on_error == "ERROR":
            raise FunctionError(found.error)
        return {"TRUE": True, "FALSE": False}.get(on_error)

    return per_distinct(exists, call.columns[:2], pa.bool_())


def _returned(arguments: Arguments) -> LogicalType:
    last = arguments.types[-1]
    return last.with_nullability(True) if _has_type(arguments.types, arguments.columns) else STRING


def _has_type(types: Sequence[LogicalType], columns: Sequence[Column | None]) -> bool:
    """Tell whether the last argument is the type after RETURNING: a NULL of that type."""
    column = columns[-1]
    if len(types) == 2 or types[-1].root in ("SYMBOL", "NULL", "CHAR") or column is None:
        return False
    return is_constant(column) and not column.is_valid


@FAMILY.kernel(
    "JSON_VALUE", signatures=["<CHARACTER_STRING>, <CHARACTER_STRING>, <ANY>..."], result=_returned, nullable=True
)
def json_value(call: Call) -> Column:
    """Return the scalar that a path leads to, as text or as the type after RETURNING."""
    behaviors = _behaviors(call, 2)

    def value(text: str, path: str) -> str | None:
        found = _find(text, path)
        if found.error is None and isinstance(found.value, (dict, list)):
            error = f"Strict jsonpath mode requires scalar value, and the actual value is: '{write(found.value)}'"
            found = _Found(None, None if found.lax else error, found.lax)
        if found.error is not None:
            return _instead(behaviors.get("ERROR"), found.error)
        if found.value is None:
            return _instead(behaviors.get("EMPTY"), "Empty result of JSON_VALUE function is not allowed")
        if type(found.value) is not _RETURNED.get(call.result.root, type(found.value)):
            raise FunctionError(f"JSON_VALUE: expected {call.result.summary}, got {write(found.value)}")
        return scalar_text(found.value)

    texts = per_distinct(value, call.columns[:2], pa.string())
    return texts if call.result.root in CHARACTER_STRING else cast(texts, STRING, call.result, call.context.zone)


_RETURNED: dict[str, type] = {"INT": int, "BOOLEAN": bool}
"""Values that are returned as another type than text must have it in JSON."""


def _instead(behavior: _Behavior | None, message: str) -> str | None:
    """Return what stands for an absent value or for an error."""
    if behavior is None or behavior.what == "NULL":
        return None
    if behavior.what == "ERROR":
        raise FunctionError(message)
    return None if behavior.value is None else str(behavior.value)


def _query_type(arguments: Arguments) -> LogicalType:
    kind = _returned(arguments)
    if kind.root == "ARRAY" and kind.children[0].root not in CHARACTER_STRING:
        element = {"INT": "INTEGER"}.get(kind.children[0].root, kind.children[0].summary)
        raise InvalidOptionError(f"Unsupported array element type '{element}' for RETURNING ARRAY in JSON_QUERY()")
    if kind.root == "ARRAY":
        for place, when in ((3, "empty"), (4, "error")):
            if arguments.literal(place) == "EMPTY_OBJECT":
                raise InvalidOptionError(
                    f"Illegal on {when} behavior 'EMPTY OBJECT' for return type: VARCHAR(2147483647) ARRAY"
                )
    return kind


@FAMILY.kernel(
    "JSON_QUERY", signatures=["<CHARACTER_STRING>, <CHARACTER_STRING>, <ANY>..."], result=_query_type, nullable=True
)
def json_query(call: Call) -> Column:
    """Return the object or array that a path leads to, as JSON or as an array of text."""
    behaviors = {"EMPTY": _Behavior(call.constant(3, "NULL")), "ERROR": _Behavior(call.constant(4, "NULL"))}
    wrapper = call.constant(2, "WITHOUT_ARRAY")
    as_array = call.result.root == "ARRAY"
    empty: dict[str, Any] = {"EMPTY_ARRAY": [], "EMPTY_OBJECT": {}}

    def instead(when: str, message: str) -> Any:
        behavior = behaviors[when]
        if behavior.what in empty:
            return empty[behavior.what]
        _instead(behavior, message)
        return None

    def query(text: str, path: str) -> Any:
        found = _find(text, path)
        value = _wrapped(found.value, wrapper) if found.error is None else None
        if found.error is not None:
            value = instead("ERROR", found.error)
        elif value is None:
            value = instead("EMPTY", "Empty result of JSON_QUERY function is not allowed")
        elif not isinstance(value, (dict, list)):
            message = "Strict jsonpath mode requires array or object value, and the actual value is:"
            value = instead("EMPTY" if found.lax else "ERROR", f"{message} '{value!r}'")
        if value is None:
            return None
        if not as_array:
            return write(value)
        return [None if one is None else scalar_text(one) for one in value] if isinstance(value, list) else None

    return per_distinct(query, call.columns[:2], call.arrow_type)


def _wrapped(value: Any, wrapper: str) -> Any:
    if value is None or wrapper == "WITHOUT_ARRAY":
        return value
    return value if "UNCONDITIONAL" not in wrapper and isinstance(value, list) else [value]


_KINDS: dict[str, Callable[[Any], bool]] = {
    "VALUE": lambda value: True,
    "SCALAR": lambda value: not isinstance(value, (dict, list)),
    "ARRAY": lambda value: isinstance(value, list),
    "OBJECT": lambda value: isinstance(value, dict),
}


def _register_is(kind: str) -> None:
    def is_kind(text: str | None) -> bool:
        try:
            return text is not None and _KINDS[kind](_document(text))
        except ValueError:
            return False

    def checked(name: str) -> Callable[[Arguments], LogicalType]:
        def result(arguments: Arguments) -> LogicalType:
            one = arguments.types[0]
            if one.root not in CHARACTER_STRING:
                shown = {"INT": "INTEGER"}.get(one.root, one.summary)
                raise InvalidCallError(
                    f"Cannot apply '{name}' to arguments of type '<{shown}> {name}'."
                    f" Supported form(s): '<CHARACTER> {name}'"
                )
            return BOOLEAN

        return result

    for name, expected in ((f"IS JSON {kind}", True), (f"IS NOT JSON {kind}", False)):

        @FAMILY.kernel(name, signatures=["<ANY>"], result=checked(name), nullable=False)
        def _(call: Call, expected: bool = expected) -> Column:
            return per_distinct(lambda text: is_kind(text) is expected, call.columns, pa.bool_(), nulls=True)


for _kind in _KINDS:
    _register_is(_kind)


@FAMILY.values("JSON_QUOTE", "<CHARACTER_STRING>", result=STRING)
def json_quote(text: str) -> str:
    """Return text as a JSON string in ASCII."""
    return json.dumps(text).replace("/", "\\/")


_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt])|(.?))', re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@FAMILY.values("JSON_UNQUOTE", "<CHARACTER_STRING>", result=STRING)
def json_unquote(text: str) -> str:
    """Return text without the quotes around it and with its escapes resolved; without quotes it stays as it is."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text

    def resolved(match: re.Match[str]) -> str:
        code, short, invalid = match.groups()
        if invalid is not None:
            raise ValueError(f"invalid escape {match[0]}")
        return chr(int(code, 16)) if code else _ESCAPED.get(short, short)

    try:
        return _ESCAPE.sub(resolved, text[1:-1]).encode("utf-16", "surrogatepass").decode("utf-16")
    except ValueError:
        return text
