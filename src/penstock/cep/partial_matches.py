"""The state of a key: its partial matches, and complete ones that wait for their turn.

Partial matches with the same first event are a *family*: they time out together, and are discarded together by skip
strategies. Families are in order of their first event. A partial match, or *run*, is a pair of its state and its last
node; a node is a tuple `(node before, step, event, number, timestamp)`, so runs share what they have in common, and
nodes that no run needs are freed. `number` counts the events of the key.

A key with few families is searched from end to end. With more than `SMALL`, families are also found by the states of
their runs, so that an event costs nothing for those that it does not change.

`dumped` gives the state as a flat value: no nesting as deep as a match is long, each event once.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from penstock.cep.accumulators import VALUES, Accumulate

Node: TypeAlias = tuple[Any, ...]
"""The node before or None, step, event, number of the event, its timestamp (ms); values of accumulators, if any."""
Run: TypeAlias = tuple[int, Node]
"""State and last node."""
Family: TypeAlias = tuple[int, Sequence[Run]]
"""The timestamp of the first event (ms), and the runs, the first to count as first in front."""
Deferred: TypeAlias = tuple[int, Any, int, int]
"""An event's number, the event, its timestamp (ms) and its bits."""
Completed: TypeAlias = tuple[int, Node]
"""The number of the first event, and the last node."""

SMALL = 32
NEVER = 2**63 - 1
"""Time does not change the state."""
_FIRST = itemgetter(0)


