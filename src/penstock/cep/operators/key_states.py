"""The partial matches of keys, decoded while they are in use, and stored flat before a snapshot.

    live     decoded, perhaps changed since they were stored
    clean    decoded, as they are stored: a bounded number of keys
    table    entry key -> the number of a layout, and what `PartialMatches.dumped` returns

Live keys have deadlines (`deadlines.py`), stored ones timers. A key with many partial matches is thus not read and
written with each of its events, and a key without partial matches is in none of the three. The layout has the names of
the states and steps that the numbers in a stored value mean, so a value can be read after the pattern has changed
(`changed_patterns.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.cep.changed_patterns import translated
from penstock.cep.operators.deadlines import Deadlines
from penstock.cep.partial_matches import NEVER, PartialMatches

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.cep.operators.pattern_metrics import PatternMetrics
    from penstock.cep.operators.queryable_matches import QueryableMatches
    from penstock.engine.runtime.time.timers import TimerQueue
    from penstock.engine.state.layers import LayeredTable

Layout: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...], tuple[int | None, ...]]"
"""The names of states and of steps, and the limits of time (ms)."""

DECODED_MAX = 20_000
"""Keys that stay decoded after a snapshot, and, if tables are larger than memory, between two of them."""

SPARE_MAX = 100
"""Empty states that are kept for other keys."""


class Layouts:
    """The layouts of stored values, by number. `put`: stores one that is new."""

    def __init__(self, known: Iterable[tuple[int, Layout]], put: Callable[[int, Layout], object]) -> None:
        self._known = dict(known)
        self._put = put

    def number_of(self, automaton: Automaton[Any]) -> int:
        """Return the number of an automaton's layout."""
        layout = automaton.state_names, automaton.step_names, automaton.limits_ms
        number = zlib.crc32(repr(layout).encode())
        if number not in self._known:
            self._known[number] = layout
            self._put(number, layout)
        return number

    def names(self, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of states and steps."""
        states, steps, _ = self._known[number]
        return states, steps

    def has_other_limits(self, automaton: Automaton[Any]) -> bool:
        """Return whether a known layout has other limits of time than an automaton."""
        return any(limits != automaton.limits_ms for _, _, limits in self._known.values())

    def forget_others(self, automaton: Automaton[Any]) -> list[int]:
        """Forget all layouts but that of an automaton, under which all values are now, and return their numbers."""
        present = self.number_of(automaton)
        others = [number for number in self._known if number != present]
        for number in others:
            del self._known[number]
        return others


class KeyTimers:
    """The stored timers of keys, for one automaton.

    `namespace`: of all timers. `delay_ms`: a timer of processing time fires when its millisecond has ended.
    """

    def __init__(self, queue: TimerQueue, namespace: Any, delay_ms: int) -> None:
        self._queue = queue
        self._namespace = namespace
        self._delay_ms = delay_ms

    def register(self, key: Any, time_ms: int) -> None:
        """Add a timer."""
        self._queue.register(time_ms + self._delay_ms, key, self._namespace)

    def delete(self, key: Any, time_ms: int) -> None:
        """Remove a timer."""
        self._queue.delete(time_ms + self._delay_ms, key, self._namespace)

    def clear(self) -> None:
        """Remove the timers of all keys."""
        for time_ms, key, namespace in [timer for timer in self._queue if timer[2] == self._namespace]:
            self._queue.delete(time_ms, key, namespace)


class KeyStates:
    """The partial matches of the keys of a subtask, for one automaton.

    `is_restored`: keys may have stored partial matches. `namespace`: None if entry keys are keys, else the second part
    of them. `timers`: those of stored keys; None if keys end with their events. `bits`: of the events that a stored
    value holds back. `holders`: where to note, by key, the namespaces that may have partial matches.
    `queryable`: where to write them for queries, too.
    """

    def __init__(
        self,
        table: LayeredTable,
        automaton: Automaton[Any],
        layouts: Layouts,
        figures: PatternMetrics,
        *,
        is_restored: bool,
        namespace: Any = None,
        timers: KeyTimers | None = None,
        bits: Callable[[Any], int] | None = None,
        holders: dict[Any, set[Any]] | None = None,
        queryable: QueryableMatches | None = None,
    ) -> None:
        self._table = table
        self._automaton = automaton
        self._namespace = namespace
        self._layouts = layouts
        self._figures = figures
        self._layout = layouts.number_of(automaton)
        self.live: dict[Any, PartialMatches] = {}
        """By key. The operator looks keys up here first, and adds new ones."""
        self.deadlines = Deadlines(self.live)
        self._timers = timers
        self._bits = bits
        self._holders = holders
        self._queryable = queryable
        self._clean: dict[Any, PartialMatches] = {}
        self._spare: list[PartialMatches] = []
        """Empty states: keys begin and end matches all the time, and a new state costs more than the match."""
        self.may_hold_others = is_restored
        """Whether a key that is not live may have partial matches."""

    def other(self, key: Any) -> PartialMatches | None:
        """Return the partial matches of a key that is not live, and make it live; None without such."""
        partial = self._clean.pop(key, None)
        if partial is None:
            stored = self._table.get(self._entry_key(key))
            if stored is None:
                return None
            partial = self._decoded(stored)
        self.live[key] = partial
        return partial

    def begin(self, key: Any) -> PartialMatches:
        """Return an empty state for a key without one, and make it live."""
        partial = self.live[key] = self._spare.pop() if self._spare else PartialMatches()
        if self._holders is not None:
            self._holders.setdefault(key, set()).add(self._namespace)
        return partial

    def drop(self, key: Any) -> None:
        """Forget a live key: it has no partial matches."""
        partial = self.live.pop(key)
        self._forget_holder(key)
        if partial.is_stored:
            self._table.discard(self._entry_key(key))
            if self._queryable is not None:
                self._queryable.discard_all([self._entry_key(key)])
        if partial.timer_ms != NEVER:
            self._set_timer(key, partial, NEVER)
        if len(self._spare) < SPARE_MAX and partial.is_as_new():
            self._spare.append(partial)

    def store(self) -> None:
        """Write the live keys into the table, and keep a bounded number of keys decoded."""
        put, layout = self._table.put, self._layout
        for key, partial in self.live.items():
            put(self._entry_key(key), (layout, partial.dumped()))
            if self._queryable is not None:
                self._queryable.put(self._entry_key(key), self._automaton, partial)
            partial.is_stored = True
            self._set_timer(key, partial, partial.deadline_ms)
            partial.armed_ms = partial.timer_ms
        if self.live:
            self.may_hold_others = True
        self._clean.update(self.live)
        self.live.clear()
        self.deadlines.clear()
        if (excess := len(self._clean) - DECODED_MAX) > 0:
            for key in list(self._clean)[:excess]:
                del self._clean[key]

    def limit(self) -> None:
        """Store live keys if there are many, and the table is larger than memory."""
        if self._table.is_larger_than_memory and len(self.live) > DECODED_MAX:
            self.store()

    def remove_all(self) -> int:
        """Remove the partial matches of all keys, which were stored, and return how many there were.

        It reads the whole table, which is fine for a pattern that is removed.
        """
        stored = list(self._entries())
        entry_keys = [entry_key for entry_key, _ in stored]
        self._table.discard_all(entry_keys)
        if self._queryable is not None:
            self._queryable.discard_all(entry_keys)
        for entry_key, _ in stored:
            self._forget_holder(entry_key if self._namespace is None else entry_key[0])
        if self._timers is not None:
            self._timers.clear()
        self.clear()
        return sum(_runs_in(dumped) for _, (_, dumped) in stored)

    def set_timers_again(self) -> None:
        """Set the timers of all stored keys, whose limits of time were others when they were stored.

        Otherwise a key without further events would time out when it would have done before, or never. It reads the
        whole table, which is fine where limits have changed.
        """
        if self._timers is None:
            return
        self._timers.clear()
        for entry_key in [entry_key for entry_key, _ in self._entries()]:
            key = entry_key if self._namespace is None else entry_key[0]
            partial = self.other(key)
            assert partial is not None
            partial.timer_ms = NEVER
            if not partial:
                self.drop(key)
            elif len(self.live) >= DECODED_MAX:
                self.store()
        self.store()

    def _entries(self) -> Iterator[tuple[Any, Any]]:
        """Return the stored entries of this automaton."""
        namespace = self._namespace
        return (entry for entry in self._table.items() if namespace is None or entry[0][1] == namespace)

    def clear(self) -> None:
        """Forget all keys. The table is cleared elsewhere."""
        self.live.clear()
        self.deadlines.clear()
        self._clean.clear()
        self.may_hold_others = False

    def _forget_holder(self, key: Any) -> None:
        holders = self._holders
        if holders is not None and (namespaces := holders.get(key)) is not None:
            namespaces.discard(self._namespace)
            if not namespaces:
                del holders[key]

    def _entry_key(self, key: Any) -> Any:
        return key if self._namespace is None else (key, self._namespace)

    def _decoded(self, stored: Any) -> PartialMatches:
        number, dumped = stored
        same, before = number == self._layout, _runs_in(dumped)
        if not same:
            dumped = translated(dumped, *self._layouts.names(number), self._automaton)
        partial = self._automaton.load(dumped, self._bits)
        # Steps may be gone, and the automaton may begin matches that another one has deferred.
        self._figures.partial_matches += partial.runs - before
        partial.is_stored = True
        # Timers are stored with the key. Another pattern may have another deadline.
        partial.armed_ms = partial.timer_ms = partial.deadline_ms if same else NEVER
        return partial

    def _set_timer(self, key: Any, partial: PartialMatches, time_ms: int) -> None:
        """Let a key have a stored timer at this time only; NEVER: none."""
        if self._timers is None or partial.timer_ms == time_ms:
            return
        if partial.timer_ms != NEVER:
            self._timers.delete(key, partial.timer_ms)
        if time_ms != NEVER:
            self._timers.register(key, time_ms)
        partial.timer_ms = time_ms


def _runs_in(dumped: tuple[Any, ...]) -> int:
    """Return the number of partial matches in a stored value."""
    return sum(len(runs) for _, _, runs in dumped[3])
