"""The expressions of MATCH_RECOGNIZE, over rows and over parts of a match, in place of references to variables.

Source of what is refused: Flink's MatchCodeGenerator.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from penstock.table.logical_types import LogicalType
from penstock.table.operators.matching.match_aggregates import match_aggregate
from penstock.table.operators.matching.match_parts import ALL, Aggregated, MatchPart, MatchTime, RowValue
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.rex_nodes import AnyRexNode, PatternFieldRef, RexCall, RexInputRef, RexLiteral
from penstock.table.planner.rex_trees import nodes_of, type_of, with_children

_PROCTIME = "$PROCTIME$1"
_REFUSED = {
    "PREV": "PREV of another row than the present one: LAST(v.c, 1) is the row of the variable v before",
    "NEXT": "NEXT: a row is matched before the next one is known",
    "CLASSIFIER": "CLASSIFIER",
    "MATCH_NUMBER": "MATCH_NUMBER",
    "RUNNING": "RUNNING: the measures of ONE ROW PER MATCH are final",
}
_AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"})


class Part(NamedTuple):
    """A part of a match with its type."""

    part: MatchPart
    type: LogicalType


class _Position(NamedTuple):
    """The row of a variable whose columns are read."""

    is_first: bool = False
    offset: int = 0


class MatchReferences:
    """Collects what the expressions of a node read. Methods raise UnsupportedPlanError, which names the function."""

    def __init__(self) -> None:
        self.rows: list[AnyRexNode] = []
        """Expressions over the columns of the input. Rows of matches are tuples of their values."""
        self._places: dict[AnyRexNode, int] = {}
        self._aggregates: dict[RexCall, Aggregated] = {}

    def condition(self, node: AnyRexNode, variable: str, *, always_tried: bool) -> tuple[int | None, AnyRexNode | None]:
        """Split a condition of DEFINE.

        Args:
            node: the condition.
            variable: the one that it defines.
            always_tried: whether each row is tried as one of this variable. Otherwise what may fail is not computed for
                all rows: as in Flink, a row that is not tried does not fail.

        Returns:
            Where rows have whether they satisfy what depends on the row alone, and the part that depends on others.
        """
        operands = node.operands if isinstance(node, RexCall) and node.name == "AND" else (node,)
        alone = tuple(one for one in operands if _is_of_row(one, variable) and (always_tried or not _may_fail(one)))
        others = tuple(one for one in operands if one not in alone)
        place = self.place(_of_row(_all_of(node, alone))) if alone else None
        return place, _all_of(node, others) if others else None

    def over_parts(self, node: AnyRexNode, parts: list[Part]) -> AnyRexNode:
        """Return an expression over the values of parts of a match, and add to `parts` those that it lacks."""
        return self._rewritten(node, parts, _Position())

    def _rewritten(self, node: AnyRexNode, parts: list[Part], position: _Position) -> AnyRexNode:
        if isinstance(node, PatternFieldRef):
            place = self.place(RexInputRef(index=node.index, type=node.type))
            return _reference(node, RowValue(node.alpha, position.is_first, position.offset, place), parts)
        if not isinstance(node, RexCall) or not node.is_built_in:
            return with_children(node, lambda one: self._rewritten(one, parts, position))
        name = node.name
        if name in ("FIRST", "LAST"):
            return self._rewritten(node.operands[0], parts, _Position(name == "FIRST", _offset(node)))
        if name == "FINAL" or (name == "PREV" and not _offset(node)):
            return self._rewritten(node.operands[0], parts, position)
        if name in _REFUSED:
            raise UnsupportedPlanError(f"MATCH_RECOGNIZE does not support {_REFUSED[name]}, as in Flink")
        if name == "FILTER":
            raise UnsupportedPlanError(
                "FILTER in MATCH_RECOGNIZE is not supported: aggregate a CASE expression, which is NULL for other rows"
            )
        if name == "MATCH_ROWTIME":
            return _reference(node, MatchTime(node.type.logical.root == "TIMESTAMP_LTZ"), parts)
        if name == "MATCH_PROCTIME":
            return replace(node, internal_name=_PROCTIME)
        if name in _AGGREGATES:
            return _reference(node, self._aggregate(node), parts)
        return with_children(node, lambda one: self._rewritten(one, parts, position))

    def _aggregate(self, call: RexCall) -> Aggregated:
        if call in self._aggregates:
            return self._aggregates[call]
        if any(isinstance(one, RexCall) and one.name in _NOT_OF_ROWS for one in nodes_of(call.operands)):
            raise UnsupportedPlanError(
                f"{call.name} is over the rows of a variable: no FIRST, LAST or {call.name} in it"
            )
        variables = {one.alpha for one in nodes_of(call.operands) if isinstance(one, PatternFieldRef)}
        if len(variables) > 1:
            shown = ", ".join(sorted(variables))
            raise UnsupportedPlanError(
                f"{call.name} over rows of several variables ({shown}): aggregate each by itself"
            )
        places = [self.place(_of_row(one)) for one in call.operands]
        types = [type_of(one) for one in call.operands]
        aggregate = match_aggregate(call.name, places, types, call.type.logical)
        assert aggregate is not None, call.name
        found = self._aggregates[call] = Aggregated(next(iter(variables), ALL), aggregate)
        return found

    def place(self, expression: AnyRexNode) -> int:
        """Return where rows have an expression over the columns of the input."""
        if expression not in self._places:
            self._places[expression] = len(self.rows)
            self.rows.append(expression)
        return self._places[expression]


_FAIL = frozenset({"CAST", "/", "DIVIDE", "MOD", "%", "ITEM", "ELEMENT"})
_NOT_OF_ROWS = _AGGREGATES | {"FIRST", "LAST", "NEXT", "MATCH_ROWTIME", "MATCH_PROCTIME", "FILTER", *_REFUSED} - {
    "PREV"
}


def _reference(node: PatternFieldRef | RexCall, part: MatchPart, parts: list[Part]) -> RexInputRef:
    one = Part(part, node.type.logical)
    if one not in parts:
        parts.append(one)
    return RexInputRef(index=parts.index(one), type=node.type)


def _is_of_row(node: AnyRexNode, variable: str) -> bool:
    """Return whether a condition of a variable depends on the row in question alone."""
    for one in nodes_of([node]):
        if isinstance(one, PatternFieldRef) and one.alpha not in (ALL, variable):
            return False
        if isinstance(one, RexCall) and one.is_built_in:
            is_present = one.name in ("LAST", "PREV") and not _offset(one)
            if not is_present and one.name in _NOT_OF_ROWS | {"PREV"}:
                return False
    return True


def _may_fail(node: AnyRexNode) -> bool:
    """Return whether the values of a row may be an error for an expression."""
    return any(isinstance(one, RexCall) and (not one.is_built_in or one.name in _FAIL) for one in nodes_of([node]))


def _of_row(node: AnyRexNode) -> AnyRexNode:
    """Return an expression over the columns of the input."""
    if isinstance(node, PatternFieldRef):
        return RexInputRef(index=node.index, type=node.type)
    if isinstance(node, RexCall) and node.is_built_in and node.name in ("LAST", "PREV"):
        return _of_row(node.operands[0])
    return with_children(node, _of_row)


def _all_of(node: AnyRexNode, operands: tuple[AnyRexNode, ...]) -> AnyRexNode:
    """Return AND of some operands of `node`, or the only one."""
    return replace(node, operands=operands) if len(operands) > 1 else operands[0]


def _offset(call: RexCall) -> int:
    """Return the second operand of FIRST, LAST or PREV: a number of rows."""
    if len(call.operands) < 2:
        return 1 if call.name == "PREV" else 0
    count = call.operands[1]
    if not isinstance(count, RexLiteral) or count.value is None:
        raise UnsupportedPlanError(f"the offset of {call.name} must be a number, not an expression")
    if (rows := int(str(count.value))) < 0:
        raise UnsupportedPlanError(f"the offset of {call.name} must not be negative, got {rows}")
    return rows
