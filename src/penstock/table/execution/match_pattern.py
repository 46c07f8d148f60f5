"""PATTERN, AFTER MATCH and WITHIN as a pattern of `penstock.cep`, and what Flink refuses of them.

Rows of a pattern follow each other without a gap. Source: Flink's CommonExecMatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.errors import MalformedPatternError, SkipTargetError
from penstock.cep.pattern import Pattern
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes.match_nodes import (
    SKIP_PAST_LAST_ROW,
    SKIP_TO_FIRST,
    SKIP_TO_NEXT_ROW,
    AfterMatch,
    MatchSpec,
    PatternElement,
)


def pattern_of(spec: MatchSpec, conditions: Callable[[str], Iterable[Callable[..., bool]]]) -> Pattern[Any, Any]:
    """Return the pattern of a node. `conditions`: those of a variable.

    Raises UnsupportedPlanError for what Flink refuses.
    """
    elements = spec.elements
    _check(elements)
    if spec.interval is not None and spec.interval.type.logical.root != "INTERVAL_SECOND":
        raise UnsupportedPlanError("WITHIN takes days to seconds, as in Flink: months and years have no fixed length")
    if spec.subsets:
        raise UnsupportedPlanError("SUBSET is not supported, as in Flink: name each variable")
    pattern: Any = None
    try:
        for one in elements:
            if pattern is None:
                pattern = Pattern.begin(one.variable, _skip(spec.after_match))
            else:
                pattern = pattern.next(one.variable)
            for condition in conditions(one.variable):
                pattern.where(condition)
            _quantify(pattern, one)
        if spec.within_ms is not None:
            pattern.within(spec.within_ms)
        pattern.check()
    except MalformedPatternError as error:
        raise UnsupportedPlanError(f"the PATTERN is not supported: {error}") from error
    found: Pattern[Any, Any] = pattern
    return found


def _check(elements: Sequence[PatternElement]) -> None:
    names = [one.variable for one in elements]
    for name in names:
        if names.count(name) > 1:
            raise UnsupportedPlanError(
                f"the PATTERN has the variable {name} twice, as Flink does not support: define another one like it"
            )
    for one in elements:
        if one.at_least == 0 and one.at_most == 1 and not one.greedy:
            raise UnsupportedPlanError(
                f"the reluctant {one.variable}?? in a PATTERN is not supported, as in Flink: write {one.variable}?"
            )
        if one.at_most == 0:
            raise UnsupportedPlanError(f"the variable {one.variable} matches no row: leave it out of the PATTERN")
    if not any(one.at_least for one in elements):
        raise UnsupportedPlanError(
            "a PATTERN that may match no row is not supported, as in Flink: let a variable match one row at least"
        )
    if _is_greedy(elements[-1]):
        name = elements[-1].variable
        raise UnsupportedPlanError(
            f"the greedy {name} at the end of a PATTERN is not supported, as in Flink: put a variable behind it, or "
            f"make it reluctant, as in {name}+?"
        )
    for one, following in pairwise(elements):
        if _is_greedy(one) and following.at_least == 0:
            raise UnsupportedPlanError(
                f"{following.variable} is optional and behind the greedy {one.variable}: Flink does not support that. "
                f"Make {one.variable} reluctant"
            )


def _is_greedy(one: PatternElement) -> bool:
    """Return whether a variable takes as many rows as it can: not if their number is fixed, and not with `?`."""
    is_optional = one.at_least == 0 and one.at_most == 1
    return one.greedy and not is_optional and one.at_least != one.at_most


def _quantify(pattern: Any, one: PatternElement) -> None:
    if one.at_least == one.at_most == 1:
        return
    if one.at_least == 0 and one.at_most == 1:
        pattern.optional()
        return
    if one.at_most is not None:
        pattern.times(one.at_least, one.at_most)
    elif one.at_least <= 1:
        pattern.one_or_more()
    else:
        pattern.times_or_more(one.at_least)
    pattern.consecutive()
    if one.at_least == 0 and one.at_most is None:
        pattern.optional()
    if _is_greedy(one):
        pattern.greedy()


def _skip(after: AfterMatch) -> AfterMatchSkipStrategy:
    if after.strategy == SKIP_PAST_LAST_ROW:
        return AfterMatchSkipStrategy.skip_past_last_event()
    if after.strategy == SKIP_TO_NEXT_ROW:
        return AfterMatchSkipStrategy.skip_to_next()
    assert after.variable is not None
    is_first = after.strategy == SKIP_TO_FIRST
    made = AfterMatchSkipStrategy.skip_to_first if is_first else AfterMatchSkipStrategy.skip_to_last
    found = made(after.variable)
    return SkipToRow(found.kind, found.step_name, throws_on_miss=True)


class SkipToRow(AfterMatchSkipStrategy):
    """AFTER MATCH SKIP TO FIRST or LAST: as in Flink, the job fails if the match lacks the row or begins with it."""

    def last_discarded(self, taken: Iterable[tuple[str, int]]) -> int:
        """Return what the base does. Raises SkipTargetError in the words of SQL."""
        try:
            return super().last_discarded(taken)
        except SkipTargetError:
            end = self.kind.rpartition("_")[2].upper()
            raise SkipTargetError(
                f"AFTER MATCH SKIP TO {end} {self.step_name}: a match has no row of {self.step_name}, or begins with "
                "that row, so the search would continue where it was. Skip to a variable that each match has behind "
                "its first row, or write SKIP TO NEXT ROW"
            ) from None
