"""Which casts exist. Source: Flink's `LogicalTypeCasts`, and the messages of its planner."""

from __future__ import annotations

from penstock.table.functions.errors import InvalidCallError
from penstock.table.logical_types import (
    BINARY_STRING,
    CHARACTER_STRING,
    DATETIME,
    EXACT_NUMERIC,
    MAX_LENGTH,
    NUMERIC,
    ROWS,
    TIMESTAMPS,
    LogicalType,
)


def check_cast(source: LogicalType, target: LogicalType) -> None:
    """Raise InvalidCallError if a value of one type cannot be cast to the other."""
    if source.root in NUMERIC and target.root in TIMESTAMPS:
        raise InvalidCallError(
            f"The cast from NUMERIC type to {_zoned(target)} type is not allowed. It's recommended to use"
            f" TO_TIMESTAMP{'_LTZ' if target.root == 'TIMESTAMP_LTZ' else '(FROM_UNIXTIME(numeric_col))'} instead."
        )
    if source.root in TIMESTAMPS and target.root in NUMERIC:
        hint = (
            "" if source.root == "TIMESTAMP_LTZ"
            else " It's recommended to use UNIX_TIMESTAMP(CAST(timestamp_col AS STRING)) instead."
        )  # fmt: skip
        raise InvalidCallError(f"The cast from {_zoned(source)} type to NUMERIC type is not allowed.{hint}")
    if not is_castable(source, target):
        raise InvalidCallError(
            f"Cast function cannot convert value of type {_calcite(source)} to type {_calcite(target)}"
        )


def _zoned(one: LogicalType) -> str:
    return one.root


def _calcite(one: LogicalType) -> str:
    if one.root in CHARACTER_STRING or one.root in BINARY_STRING:
        return f"{one.root}({one.length})"
    if one.root in ("ARRAY", "MULTISET"):
        return f"{_calcite(one.children[0])} {one.root}"
    return one.summary if one.root not in ("INT",) else "INTEGER"


def is_castable(source: LogicalType, target: LogicalType) -> bool:
    """Tell whether `CAST(source AS target)` exists."""
    if source.root == "NULL":
        return True
    if target.root in CHARACTER_STRING:
        return source.root not in ("SYMBOL", "DESCRIPTOR")
    if source.root == "BITMAP":
        return target.root == "BITMAP" or (target.root == "VARBINARY" and target.length == MAX_LENGTH)
    if source.children or target.children:
        return _is_castable_nested(source, target)
    return source.root in _SOURCES.get(target.root, frozenset())


def _is_castable_nested(source: LogicalType, target: LogicalType) -> bool:
    same = source.root == target.root or {source.root, target.root} <= ROWS
    return (
        same
        and len(source.children) == len(target.children)
        and all(is_castable(one, other) for one, other in zip(source.children, target.children, strict=True))
    )


_TO_NUMBER = NUMERIC | CHARACTER_STRING | {"BOOLEAN"}

_SOURCES: dict[str, frozenset[str]] = {
    "BOOLEAN": CHARACTER_STRING | NUMERIC | {"BOOLEAN"},
    "BINARY": BINARY_STRING | CHARACTER_STRING,
    "VARBINARY": BINARY_STRING | CHARACTER_STRING,
    **{root: frozenset(_TO_NUMBER) for root in NUMERIC},
    "DATE": TIMESTAMPS | CHARACTER_STRING | {"DATE"},
    "TIME": TIMESTAMPS | CHARACTER_STRING | {"TIME"},
    "TIMESTAMP": DATETIME | CHARACTER_STRING,
    "TIMESTAMP_LTZ": DATETIME | CHARACTER_STRING,
    "INTERVAL_MONTH": EXACT_NUMERIC | {"INTERVAL_MONTH"},
    "INTERVAL_SECOND": EXACT_NUMERIC | {"INTERVAL_SECOND"},
    "BITMAP": frozenset({"BITMAP"}),
    "VARIANT": frozenset({"VARIANT"}),
    "NULL": frozenset({"NULL"}),
}
