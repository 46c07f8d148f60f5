"""Types in plans: text as `logical_types` reads it, or JSON where text does not say all, as for time attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from penstock.table.logical_types import LogicalType, array_of, map_of, parse
from penstock.table.planner.errors import UnsupportedPlanError

ROWTIME = "ROWTIME"
PROCTIME = "PROCTIME"


class DataType:
    """A logical type, and which time attributes it has: itself, or the fields of a row."""

    __slots__ = ("field_time_attributes", "logical", "time_attribute")

    def __init__(
        self,
        logical: LogicalType,
        time_attribute: str | None = None,
        field_time_attributes: tuple[str | None, ...] = (),
    ) -> None:
        self.logical = logical
        self.time_attribute = time_attribute
        """ROWTIME, PROCTIME or None."""
        self.field_time_attributes = field_time_attributes or (None,) * len(logical.names)
        """The time attribute of each field of a row."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of a row's fields."""
        return self.logical.names

    @property
    def fields(self) -> tuple[LogicalType, ...]:
        """The types of a row's fields."""
        return self.logical.children

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return f"DataType({self.logical}{f' *{self.time_attribute}*' if self.time_attribute else ''})"

    def _parts(self) -> tuple[object, ...]:
        return self.logical, self.time_attribute, self.field_time_attributes


def read_data_type(document: object) -> DataType:
    """Return the type that a plan states as text or as JSON. Raises UnsupportedPlanError."""
    if isinstance(document, str):
        return _of_text(document)
    if isinstance(document, Mapping) and document.get("type") in _READERS:
        return _READERS[document["type"]](document)
    kind = document.get("type") or document.get("class") if isinstance(document, Mapping) else document
    raise UnsupportedPlanError(f"a column of the type {kind} is not supported: cast it to another type in the query")


@cache
def _of_text(text: str) -> DataType:
    return DataType(parse(text))


def _row(document: Mapping[str, Any]) -> DataType:
    fields = document["fields"]
    types = [read_data_type(field["fieldType"]) for field in fields]
    logical = LogicalType(
        "ROW",
        nullable=document.get("nullable", True),
        names=tuple(field["name"] for field in fields),
        children=tuple(one.logical for one in types),
    )
    return DataType(logical, None, tuple(one.time_attribute for one in types))


def _timestamp(document: Mapping[str, Any]) -> DataType:
    root = "TIMESTAMP" if document["type"] == "TIMESTAMP_WITHOUT_TIME_ZONE" else "TIMESTAMP_LTZ"
    logical = LogicalType(root, nullable=document.get("nullable", True), precision=document["precision"])
    kind = document.get("kind")
    return DataType(logical, kind if kind in (ROWTIME, PROCTIME) else None)


def _raw(document: Mapping[str, Any]) -> DataType:
    """Accumulators of Flink's own: how ours look is up to the operators."""
    return DataType(LogicalType("RAW", nullable=document.get("nullable", True), class_name=document.get("class", "")))


def _string(document: Mapping[str, Any]) -> DataType:
    """An empty literal, whose length 0 no text of a type has."""
    return DataType(LogicalType(document["type"], nullable=document.get("nullable", True), length=document["length"]))


def _symbol(document: Mapping[str, Any]) -> DataType:
    return DataType(LogicalType("SYMBOL", nullable=document.get("nullable", True)))


def _array(document: Mapping[str, Any]) -> DataType:
    element = read_data_type(document["elementType"]).logical
    return DataType(array_of(element).with_nullability(document.get("nullable", True)))


def _multiset(document: Mapping[str, Any]) -> DataType:
    element = read_data_type(document["elementType"]).logical
    return DataType(LogicalType("MULTISET", nullable=document.get("nullable", True), children=(element,)))


def _map(document: Mapping[str, Any]) -> DataType:
    key, value = (read_data_type(document[part]).logical for part in ("keyType", "valueType"))
    return DataType(map_of(key, value).with_nullability(document.get("nullable", True)))


_READERS: dict[str, Callable[[Mapping[str, Any]], DataType]] = {
    "ROW": _row,
    "CHAR": _string,
    "VARCHAR": _string,
    "BINARY": _string,
    "VARBINARY": _string,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _timestamp,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _timestamp,
    "SYMBOL": _symbol,
    "ARRAY": _array,
    "MULTISET": _multiset,
    "MAP": _map,
    "RAW": _raw,
    "STRUCTURED_TYPE": _raw,
}
