"""Join: regular joins."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.joins.join import JoinOperator
from penstock.table.operators.joins.join_types import ANTI, FULL, INNER, LEFT, RIGHT, SEMI
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.nodes.join_nodes import Join, JoinSpec


@translates(Join)
def join(translation: Translation, node: Join, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Join."""
    spec = node.join_spec
    if spec.join_type not in (INNER, LEFT, RIGHT, FULL, SEMI, ANTI):
        raise translation.unsupported(f"joins of the kind {spec.join_type} are not supported")
    left, right = join_inputs(translation, node, spec)
    operator = JoinOperator(
        "Join",
        spec.join_type,
        (
            _kept(left, node.left_upsert_keys, translation.ttl_ms(node, 0)),
            _kept(right, node.right_upsert_keys, translation.ttl_ms(node, 1)),
        ),
        translation.condition(spec.non_equi_condition),
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


def join_inputs(translation: Translation, node: ExecNode, spec: JoinSpec) -> tuple[JoinInput, JoinInput]:
    """Return the inputs of a join, without unique keys, whose rows are kept for ever."""
    null_matches = tuple(not filters for filters in spec.filter_nulls)
    left, right = (
        JoinInput(columns, tuple(columns.names[key] for key in keys), null_matches, unique=None)
        for columns, keys in (
            (translation.input(node, 0), spec.left_keys),
            (translation.input(node, 1), spec.right_keys),
        )
    )
    return left, right


def _kept(one: JoinInput, upsert_keys: Sequence[Sequence[int]], ttl_ms: int | None) -> JoinInput:
    """Return an input with its smallest unique key. `ttl_ms`: how long its rows are kept; None: for ever."""
    unique, names = min(upsert_keys, key=len, default=None), one.columns.names
    return one._replace(unique=None if unique is None else tuple(names[key] for key in unique), ttl_ms=ttl_ms)
