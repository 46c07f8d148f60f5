"""MATCH_RECOGNIZE: a pattern of rows."""

from __future__ import annotations

from typing import NamedTuple

from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes.base import ExecNode, Part
from penstock.table.planner.nodes.specs import PartitionSpec, SortSpec
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexLiteral

SKIP_PAST_LAST_ROW = "SKIP_PAST_LAST_ROW"
SKIP_TO_NEXT_ROW = "SKIP_TO_NEXT_ROW"
SKIP_TO_FIRST = "SKIP_TO_FIRST"
SKIP_TO_LAST = "SKIP_TO_LAST"
_SKIPS = {"SKIP TO FIRST": SKIP_TO_FIRST, "SKIP TO LAST": SKIP_TO_LAST}
_QUANTIFIER = "PATTERN_QUANTIFIER"
_CONCAT = "PATTERN_CONCAT"
_REFUSED = {
    "|": "alternatives (A | B)",
    "PATTERN_PERMUTE": "PERMUTE",
    "PATTERN_EXCLUDE": "exclusions ({- A -})",
    _CONCAT: "groups with a quantifier, such as (A B)+,",
}
"""Patterns that the planner plans. Flink refuses them, too, but only when the job is built."""


class PatternElement(NamedTuple):
    """A variable of a pattern with its quantifier: `A{2,5}`."""

    variable: str
    at_least: int = 1
    at_most: int | None = 1
    """The maximum, or None."""
    greedy: bool = True


class AfterMatch(NamedTuple):
    """Where the next match may start: SKIP_PAST_LAST_ROW, SKIP_TO_NEXT_ROW, SKIP_TO_FIRST or SKIP_TO_LAST."""

    strategy: str
    variable: str | None = None
    """The variable that SKIP_TO_FIRST and SKIP_TO_LAST name."""


class MatchSpec(Part, frozen=True, kw_only=True):
    """The clauses of MATCH_RECOGNIZE. Columns in `measures` and `pattern_definitions` are `PatternFieldRef`s."""

    pattern: AnyRexNode
    pattern_definitions: dict[str, AnyRexNode]
    """The conditions of DEFINE, by variable. A variable without one matches each row."""
    measures: dict[str, AnyRexNode]
    """By name; their order is that of the node's output, after the columns of the partition."""
    after: AnyRexNode
    subsets: dict[str, tuple[str, ...]]
    all_rows: bool
    partition: PartitionSpec
    order_by: SortSpec
    interval: RexLiteral | None = None

    def __post_init__(self) -> None:
        """Refuse what Flink's runtime refuses, by name. Raises UnsupportedPlanError."""
        _elements(self.pattern)
        if self.all_rows:
            raise UnsupportedPlanError("ALL ROWS PER MATCH is not supported: write ONE ROW PER MATCH")

    @property
    def elements(self) -> tuple[PatternElement, ...]:
        """The pattern: its variables, in order."""
        return _elements(self.pattern)

    @property
    def after_match(self) -> AfterMatch:
        """AFTER MATCH."""
        if isinstance(self.after, RexCall):
            return AfterMatch(_SKIPS[self.after.name], str(_value(self.after.operands[0])))
        return AfterMatch(str(_value(self.after)))

    @property
    def within_ms(self) -> int | None:
        """WITHIN: the longest time between the first and the last row of a match (milliseconds), or None."""
        return None if self.interval is None else int(str(self.interval.value))


class Match(ExecNode, frozen=True, kw_only=True, tag="stream-exec-match_1"):
    """Find matches of a pattern in the ordered rows of each partition, and give a row for each."""

    match_spec: MatchSpec


def _elements(pattern: AnyRexNode) -> tuple[PatternElement, ...]:
    if isinstance(pattern, RexLiteral):
        return (PatternElement(str(pattern.value)),)
    assert isinstance(pattern, RexCall)
    if pattern.name == _CONCAT:
        left, right = pattern.operands
        return (*_elements(left), *_elements(right))
    inner, *bounds = pattern.operands
    if pattern.name != _QUANTIFIER or not isinstance(inner, RexLiteral):
        name = inner.name if pattern.name == _QUANTIFIER and isinstance(inner, RexCall) else pattern.name
        raise UnsupportedPlanError(f"{_REFUSED.get(name, name)} in a PATTERN are not supported, as in Flink")
    at_least, at_most = (int(str(_value(bound))) for bound in bounds[:2])
    return (
        PatternElement(
            str(inner.value),
            max(at_least, 0),
            None if at_most < 0 else at_most,
            greedy=not _value(bounds[2]),
        ),
    )


def _value(node: AnyRexNode) -> object:
    assert isinstance(node, RexLiteral)
    return node.value
