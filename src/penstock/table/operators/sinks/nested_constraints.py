"""Constraints of types, and of what is in rows, arrays and maps: what they say of a value, and values that fit."""

from __future__ import annotations

from typing import Any

from penstock.table.logical_types import ROWS, LogicalType

FIXED = {"CHAR": "VARCHAR", "BINARY": "VARBINARY"}
"""Types whose values have the length of the type, with those that have it at most."""
IGNORE, ERROR, TRIM_PAD = "IGNORE", "ERROR", "TRIM_PAD"
"""Ways to treat a value of another length."""
ROWS_AND_COLLECTIONS = "ROWS_AND_COLLECTIONS"
"""Where else than in columns values are checked."""


class ViolationError(Exception):
    """A value violates a constraint. `is_null`: it is NULL where that is not allowed."""

    def __init__(self, message: str, *, is_null: bool = False) -> None:
        super().__init__(message)
        self.is_null = is_null


class NestedConstraint:
    """The constraints of what is in a column `path` of a type, which are checked value by value.

    `lengths`: IGNORE, ERROR or TRIM_PAD. `where`: ROWS or ROWS_AND_COLLECTIONS.
    """

    def __init__(self, path: str, kind: LogicalType, *, lengths: str, where: str) -> None:
        self._path = path
        self._kind = kind
        self._lengths = lengths
        self._where = where

    def fitted(self, value: Any) -> Any:
        """Return a value of the column that satisfies all. Raises ViolationError. Only a row can have another value."""
        return value if value is None else self._within(value, self._kind, self._path)

    def _checked(self, value: Any, kind: LogicalType, path: str) -> Any:
        if value is None:
            if not kind.nullable:
                raise ViolationError(not_null(path), is_null=True)
            return None
        if self._lengths == IGNORE or not is_limited(kind):
            return self._within(value, kind, path)
        is_wrong = len(value) != kind.length if kind.root in FIXED else len(value) > kind.length
        if is_wrong and self._lengths == ERROR:
            raise ViolationError(of_length(path, kind, len(value)))
        return cut(value, kind) if is_wrong else value

    def _within(self, value: Any, kind: LogicalType, path: str) -> Any:
        if kind.root in ROWS:
            fields = zip(kind.names, kind.children, strict=True)
            return {name: self._checked(value[name], one, f"{path}.{name}") for name, one in fields}
        if self._where != ROWS_AND_COLLECTIONS:
            return value
        if kind.root == "ARRAY":
            return [self._checked(one, kind.children[0], f"{path}[{place}]") for place, one in enumerate(value)]
        if kind.root == "MAP":
            of_key, of_value = kind.children
            return [
                (self._checked(key, of_key, f"{path}[key]"), self._checked(one, of_value, f"{path}[value]"))
                for key, one in value
            ]
        return value


def constrained(kind: LogicalType, where: str) -> bool:
    """Return whether a type has constraints of what is in it."""
    inner = kind.root in ROWS or (where == ROWS_AND_COLLECTIONS and kind.root in ("ARRAY", "MAP"))
    return inner and any(not one.nullable or is_limited(one) or constrained(one, where) for one in kind.children)


def has_limited_elements(kind: LogicalType, *, in_collection: bool = False) -> bool:
    """Return whether an array or a map has values of limited length somewhere in it."""
    if in_collection and is_limited(kind):
        return True
    inside = in_collection or kind.root in ("ARRAY", "MAP")
    return any(has_limited_elements(one, in_collection=inside) for one in kind.children)


def cut(value: Any, kind: LogicalType) -> Any:
    """Return a text or bytes with the length of its type: cut, and filled up if the type has one length."""
    fitted = value[: kind.length]
    return fitted.ljust(kind.length, " " if isinstance(value, str) else b"\0") if kind.root in FIXED else fitted


def is_limited(kind: LogicalType) -> bool:
    """Return whether values of a type have a length, or a greatest one."""
    return kind.root in FIXED or (kind.root in FIXED.values() and kind.length < (1 << 31) - 1)


def not_null(path: str) -> str:
    """Return what is wrong with NULL in a column."""
    return (
        f"Column '{path}' is NOT NULL, however, a null value is being written into it. You can set job configuration "
        "'table.exec.sink.not-null-enforcer'='DROP' to suppress this exception and drop such records silently."
    )


def of_length(path: str, kind: LogicalType, length: int) -> str:
    """Return what is wrong with a value of another length than that of its column."""
    return (
        f"Column '{path}' is {kind.root}({kind.length}), however, a string of length {length} is being written into "
        "it. You can set job configuration 'table.exec.sink.type-length-enforcer' to control this behavior."
    )
