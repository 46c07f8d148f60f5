"""The messages of an analyst, as JSON: a query to be answered from now on, or the name of a query to remove.

{"add": "long delays", "where": "delay is not None and delay > 60", "value": "delay", "minutes": 120, "every": 60}
{"remove": "long delays"}
"""

from __future__ import annotations

import msgspec

from penstock_examples.flights.records import MINUTE_MS, Report
from penstock_examples.standing_queries.expressions import ExpressionError, compiled

FIELDS = frozenset(Report.__struct_fields__)
PANES_MAX = 1440
"""Most panes of a window: the cost of a query when its windows end."""


class QueryError(ValueError):
    """The message is not a query."""


class Query(msgspec.Struct, frozen=True, tag="add", tag_field="do"):
    """Figures of `value` over the reports of an airport that match `where`, for windows of event time.

    A window is `minutes` long, and one ends every `every` minutes (0: one after the other).
    """

    name: str
    where: str = "True"
    value: str = "delay"
    minutes: int = 60
    every: int = 0

    @property
    def length_ms(self) -> int:
        """The length of a window."""
        return self.minutes * MINUTE_MS

    @property
    def pane_ms(self) -> int:
        """The length of a pane: windows consist of whole ones."""
        return (self.every or self.minutes) * MINUTE_MS

    def check(self) -> None:
        """Raise QueryError if the query can't be answered."""
        every = self.every or self.minutes
        if not self.name or self.minutes < 1 or every < 1 or self.minutes % every:
            raise QueryError(f"a query has a name, and windows of whole multiples of `every`, got {self}")
        if self.minutes // every > PANES_MAX:
            raise QueryError(f"a window has at most {PANES_MAX} panes of `every` minutes, got {self.minutes // every}")
        try:
            compiled(self.where, FIELDS)
            compiled(self.value, FIELDS)
        except ExpressionError as error:
            raise QueryError(str(error)) from None


class Removal(msgspec.Struct, frozen=True, tag="remove", tag_field="do"):
    """The removal of the query with this name."""

    name: str


class Figures(msgspec.Struct, frozen=True):
    """Figures of the values in a pane or a window."""

    count: int = 0
    total: float = 0
    low: float | None = None
    high: float | None = None

    def plus(self, value: float) -> Figures:
        """Return the figures with one more value."""
        low = value if self.low is None else min(self.low, value)
        high = value if self.high is None else max(self.high, value)
        return Figures(self.count + 1, self.total + value, low, high)

    def merged(self, other: Figures) -> Figures:
        """Return the figures of both."""
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return Figures(
            self.count + other.count,
            self.total + other.total,
            min(lows, default=None),
            max(highs, default=None),
        )


class Answer(msgspec.Struct, frozen=True, order=True):
    """The figures of one query, airport and window."""

    query: str
    airport: str
    start_ms: int
    end_ms: int
    count: int
    total: float
    low: float | None
    high: float | None


class Failure(msgspec.Struct, frozen=True, order=True):
    """The reason why a query is not answered, at all or for one airport."""

    query: str
    airport: str | None
    reason: str


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    add: str | None = None
    remove: str | None = None
    where: str = "True"
    value: str = "delay"
    minutes: int = 60
    every: int = 0


def parsed(line: str) -> Query | Removal:
    """Parse a message of an analyst. Raises QueryError if it is not JSON, is incomplete, or can't be answered."""
    try:
        sent = msgspec.json.decode(line, type=_Sent)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise QueryError(f"not a query: {error}") from None
    if (sent.add is None) == (sent.remove is None):
        raise QueryError('a query begins with "add" and its name, or "remove" and its name')
    if sent.remove is not None:
        return Removal(sent.remove)
    query = Query(name=sent.add or "", where=sent.where, value=sent.value, minutes=sent.minutes, every=sent.every)
    query.check()
    return query
