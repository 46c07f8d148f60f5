"""MultiJoin: as regular joins, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.joins.join import JoinOperator
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.join_nodes import MultiJoin


class _Joined(NamedTuple):
    """The rows of the inputs so far. `firsts`: the position of the first column of each input."""

    stream: Transformation
    columns: TableColumns
    firsts: tuple[int, ...]
    unique: tuple[int, ...] | None
    ttl_ms: int | None


@translates(MultiJoin)
def multi_join(translation: Translation, node: MultiJoin, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a MultiJoin.

    Flink's operator keeps the rows of each input once, and ours those of joins between as well: the changes and the
    table are the same.
    """
    given = translation.columns(node)
    first = translation.input(node, 0)
    left = _Joined(inputs[0], first, firsts=(0,), unique=_unique(node, 0), ttl_ms=translation.ttl_ms(node, 0))
    for index in range(1, len(inputs)):
        left = _joined(translation, node, left, index=index, stream=inputs[index], given=given)
    return left.stream


def _joined(
    translation: Translation, node: MultiJoin, left: _Joined, *, index: int, stream: Transformation, given: TableColumns
) -> _Joined:
    right = translation.input(node, index)
    start = len(left.columns.names)
    pairs = [
        (left.firsts[one.left_input_id] + one.left_field_index, one.right_field_index)
        for one in node.join_attribute_map.get(index, ())
    ]
    keys = [place for place, _ in pairs], [place for _, place in pairs]
    # The names of the columns are those of the result, where no name is there twice.
    both = TableColumns(pyarrow.schema(list(given.schema)[: start + len(right.names)]))
    condition = node.join_conditions[index]
    is_last = index + 1 == len(node.join_types)
    # In a row of an outer join a column of the key may be NULL, so its rows are distributed again.
    left_stream = left.stream if index == 1 else translation.hashed(left.stream, left.columns, keys[0])
    right_stream = stream if index == 1 else translation.hashed(stream, right, keys[1])
    unique, ttl_ms = _unique(node, index), translation.ttl_ms(node, index)
    operator = JoinOperator(
        "MultiJoin",
        node.join_types[index],
        (_input(left.columns, keys[0], left.unique, left.ttl_ms), _input(right, keys[1], unique, ttl_ms)),
        translation.condition(condition),
        given=both,
    )
    role = "" if is_last else f"join{index}"
    made = translation.operator(node, operator, [left_stream, right_stream], role=role)
    of_both = None if left.unique is None or unique is None else (*left.unique, *(start + one for one in unique))
    lives = [one for one in (left.ttl_ms, ttl_ms) if one is not None]
    return _Joined(made, both, firsts=(*left.firsts, start), unique=of_both, ttl_ms=min(lives, default=None))


def _unique(node: MultiJoin, index: int) -> tuple[int, ...] | None:
    keys = node.input_unique_keys[index]
    return min(keys, key=len) if keys else None


def _input(columns: TableColumns, keys: Sequence[int], unique: tuple[int, ...] | None, ttl_ms: int | None) -> JoinInput:
    names = columns.names
    return JoinInput(
        columns,
        tuple(names[key] for key in keys),
        null_matches=(False,) * len(keys),
        unique=None if unique is None else tuple(names[key] for key in unique),
        ttl_ms=ttl_ms,
    )
