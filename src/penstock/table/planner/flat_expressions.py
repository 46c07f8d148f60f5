"""Expressions as lists of their parts: a sum of hundreds of columns has as many calls in each other.

That is more than Python's stack has room for, and each look into a dict of nodes would look at all that is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexCorrelVariable, RexFieldAccess


class Part(NamedTuple):
    """A node, a call without its operands, and the places of the parts in it, which come before it."""

    node: AnyRexNode
    places: tuple[int, ...]


class FlatExpressions(NamedTuple):
    """`parts`: of all expressions, equal ones once. `roots`: the places of the expressions."""

    parts: list[Part]
    roots: list[int]

    def expressions(self) -> tuple[AnyRexNode, ...]:
        """Return the expressions."""
        whole: list[AnyRexNode] = []
        for node, places in self.parts:
            if isinstance(node, RexCall) and places:
                node = structs.replace(node, operands=tuple(whole[place] for place in places))
            whole.append(node)
        return tuple(whole[place] for place in self.roots)


def flattened(expressions: Sequence[AnyRexNode]) -> FlatExpressions:
    """Return the parts of expressions."""
    parts: list[Part] = []
    known: dict[Part, int] = {}
    found: list[int] = []
    """The places of parts whose outer one has not come yet."""
    waiting = [(one, False) for one in reversed(expressions)]
    while waiting:
        node, has_parts = waiting.pop()
        inner = _inner(node)
        if inner and not has_parts:
            waiting.append((node, True))
            waiting += [(one, False) for one in reversed(inner)]
            continue
        places = tuple(found[len(found) - len(inner) :])
        del found[len(found) - len(inner) :]
        part = Part(structs.replace(node, operands=()) if isinstance(node, RexCall) and inner else node, places)
        if part not in known:
            known[part] = len(parts)
            parts.append(part)
        found.append(known[part])
    return FlatExpressions(parts, found)


def _inner(node: AnyRexNode) -> tuple[AnyRexNode, ...]:
    if isinstance(node, RexFieldAccess):
        # The row of an outer query is read by field.
        return () if isinstance(node.expr, RexCorrelVariable) else (node.expr,)
    return node.operands if isinstance(node, RexCall) else ()
