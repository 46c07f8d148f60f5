"""Makes expressions of plans out of others."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.table.logical_types import LogicalType, parse
from penstock.table.planner.data_types import DataType
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexInputRef, RexLiteral

_BOOLEAN = DataType(parse("BOOLEAN"))
_TEXT = LogicalType("VARCHAR", nullable=False, length=2147483647)


def all_of(conditions: Sequence[AnyRexNode]) -> AnyRexNode:
    """Return a condition that is true where all of these are: one or more."""
    return conditions[0] if len(conditions) == 1 else _call("AND", _BOOLEAN, *conditions)


def any_of(conditions: Sequence[AnyRexNode]) -> AnyRexNode:
    """Return a condition that is true where one of these is. Without conditions, it never is."""
    if not conditions:
        return RexLiteral(value=False, type=_BOOLEAN)
    return conditions[0] if len(conditions) == 1 else _call("OR", _BOOLEAN, *conditions)


def equal_to_text(column: RexInputRef, text: str) -> AnyRexNode:
    """Return the condition that a column has the value that a text says, cast to the type of the column."""
    literal = RexLiteral(value=text, type=DataType(_TEXT))
    return _call("=", _BOOLEAN, column, _call("CAST", column.type, literal))


def _call(name: str, kind: DataType, *operands: AnyRexNode) -> RexCall:
    return RexCall(operands=operands, type=kind, internal_name=f"${name}$1", syntax="SPECIAL")
