"""Rank, SortLimit and Limit, and Deduplicate."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator, ttl_of
from penstock.table.operators.ordering.append_top import AppendTopOperator
from penstock.table.operators.ordering.first_row import FirstRowOperator
from penstock.table.operators.ordering.rank import RankOperator
from penstock.table.operators.ordering.ranking import APPEND, RETRACT, UPDATE, Ranking
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.ordering.temporal_sort import TemporalSortOperator
from penstock.table.operators.ordering.top_row import TopRow, TopRowOperator
from penstock.table.planner.data_types import ROWTIME
from penstock.table.planner.nodes.rank_nodes import (
    AppendFast,
    Deduplicate,
    Limit,
    Rank,
    SortLimit,
    UpdateFast,
)
from penstock.table.planner.nodes.specs import ConstantRankRange, SortSpec


@translates(Rank, SortLimit, Limit)
def rank(translation: Translation, node: Rank, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a top N, and LIMIT, which is one without a partition."""
    if node.rank_type != "ROW_NUMBER":
        raise translation.unsupported(f"{node.rank_type} is not supported: use ROW_NUMBER()")
    if not isinstance(node.rank_range, ConstantRankRange):
        raise translation.unsupported("a rank up to the value of a column is not supported: use a number")
    received, strategy = translation.input(node), node.rank_strategy
    kind = APPEND if isinstance(strategy, AppendFast) else UPDATE if isinstance(strategy, UpdateFast) else RETRACT
    ranking = Ranking(
        sort_columns(node.order_by),
        node.rank_range.start,
        last=node.rank_range.end,
        strategy=kind,
        with_number=node.output_row_number,
        update_before=node.generate_update_before,
        unique_key=strategy.primary_keys if isinstance(strategy, UpdateFast) else (),
    )
    keys = [received.names[place] for place in node.partition.fields]
    given, ttl_ms = translation.columns(node), translation.ttl_ms(node)
    operator: KeyedTableOperator
    if ranking.first == ranking.last == 1 and kind != RETRACT:
        top = TopRow(
            ranking.order_by,
            ties_replace=False,
            update_before=ranking.update_before,
            with_number=ranking.with_number,
        )
        operator = TopRowOperator(node.name, keys, top, received=received, given=given, ttl_ms=ttl_ms)
    elif kind == APPEND:
        operator = AppendTopOperator(node.name, keys, ranking, received=received, given=given, ttl_ms=ttl_ms)
    else:
        operator = RankOperator(node.name, keys, ranking, received=received, given=given, ttl_ms=ttl_ms)
    return translation.operator(node, operator, inputs)


@translates(Deduplicate)
def deduplicate(translation: Translation, node: Deduplicate, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Deduplicate."""
    received, ttl_ms = translation.input(node), translation.ttl_ms(node)
    keys = [received.names[place] for place in node.unique_keys]
    operator: Operator
    if not node.keep_last_row and (node.output_insert_only or not node.is_rowtime):
        if node.is_rowtime:
            # In the order of time the first row stays the first.
            order = SortColumn(_rowtime(translation, node), ascending=True, nulls_last=False)
            name = received.names[order.place]
            sort = TemporalSortOperator("Deduplicate", keys, [order], rowtime=name, columns=received)
            inputs = [translation.operator(node, sort, inputs, role="sort")]
        ttl = None if ttl_ms is None else ttl_of(ttl_ms)
        operator = FirstRowOperator("Deduplicate", keys, columns=received, ttl=ttl)
    else:
        place = _rowtime(translation, node) if node.is_rowtime else None
        last = node.keep_last_row
        top = TopRow(
            () if place is None else (SortColumn(place, not last, nulls_last=False),),
            ties_replace=last,
            update_before=node.generate_update_before,
            # Operators behind may forget rows, too.
            skips_equal=place is None and ttl_ms is None,
            rowtime=None if place is None else received.names[place],
        )
        operator = TopRowOperator("Deduplicate", keys, top, received=received, given=received, ttl_ms=ttl_ms)
    return translation.operator(node, operator, inputs)


def _rowtime(translation: Translation, node: Deduplicate) -> int:
    (origin,) = translation.plan.inputs_of(node)
    return origin.output_type.field_time_attributes.index(ROWTIME)


def sort_columns(spec: SortSpec) -> tuple[SortColumn, ...]:
    """Return the columns of ORDER BY."""
    return tuple(SortColumn(one.index, one.is_ascending, one.null_is_last) for one in spec.fields)
