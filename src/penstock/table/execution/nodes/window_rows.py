"""Nodes on rows of windows: WindowTableFunction, WindowJoin, WindowRank, WindowDeduplicate."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.execution.nodes.join import join_inputs
from penstock.table.execution.nodes.rank import sort_columns
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.execution.windows import window_times
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.session_windows import SessionFunctionOperator
from penstock.table.operators.windows.window_function import WindowFunctionOperator
from penstock.table.operators.windows.window_join import WindowJoinOperator
from penstock.table.operators.windows.window_top import WindowTop, WindowTopOperator
from penstock.table.planner.nodes.aggregate_nodes import WindowTableFunction
from penstock.table.planner.nodes.join_nodes import WindowJoin
from penstock.table.planner.nodes.rank_nodes import WindowDeduplicate, WindowRank
from penstock.table.planner.nodes.specs import AnyWindowing, ConstantRankRange, SessionWindow


@translates(WindowTableFunction)
def window_table_function(
    translation: Translation, node: WindowTableFunction, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a WindowTableFunction."""
    received = translation.input(node)
    times = window_times(node.windowing, received, translation)
    given = translation.columns(node)
    operator: Operator = WindowFunctionOperator("WindowTableFunction", times, received=received, given=given)
    if isinstance(node.windowing.window, SessionWindow):
        keys = [received.names[place] for place in node.windowing.window.partition_keys]
        operator = SessionFunctionOperator("WindowTableFunction", keys, times, received=received, given=given)
    return translation.operator(node, operator, inputs)


@translates(WindowJoin)
def window_join(translation: Translation, node: WindowJoin, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a WindowJoin."""
    spec = node.join_spec
    left, right = join_inputs(translation, node, spec)
    operator = WindowJoinOperator(
        "WindowJoin",
        spec.join_type,
        inputs=(left, right),
        ends=(
            _end(translation, node.left_windowing, left.columns),
            _end(translation, node.right_windowing, right.columns),
        ),
        condition=translation.condition(spec.non_equi_condition),
        is_event_time=node.left_windowing.is_rowtime,
        zone=translation.window_zone(node.left_windowing.time_attribute_type.logical),
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


@translates(WindowRank)
def window_rank(translation: Translation, node: WindowRank, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a WindowRank."""
    if node.rank_type != "ROW_NUMBER" or not isinstance(node.rank_range, ConstantRankRange):
        raise translation.unsupported("only ROW_NUMBER() up to a number is supported")
    top = WindowTop(sort_columns(node.order_by), node.rank_range.start, node.rank_range.end, node.output_row_number)
    return _top(translation, node, inputs=inputs, keys=node.partition.fields, top=top)


@translates(WindowDeduplicate)
def window_deduplicate(
    translation: Translation, node: WindowDeduplicate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a WindowDeduplicate."""
    order = SortColumn(node.order_key, not node.keep_last_row, nulls_last=node.keep_last_row)
    top = WindowTop((order,), 1, 1, with_number=False, latest_first=node.keep_last_row)
    return _top(translation, node, inputs=inputs, keys=node.partition_keys, top=top)


def _top(
    translation: Translation,
    node: WindowRank | WindowDeduplicate,
    inputs: Sequence[Transformation],
    keys: Sequence[int],
    top: WindowTop,
) -> Transformation:
    received = translation.input(node)
    operator = WindowTopOperator(
        node.name,
        [received.names[key] for key in keys],
        top,
        end=_end(translation, node.windowing, received),
        is_event_time=node.windowing.is_rowtime,
        zone=translation.window_zone(node.windowing.time_attribute_type.logical),
        received=received,
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


def _end(translation: Translation, windowing: AnyWindowing, columns: TableColumns) -> str:
    """Return the column with the end of the window."""
    end = getattr(windowing, "window_end", -1)
    if end < 0:
        raise translation.unsupported("rows without a column window_end are not supported: select it")
    return str(columns.names[end])
