"""By which columns the rows of a node are distributed, so that an exchange by the same ones can be left out.

The planner asks for an exchange in front of each node with a key. Rows that are where their key is need none.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.table.operators.joins.join_types import ANTI, INNER, LEFT, RIGHT, SEMI
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.nodes.join_nodes import Join
from penstock.table.planner.nodes.rank_nodes import Deduplicate, Rank
from penstock.table.planner.nodes.row_nodes import Calc, ChangelogNormalize, DropUpdateBefore, Exchange
from penstock.table.planner.rex_nodes import AnyRexNode, RexInputRef

Distributions = frozenset[tuple[int, ...]]
"""Keys, each the positions of its columns: rows with equal ones are in the subtask that has this key."""
NONE: Distributions = frozenset()
_KEEPS_LEFT, _KEEPS_RIGHT = (INNER, LEFT, SEMI, ANTI), (INNER, RIGHT)


def distributions_of(node: ExecNode, inputs: Sequence[Distributions], origins: Sequence[ExecNode]) -> Distributions:
    """Return by which keys the rows of a node are distributed, from those of its inputs, the rows of `origins`.

    NONE is always right.
    """
    if isinstance(node, Exchange):
        wanted = node.input_properties[0].required_distribution
        if wanted.type != "HASH" or not wanted.keys:
            return NONE
        return frozenset({wanted.keys}) | (inputs[0] if wanted.keys in inputs[0] else NONE)
    if isinstance(node, Calc):
        return _projected(inputs[0], node.projection)
    if isinstance(node, DropUpdateBefore | ChangelogNormalize | Deduplicate) or type(node) is Rank:
        return inputs[0]
    if isinstance(node, Join):
        return _joined(node, inputs, len(origins[0].output_type.fields))
    return NONE


def _projected(given: Distributions, projection: Sequence[AnyRexNode]) -> Distributions:
    places: dict[int, int] = {}
    for place, one in enumerate(projection):
        if isinstance(one, RexInputRef):
            places.setdefault(one.index, place)
    return frozenset(tuple(places[at] for at in key) for key in given if all(at in places for at in key))


def _joined(node: Join, inputs: Sequence[Distributions], left_width: int) -> Distributions:
    spec = node.join_spec
    keys = (spec.left_keys, spec.right_keys)
    if not keys[0] or any(key not in of for key, of in zip(keys, inputs, strict=True)):
        return NONE
    found = set()
    if spec.join_type in _KEEPS_LEFT:
        found.add(keys[0])
    if spec.join_type in _KEEPS_RIGHT:
        found.add(tuple(left_width + at for at in keys[1]))
    return frozenset(found)
