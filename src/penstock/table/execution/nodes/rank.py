"""Rank, SortLimit and Limit, and Deduplicate."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.deduplicate import Kept
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.deduplicate import DeduplicateOperator
from penstock.table.operators.rank import APPEND, RETRACT, UPDATE, Ranking, RankOperator
from penstock.table.operators.sorting import SortColumn
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
    translation.check_no_ttl(node)
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
    operator = RankOperator(node.name, keys, ranking, received=received, given=translation.columns(node))
    return translation.operator(node, operator, inputs)


@translates(Deduplicate)
def deduplicate(translation: Translation, node: Deduplicate, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Deduplicate."""
    translation.check_no_ttl(node)
    if node.output_insert_only:
        raise translation.unsupported(
            "a first row by event time that is never replaced can't be executed yet: set "
            "table.exec.deduplicate.insert-update-after-sensitive-enabled to true"
        )
    received = translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    rowtime = None
    if node.is_rowtime:
        times = origin.output_type.field_time_attributes
        rowtime = received.names[times.index(ROWTIME)]
    operator = DeduplicateOperator(
        "Deduplicate",
        [received.names[place] for place in node.unique_keys],
        Kept(node.keep_last_row, by_event_time=node.is_rowtime, update_before=node.generate_update_before),
        rowtime=rowtime,
        columns=received,
    )
    return translation.operator(node, operator, inputs)


def sort_columns(spec: SortSpec) -> tuple[SortColumn, ...]:
    """Return the columns of ORDER BY."""
    return tuple(SortColumn(one.index, one.is_ascending, one.null_is_last) for one in spec.fields)