class PartialMatches:
    """The partial matches of a key. `Automaton` changes them; falsy if there is nothing to keep."""

    # fmt: off
    __slots__ = (
        "_index", "armed_ms", "completed", "deadline_ms", "deferred", "families", "followers", "gaps", "is_stored",
        "number", "runs", "timer_ms",
    )
    # fmt: on

    def __init__(self) -> None:
        self.number = 0
        """The number of the next event."""
        self.families: dict[int, Family] = {}
        """By the number of the first event, in ascending order."""
        self.runs = 0
        """Number of partial matches."""
        self.completed: list[Completed] = []
        """Matches that wait for partial matches which began before them."""
        self.gaps: list[tuple[int, int]] = []
        """A heap: when a run's time between two events ends (ms), and its family. May name families that are gone."""
        self.deadline_ms = NEVER
        """Time below it has no results (ms); `Automaton.advance_time` is worth its call from here on."""
        self.deferred: list[Deferred] = []
        """Events that may begin a match once the present one ends: see `deferred_starts` and `deferred_loops`."""
        self.followers: list[Deferred] = []
        """Events that matches may take which begin with deferred ones: see `deferred_loops`."""
        self.armed_ms = NEVER
        """The operator's: something at or before this time reminds of the deadline (ms)."""
        self.timer_ms = NEVER
        """The operator's: the time of the stored timer (ms); NEVER without one."""
        self.is_stored = False
        """The operator's: whether the table of keyed state may hold the key."""
        self._index: dict[int, dict[int, None]] | None = None
        """The families that have a run in a state; None as long as there are few."""

    def __bool__(self) -> bool:
        return bool(self.families or self.completed)

    def is_as_new(self) -> bool:
        """Make an empty state as it was created, and return whether it is: it may serve another key."""
        if self.families or self.completed or self.gaps or self.deferred or self.followers or self._index is not None:
            return False
        self.number = 0
        self.deadline_ms = self.armed_ms = self.timer_ms = NEVER
        self.is_stored = False
        return True

    def changed_by(self, decisions: Sequence[Any], unchanged: Any) -> Iterable[int]:
        """Return the families that an event changes, in order; perhaps others, too, if there are few.

        Args:
            decisions: what the event does to a run, by state.
            unchanged: the decision to leave a run as it is.
        """
        if self._index is None:
            return list(self.families)
        changed: dict[int, None] | None = None
        merged = False
        for state, members in self._index.items():
            if members and decisions[state] is not unchanged:
                merged = changed is not None
                changed = {**changed, **members} if changed is not None else members
        return () if changed is None else sorted(changed) if merged or len(changed) > 1 else list(changed)

    def add(self, number: int, start_time: int, runs: Sequence[Run]) -> None:
        """Add a family."""
        self.families[number] = (start_time, runs)
        self.runs += len(runs)
        if self._index is not None:
            for state, _ in runs:
                self._index.setdefault(state, {})[number] = None
        elif len(self.families) > SMALL:
            self._build_index()

    def replace(self, number: int, before: Family, runs: Sequence[Run]) -> None:
        """Replace the runs of a family; without runs, remove it."""
        self.runs += len(runs) - len(before[1])
        if self._index is not None:
            for state, _ in before[1]:
                self._index[state].pop(number, None)
            for state, _ in runs:
                self._index.setdefault(state, {})[number] = None
        if runs:
            self.families[number] = (before[0], runs)
        else:
            del self.families[number]

    def discard_up_to(self, number: int) -> None:
        """Remove families and deferred events that begin up to the event `number`."""
        while self.families and (first := next(iter(self.families))) <= number:
            self.replace(first, self.families[first], ())
        if self.deferred:
            del self.deferred[: bisect_right(self.deferred, number, key=_FIRST)]
            # Those before the first deferred event are of no use.
            first = self.deferred[0][0] if self.deferred else self.number
            del self.followers[: bisect_right(self.followers, first, key=_FIRST)]

    def discard_oldest(self, most: int) -> int:
        """Remove families from the front until there are at most `most` partial matches; return how many were removed.

        Bounds the state of a key. Events that are deferred go with the partial match at the front; complete matches
        that wait stay.
        """
        before = self.runs
        while self.runs > most:
            first = next(iter(self.families))
            self.replace(first, self.families[first], ())
        if not self.families:
            self.deferred.clear()
            self.followers.clear()
        return before - self.runs

    def limit_gap(self, end_ms: int, number: int) -> None:
        """Note when the time of a run between two events ends."""
        heapq.heappush(self.gaps, (end_ms, number))
        if end_ms < self.deadline_ms:
            self.deadline_ms = end_ms

    def find_deadline(self, window_ms: int | None) -> None:
        """Set the deadline from gaps and families, which may be fewer than before."""
        self.deadline_ms = self.gaps[0][0] if self.gaps else NEVER
        if window_ms is not None and self.families:
            end_ms = next(iter(self.families.values()))[0] + window_ms
            if end_ms < self.deadline_ms:
                self.deadline_ms = end_ms

    def _build_index(self) -> None:
        # The first entry of a dict is slow to find when many before it were removed.
        self.families = OrderedDict(self.families)
        self._index = {}
        for number, (_, runs) in self.families.items():
            for state, _ in runs:
                self._index.setdefault(state, {})[number] = None

    def dumped(self) -> tuple[Any, ...]:
        """Return the state as a flat value of tuples, ints and the events."""
        nodes: dict[int, int] = {}
        events: dict[int, tuple[int, int, Any]] = {}
        table: list[tuple[int, int, int]] = []

        def position(node: Node) -> int:
            path = []
            walked: Node | None = node
            while walked is not None and id(walked) not in nodes:
                path.append(walked)
                walked = walked[0]
            for new in reversed(path):
                before, step, event, number, timestamp = new[:VALUES]
                events.setdefault(number, (number, timestamp, event))
                nodes[id(new)] = len(table)
                table.append((-1 if before is None else nodes[id(before)], step, number))
            return nodes[id(node)]

        families = tuple(
            (number, start_time, tuple((state, position(node)) for state, node in runs))
            for number, (start_time, runs) in self.families.items()
        )
        completed = tuple((number, position(node)) for number, node in self.completed)
        kept = {one[0]: one for one in (*self.deferred, *self.followers)}
        deferred = tuple((number, kept[number][2], kept[number][1]) for number in sorted(kept))
        return self.number, tuple(events.values()), tuple(table), families, completed, deferred

    @staticmethod
    def loaded(
        value: tuple[Any, ...],
        gap_ms: Callable[[int], int | None],
        bits: Callable[[Any], int],
        accumulate: Accumulate | None = None,
    ) -> PartialMatches:
        """Return the state that was dumped.

        Args:
            value: what `dumped` returned.
            gap_ms: the time that a run may spend in a state after its last event, if limited.
            bits: computes the bits of an event, under conditions that may have changed.
            accumulate: computes the values of a node.
        """
        number, events, table, families, completed, deferred = value
        by_number = {event[0]: event for event in events}
        nodes: list[Node] = []
        for before, step, event_number in table:
            _, timestamp, event = by_number[event_number]
            parent = nodes[before] if before >= 0 else None
            node: Node = (parent, step, event, event_number, timestamp)
            nodes.append(node if accumulate is None else (*node, accumulate(parent, step, event)))
        partial = PartialMatches()
        partial.number = number
        for first, start_time, runs in families:
            partial.add(first, start_time, tuple((state, nodes[node]) for state, node in runs))
            for state, position in runs:
                if (gap := gap_ms(state)) is not None:
                    partial.limit_gap(nodes[position][4] + gap, first)
        partial.completed = [(first, nodes[node]) for first, node in completed]
        partial.deferred = [(first, event, timestamp, bits(event)) for first, timestamp, event in deferred]
        return partial
