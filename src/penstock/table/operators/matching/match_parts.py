"""What DEFINE and MEASURES read from a match: columns of its rows, aggregates over them, its time.

A row of a match is a tuple of the values that are read from it. `variable` is `*` for all rows of the match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.table.operators.matching.match_aggregates import MatchAggregate

ALL = "*"
Row = tuple[Any, ...]
Match = Mapping[str, Sequence[Row]]
"""The rows of each variable, variables and rows in order."""


@dataclass(frozen=True)
class RowValue:
    """FIRST(v.c, n) or LAST(v.c, n): a value of the row that is n rows behind the first, or before the last one."""

    variable: str
    is_first: bool
    offset: int
    place: int
    """Where rows have the value."""

    def of(self, match: Match, time_ms: int) -> Any:
        """Return the value; None if there are not so many rows."""
        rows = rows_of(match, self.variable)
        if self.offset >= len(rows):
            return None
        return rows[self.offset if self.is_first else -1 - self.offset][self.place]


@dataclass(frozen=True)
class Aggregated:
    """An aggregate over the rows of a variable."""

    variable: str
    aggregate: MatchAggregate

    def of(self, match: Match, time_ms: int) -> Any:
        """Return the result."""
        state, add = self.aggregate.zero, self.aggregate.add
        for row in rows_of(match, self.variable):
            state = add(state, row)
        return self.aggregate.value(state)


@dataclass(frozen=True)
class MatchTime:
    """MATCH_ROWTIME(): the time of the row with which the match was complete."""

    is_instant: bool
    """Whether it is of the type TIMESTAMP_LTZ."""

    def of(self, match: Match, time_ms: int) -> datetime:
        """Return the time."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC if self.is_instant else None)
        return epoch + timedelta(milliseconds=time_ms)


MatchPart = RowValue | Aggregated | MatchTime


def rows_of(match: Match, variable: str) -> Sequence[Row]:
    """Return the rows of a variable, or of the match, in order."""
    if variable != ALL:
        return match.get(variable, ())
    if len(match) == 1:
        return next(iter(match.values()))
    return [row for rows in match.values() for row in rows]
