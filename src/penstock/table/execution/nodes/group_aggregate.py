"""GroupAggregate: in one phase, and in two with mini-batch, where a split DISTINCT has a third one between them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation, setting
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.partial_columns import partial_columns
from penstock.table.operators.grouping.bundled_group_aggregate import (
    BundledGroupAggregateOperator,
    GlobalGroupAggregateOperator,
)
from penstock.table.operators.grouping.group_aggregate import GroupAggregateOperator
from penstock.table.operators.grouping.grouping_operator import Grouping
from penstock.table.operators.grouping.incremental_group_aggregate import IncrementalGroupAggregateOperator
from penstock.table.operators.grouping.local_group_aggregate import LocalGroupAggregateOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.aggregate_nodes import (
    AggregateCall,
    GlobalGroupAggregate,
    GroupAggregate,
    IncrementalGroupAggregate,
    LocalGroupAggregate,
)
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.query_options import MINI_BATCH, MINI_BATCH_SIZE


@translates(GroupAggregate)
def group_aggregate(translation: Translation, node: GroupAggregate, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a GroupAggregate."""
    received = translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    keys = [received.names[place] for place in node.grouping]
    calls = Calls(node.agg_calls, origin.output_type.fields, node.agg_call_need_retractions)
    grouping = Grouping(calls, update_before=node.generate_update_before, retracts=node.need_retraction)
    given, ttl_ms = translation.columns(node), translation.ttl_ms(node)
    operator: Operator
    if setting(node, MINI_BATCH):
        operator = BundledGroupAggregateOperator(
            "GroupAggregate",
            keys,
            grouping,
            received=received,
            given=given,
            bundle_size=_bundle_size(translation, node),
            ttl_ms=ttl_ms,
        )
    else:
        operator = GroupAggregateOperator(
            "GroupAggregate", keys, grouping, received=received, given=given, ttl_ms=ttl_ms
        )
    return translation.operator(node, operator, inputs)


@translates(LocalGroupAggregate)
def local_group_aggregate(
    translation: Translation, node: LocalGroupAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a LocalGroupAggregate: the columns of the key, then partials."""
    received = translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    calls = Calls(node.agg_calls, origin.output_type.fields, node.agg_call_need_retractions)
    keys = [received.names[place] for place in node.grouping]
    given = _partials(received, keys, calls)
    translation.gives(node, given)
    operator = LocalGroupAggregateOperator(
        "LocalGroupAggregate",
        keys,
        calls,
        received=received,
        given=given,
        bundle_size=_bundle_size(translation, node),
    )
    return translation.operator(node, operator, inputs)


@translates(GlobalGroupAggregate)
def global_group_aggregate(
    translation: Translation, node: GlobalGroupAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a GlobalGroupAggregate."""
    received = translation.input(node)
    calls = Calls(node.agg_calls, node.local_agg_input_row_type.fields, node.agg_call_need_retractions)
    operator = GlobalGroupAggregateOperator(
        "GlobalGroupAggregate",
        received.names[: len(node.grouping)],
        Grouping(calls, update_before=node.generate_update_before, retracts=node.need_retraction),
        received=received,
        given=translation.columns(node),
        bundle_size=_bundle_size(translation, node),
        ttl_ms=translation.ttl_ms(node),
    )
    return translation.operator(node, operator, inputs)


@translates(IncrementalGroupAggregate)
def incremental_group_aggregate(
    translation: Translation, node: IncrementalGroupAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate an IncrementalGroupAggregate: what it sends is what the global aggregate behind it merges."""
    received = translation.input(node)
    behind = _global_behind(translation, node)
    finals = behind.agg_calls
    calls = Calls(
        node.partial_original_agg_calls,
        node.partial_local_agg_input_row_type.fields,
        node.partial_agg_call_need_retractions,
    )
    sums_counts = _sums_counts(translation, node.partial_original_agg_calls, finals)
    keys = received.names[: len(node.partial_agg_grouping)]
    final_keys = [keys[place] for place in node.final_agg_grouping]
    final_calls = Calls(finals, behind.local_agg_input_row_type.fields, node.partial_agg_call_need_retractions)
    given = _partials(received, final_keys, final_calls)
    translation.gives(node, given)
    operator = IncrementalGroupAggregateOperator(
        "IncrementalGroupAggregate",
        keys,
        final_keys,
        calls,
        sums_counts=sums_counts,
        received=received,
        given=given,
        bundle_size=_bundle_size(translation, node),
        ttl_ms=translation.ttl_ms(node),
    )
    return translation.operator(node, operator, inputs)


def _partials(received: TableColumns, keys: Sequence[str], calls: Calls) -> TableColumns:
    return partial_columns([received.schema.field(name) for name in keys], calls.aggregates())


def _sums_counts(
    translation: Translation, calls: Sequence[AggregateCall], finals: Sequence[AggregateCall]
) -> list[bool]:
    """Return which counts of finer groups the coarser ones add as numbers. Other functions are the same in both."""
    found = []
    for call, final in zip(calls, finals, strict=True):
        adds = call.function == "COUNT" and final.function in ("$SUM0", "SUM0", "SUM")
        if not adds and call.function != final.function:
            raise translation.unsupported(f"{final.function} of what {call.function} gives is not supported")
        found.append(adds)
    return found


def _global_behind(translation: Translation, node: ExecNode) -> GlobalGroupAggregate:
    """Return the global aggregate that gets what a node sends."""
    behind = node
    while not isinstance(behind, GlobalGroupAggregate):
        plan, before = translation.plan, behind
        behind = next(one for one in plan.nodes.values() if before in plan.inputs_of(one))
    return behind


def _bundle_size(translation: Translation, node: ExecNode) -> int:
    """Return how many rows a bundle has at most."""
    size = setting(node, MINI_BATCH_SIZE)
    if size <= 0:
        raise translation.unsupported(
            f"{MINI_BATCH.key} needs the number of rows of a bundle: set {MINI_BATCH_SIZE.key} to a number above 0, "
            "such as 5000"
        )
    return size
