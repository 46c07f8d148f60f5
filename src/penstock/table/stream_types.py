"""Types of SQL as `Types` of DataStreams. Source: Flink docs, "DataStream API Integration"."""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.typeinfo import TypeInformation, Types
from penstock.table.logical_types import LogicalType


def type_information(one: LogicalType) -> TypeInformation:
    """Return the type of `Types` for the same values. Raises TypeError if there is none."""
    if one.root in _INFORMATION:
        return _INFORMATION[one.root]()
    if one.root in ("ARRAY", "MAP"):
        parts = list(map(type_information, one.children))
        return Types.LIST(parts[0]) if one.root == "ARRAY" else Types.MAP(*parts)
    if one.root == "MULTISET":
        return Types.MAP(type_information(one.children[0]), Types.INT())
    if one.root in ("ROW", "STRUCTURED"):
        return Types.ROW_NAMED(list(one.names), list(map(type_information, one.children)))
    raise TypeError(f"values of the type {one} have no type among Types")


_INFORMATION: dict[str, Callable[[], TypeInformation]] = {
    "BOOLEAN": Types.BOOLEAN,
    "TINYINT": Types.BYTE,
    "SMALLINT": Types.SHORT,
    "INT": Types.INT,
    "BIGINT": Types.LONG,
    "FLOAT": Types.FLOAT,
    "DOUBLE": Types.DOUBLE,
    "DECIMAL": Types.BIG_DEC,
    "CHAR": Types.STRING,
    "VARCHAR": Types.STRING,
    "BINARY": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "VARBINARY": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "DATE": Types.SQL_DATE,
    "TIME": Types.SQL_TIME,
    "TIMESTAMP": Types.SQL_TIMESTAMP,
    "TIMESTAMP_LTZ": Types.INSTANT,
}
