"""TemporalSort and Sort."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.nodes.rank import sort_columns
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.ordering.chunk_sort import ChunkSortOperator
from penstock.table.operators.ordering.end_sort import EndSortOperator
from penstock.table.operators.ordering.temporal_sort import TemporalSortOperator
from penstock.table.planner.data_types import ROWTIME
from penstock.table.planner.nodes.row_nodes import Sort, TemporalSort
from penstock.table.query_options import SORT_AT_END, value_of


@translates(TemporalSort)
def temporal_sort(translation: Translation, node: TemporalSort, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a TemporalSort."""
    columns, order_by = translation.input(node), sort_columns(node.order_by)
    (origin,) = translation.plan.inputs_of(node)
    if origin.output_type.field_time_attributes[order_by[0].place] != ROWTIME:
        return translation.operator(node, ChunkSortOperator(order_by[1:], columns), inputs)
    rowtime = columns.names[order_by[0].place]
    operator = TemporalSortOperator(
        "TemporalSort", (), order_by, rowtime=rowtime, columns=columns, late_behind_rows=True
    )
    return translation.operator(node, operator, inputs)


@translates(Sort)
def sort(translation: Translation, node: Sort, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Sort. Without an internal option Flink refuses it: an input without end would never give a row."""
    if not value_of(translation.options, SORT_AT_END):
        raise translation.unsupported(
            "Sort on a non-time-attribute field is not supported: add LIMIT, or sort by a time attribute, ascending"
        )
    operator = EndSortOperator(sort_columns(node.order_by), translation.input(node))
    return translation.operator(node, operator, inputs)
