"""Expand."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.rows.expand import ExpandOperator
from penstock.table.planner.nodes.row_nodes import Expand


@translates(Expand)
def expand(translation: Translation, node: Expand, inputs: Sequence[Transformation]) -> Transformation:
    """Translate an Expand."""
    operator = ExpandOperator(
        "Expand",
        [translation.expressions(*projection) for projection in node.projects],
        received=translation.input(node),
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)
