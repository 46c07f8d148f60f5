"""Join: regular joins."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.joins.join import ANTI, FULL, INNER, LEFT, RIGHT, SEMI, JoinOperator
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.join_nodes import Join, JoinSpec


@translates(Join)
def join(translation: Translation, node: Join, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Join."""
    spec = node.join_spec
    if spec.join_type not in (INNER, LEFT, RIGHT, FULL, SEMI, ANTI):
        raise translation.unsupported(f"joins of the kind {spec.join_type} are not supported")
    condition = None if spec.non_equi_condition is None else translation.expressions(spec.non_equi_condition)
    columns = [translation.input(node, index) for index in range(2)]
    operator = JoinOperator(
        "Join",
        spec.join_type,
        (
            join_input(columns[0], spec, spec.left_keys, node.left_upsert_keys, ttl_ms=translation.ttl_ms(node, 0)),
            join_input(columns[1], spec, spec.right_keys, node.right_upsert_keys, ttl_ms=translation.ttl_ms(node, 1)),
        ),
        condition,
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


def join_input(
    columns: TableColumns,
    spec: JoinSpec,
    keys: Sequence[int],
    upsert_keys: Sequence[Sequence[int]],
    *,
    ttl_ms: int | None = None,
) -> JoinInput:
    """Return an input of a join, with its smallest unique key."""
    unique = min(upsert_keys, key=len) if upsert_keys else None
    return JoinInput(
        columns,
        tuple(columns.names[key] for key in keys),
        null_matches=tuple(not filters for filters in spec.filter_nulls),
        unique=None if unique is None else tuple(columns.names[key] for key in unique),
        ttl_ms=ttl_ms,
    )
