"""TemporalJoin: with the version of a table at a row's event time."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.nodes.join import join_inputs
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.joins.temporal_join import TemporalJoinOperator
from penstock.table.planner.nodes.join_nodes import TemporalJoin


@translates(TemporalJoin)
def temporal_join(translation: Translation, node: TemporalJoin, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a TemporalJoin."""
    spec = node.join_spec
    if node.right_time_attribute_index < 0:
        raise translation.unsupported(
            "Processing-time temporal join is not supported yet. Join by a rowtime attribute, or with a table that can "
            "be looked up"
        )
    left, right = join_inputs(translation, node, spec)
    operator = TemporalJoinOperator(
        "TemporalJoin",
        spec.join_type,
        (left, right),
        times=(
            left.columns.names[node.left_time_attribute_index],
            right.columns.names[node.right_time_attribute_index],
        ),
        condition=translation.condition(spec.non_equi_condition),
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)
