"""Expressions behind a condition, without the parts whose values it decides.

A view often gives a column for rows of several kinds, of which a query keeps one: `CASE kind WHEN 0 THEN a ELSE b END`
behind `kind = 1` is `b`, and neither `kind` nor `a` is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from penstock.table.logical_types import INTEGER_NUMERIC
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexInputRef, RexLiteral
from penstock.table.planner.rex_trees import type_of, with_children

_Known = Mapping[int, RexLiteral]
"""The values of columns, by their positions."""


def simplified_behind(condition: AnyRexNode | None, expressions: Sequence[AnyRexNode]) -> list[AnyRexNode]:
    """Return expressions that have the same values in the rows for which the condition is true."""
    known = _known(condition)
    return [_simplified(one, known) for one in expressions] if known else list(expressions)


def _known(condition: AnyRexNode | None) -> _Known:
    if not isinstance(condition, RexCall):
        return {}
    if condition.name == "AND":
        return {place: value for one in condition.operands for place, value in _known(one).items()}
    equal = _compared(condition)
    return dict([equal]) if equal is not None and condition.name == "=" else {}


def _compared(call: RexCall) -> tuple[int, RexLiteral] | None:
    """Return the column and the number of a comparison for equality, if both are whole numbers of one type."""
    if call.name not in ("=", "<>") or len(call.operands) != 2:
        return None
    for column, value in (call.operands, call.operands[::-1]):
        if isinstance(column, RexInputRef) and isinstance(value, RexLiteral) and isinstance(value.value, int):
            root = column.type.logical.root
            return (column.index, value) if root in INTEGER_NUMERIC and root == value.type.logical.root else None
    return None


def _simplified(node: AnyRexNode, known: _Known) -> AnyRexNode:
    if isinstance(node, RexCall) and (compared := _compared(node)) is not None and compared[0] in known:
        place, value = compared
        return RexLiteral(value=(known[place].value == value.value) is (node.name == "="), type=node.type)
    node = with_children(node, lambda one: _simplified(one, known))
    return _decided(node) if isinstance(node, RexCall) and node.name == "CASE" else node


def _decided(case: RexCall) -> AnyRexNode:
    """Return CASE without the branches that are not taken; its value, if one is always taken and has its type."""
    *pairs, otherwise = case.operands
    kept: list[AnyRexNode] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        decision = condition.value if isinstance(condition, RexLiteral) else None
        if decision is True:
            otherwise = value
            break
        if decision is not False:
            kept += [condition, value]
    if kept:
        return replace(case, operands=(*kept, otherwise))
    same_type = type_of(otherwise).with_nullability(True) == case.type.logical.with_nullability(True)
    return otherwise if same_type else case
