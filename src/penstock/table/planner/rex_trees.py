"""Walks through expressions of plans, and rewrites them: what RexVisitor and RexShuttle are in Calcite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from penstock.table.logical_types import LogicalType
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexFieldAccess, RexInputRef


def nodes_of(expressions: Iterable[AnyRexNode]) -> Iterator[AnyRexNode]:
    """Yield all nodes of expressions, each before those below it."""
    waiting = [*expressions]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, RexCall):
            waiting += node.operands
        elif isinstance(node, RexFieldAccess):
            waiting.append(node.expr)


def with_children(node: AnyRexNode, changed: Callable[[AnyRexNode], AnyRexNode]) -> AnyRexNode:
    """Return a node with `changed` of each node right below it in its place. A node without any stays as it is."""
    if isinstance(node, RexFieldAccess):
        return replace(node, expr=changed(node.expr))
    if isinstance(node, RexCall):
        return replace(node, operands=tuple(map(changed, node.operands)))
    return node


def with_inputs(node: AnyRexNode, changed: Callable[[RexInputRef], AnyRexNode]) -> AnyRexNode:
    """Return an expression with `changed` of each column in place of the column."""
    if isinstance(node, RexInputRef):
        return changed(node)
    return with_children(node, lambda one: with_inputs(one, changed))


def type_of(node: AnyRexNode) -> LogicalType:
    """Return the type of an expression. A field has its own type, also in a row that may be NULL."""
    if isinstance(node, RexFieldAccess):
        row = type_of(node.expr)
        return row.children[row.names.index(node.name)]
    return node.type.logical
