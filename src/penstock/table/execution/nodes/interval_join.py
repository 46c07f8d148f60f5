"""IntervalJoin. Inner joins by event time and equal keys are the engine's, with what else is to hold behind them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.columns.interval_join import JoinInput
from penstock.table.execution.nodes.join import join_inputs
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.joins.interval_join import IntervalJoinOperator
from penstock.table.operators.joins.join_types import INNER
from penstock.table.operators.joins.timed_join import TimedJoinOperator
from penstock.table.operators.rows.calc import CalcOperator
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.join_nodes import IntervalJoin
from penstock.table.planner.rex_nodes import RexInputRef


@translates(IntervalJoin)
def interval_join(translation: Translation, node: IntervalJoin, inputs: Sequence[Transformation]) -> Transformation:
    """Translate an IntervalJoin."""
    spec, window = node.interval_join_spec.join_spec, node.interval_join_spec.window_bounds
    is_empty = window.left_lower_bound > window.left_upper_bound
    is_inner = spec.join_type == INNER and window.is_event_time
    if not is_inner or is_empty or not all(spec.filter_nulls) or not spec.left_keys:
        return _timed_join(translation, node, inputs)
    columns = [translation.input(node, index) for index in range(2)]
    given = translation.columns(node)
    keys = (spec.left_keys, spec.right_keys)
    sides = [
        JoinInput(one, tuple(one.names[key] for key in of_side)) for one, of_side in zip(columns, keys, strict=True)
    ]
    operator = IntervalJoinOperator(
        "IntervalJoin",
        (sides[0], sides[1]),
        (columns[0].names[window.left_time_index], columns[1].names[window.right_time_index]),
        lower=-window.left_upper_bound,
        upper=-window.left_lower_bound,
        given=given,
    )
    pairs = translation.operator(node, operator, inputs)
    if spec.non_equi_condition is None:
        return pairs
    everything = [RexInputRef(index=place, type=DataType(one)) for place, one in enumerate(node.output_type.fields)]
    condition = CalcOperator(
        "Condition",
        translation.expressions(*everything),
        translation.expressions(spec.non_equi_condition),
        received=given,
        given=given,
    )
    return translation.operator(node, condition, [pairs], role="condition")


def _timed_join(translation: Translation, node: IntervalJoin, inputs: Sequence[Transformation]) -> Transformation:
    spec, window = node.interval_join_spec.join_spec, node.interval_join_spec.window_bounds
    left, right = join_inputs(translation, node, spec)
    operator = TimedJoinOperator(
        spec.join_type,
        (left, right),
        (left.columns.names[window.left_time_index], right.columns.names[window.right_time_index]),
        bounds=(window.left_lower_bound, window.left_upper_bound),
        condition=translation.condition(spec.non_equi_condition),
        is_event_time=window.is_event_time,
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)
