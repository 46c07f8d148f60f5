"""GroupAggregate."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.aggregate_calls import Calls
from penstock.table.operators.group_aggregate import GroupAggregateOperator
from penstock.table.planner.nodes.aggregate_nodes import GroupAggregate


@translates(GroupAggregate)
def group_aggregate(translation: Translation, node: GroupAggregate, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a GroupAggregate."""
    translation.check_no_ttl(node)
    received = translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    operator = GroupAggregateOperator(
        "GroupAggregate",
        [received.names[place] for place in node.grouping],
        Calls(node.agg_calls, origin.output_type.fields, node.agg_call_need_retractions),
        received=received,
        given=translation.columns(node),
        update_before=node.generate_update_before,
        retracts=node.need_retraction,
    )
    return translation.operator(node, operator, inputs)
