"""Correlate: UNNEST, and table functions of the user's."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.joins.correlate import CorrelateOperator
from penstock.table.operators.joins.join_types import LEFT
from penstock.table.operators.rows.python_calls import PythonTableFunction
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.rows.table_functions import TableFunction, Unnest
from penstock.table.operators.table_columns import TableColumns, width_of
from penstock.table.planner.nodes.row_nodes import Correlate, PythonCorrelate
from penstock.table.planner.rex_nodes import RexCall

_UNNEST, _UNNEST_WITH_ORDINALITY = "UNNEST_ROWS", "UNNEST_ROWS_WITH_ORDINALITY"


@translates(Correlate, PythonCorrelate)
def correlate(
    translation: Translation, node: Correlate | PythonCorrelate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a Correlate."""
    received, given = translation.input(node), translation.columns(node)
    call = node.function_call
    arguments = translation.expressions(*call.operands)
    columns = TableColumns(pyarrow.schema(list(given.schema)[width_of(received) :]))
    condition = node.condition if isinstance(node, Correlate) else None
    operator = CorrelateOperator(
        "Correlate",
        _function(translation, call, arguments, columns=columns, sql=node.description),
        arguments,
        is_left=node.join_type == LEFT,
        condition=translation.condition(condition),
        received=received,
        given=given,
    )
    return translation.operator(node, operator, inputs)


def _function(
    translation: Translation, call: RexCall, arguments: RowExpressions, *, columns: TableColumns, sql: str
) -> TableFunction:
    if call.is_built_in and call.name in (_UNNEST, _UNNEST_WITH_ORDINALITY):
        return Unnest(arguments.types[0], columns, with_ordinality=call.name == _UNNEST_WITH_ORDINALITY)
    found = translation.functions.get(call.name.lower())
    if found is None or call.is_built_in:
        raise translation.unsupported(
            f"the table function {call.name} is not supported. Write the query without it, or register one in Python"
        )
    return PythonTableFunction(found, arguments.types, result=call.type.logical, sql=sql, columns=columns)
