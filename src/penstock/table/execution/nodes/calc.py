"""Calc."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.rows.calc import CalcOperator
from penstock.table.planner.known_values import simplified_behind
from penstock.table.planner.nodes.row_nodes import Calc, PythonCalc


@translates(Calc, PythonCalc)
def calc(translation: Translation, node: Calc | PythonCalc, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Calc, or one whose expressions call functions in Python."""
    condition = node.condition if isinstance(node, Calc) else None
    operator = CalcOperator(
        "Calc",
        translation.expressions(*simplified_behind(condition, node.projection)),
        translation.condition(condition),
        received=translation.input(node),
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)
