"""How a column of each SQL type is held in Arrow.

TIME is milliseconds of the day, as in Flink. Months of an interval are an int32, its other units milliseconds.
Timestamps with more than six digits of a second are nanoseconds: years 1677 to 2262 only.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.table.logical_types import LogicalType

_SIMPLE = {
    "CHAR": pa.string(), "VARCHAR": pa.string(), "BINARY": pa.binary(), "VARBINARY": pa.binary(), "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(), "TIME": pa.time32("ms"),
    "INTERVAL_MONTH": pa.int32(), "INTERVAL_SECOND": pa.duration("ms"), "NULL": pa.null(), "SYMBOL": pa.string(),
    "BITMAP": pa.binary(), "VARIANT": pa.string(),
}  # fmt: skip


def arrow_type(one: LogicalType) -> Any:
    """Return the Arrow type of a column of this type. Raises NotImplementedError for types without columns."""
    if one.root in _SIMPLE:
        return _SIMPLE[one.root]
    if one.root == "DECIMAL":
        return pa.decimal128(one.precision, one.scale)
    if one.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.timestamp(unit_of(one.precision), None if one.root == "TIMESTAMP" else "UTC")
    children = [arrow_type(child) for child in one.children]
    if one.root == "ARRAY":
        return pa.list_(children[0])
    if one.root == "MAP":
        return pa.map_(children[0], children[1])
    if one.root == "MULTISET":
        return pa.map_(children[0], pa.int32())
    if one.root in ("ROW", "STRUCTURED"):
        return pa.struct(list(zip(one.names, children, strict=True)))
    raise NotImplementedError(f"columns of the type {one} are not supported")


def unit_of(precision: int) -> str:
    """Return the unit that holds so many digits of a second."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
