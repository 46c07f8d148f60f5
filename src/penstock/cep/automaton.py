"""The automaton of a pattern: events and time of one key in, matches and timeouts out. No I/O, no clock.

An automaton belongs to a pattern and has no state but tables that fill themselves; the state of a key is a
`PartialMatches`. A key without one costs nothing: create it when `moves.begins` says that an event starts a match, drop
it when it is falsy.

    bits = automaton.bits(event)
    matches, timeouts = automaton.advance_time(partial, timestamp)     first, for a time ends before its events
    matches += automaton.process(partial, event, timestamp, bits)

Events come in order of their timestamps. Matches that one event or one advance of time completes come in order of
their first event; among those with the same first event, a match is first that took an event where the other one
passed over it, and that stayed in the earlier step where the other one left it. Source: Flink docs, "Event Processing
(CEP)"; Agrawal et al., "Efficient Pattern Matching over Event Streams", SIGMOD 2008.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from penstock.cep.accumulators import Accumulator, accumulate_of
from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.compiler import compile_steps
from penstock.cep.condition_functions import RichIterativeCondition, rich_part
from penstock.cep.conditions import Iterative, evaluator, expression_of, text_of
from penstock.cep.decisions import ENDS, PASSES_OVER, UNCHANGED, Ask, Decision, Decisions, Moves
from penstock.cep.expressions import Expression
from penstock.cep.graph import Kind
from penstock.cep.match_context import MatchContext, events_of, path_of
from penstock.cep.move_table import MoveTable, beginnings
from penstock.cep.partial_matches import NEVER, Completed, Node, PartialMatches, Run
from penstock.cep.pattern import Pattern
from penstock.cep.predicate_bits import bits_of_chunk, bits_of_event
from penstock.cep.steps import all_steps

T = TypeVar("T")

Match: TypeAlias = dict[str, list[T]]
"""The events of each step that took any, steps and events in order."""
Timeout: TypeAlias = tuple[dict[str, list[T]], int]
"""The events of a partial match, and the time at which its time was over (ms)."""

Arrival: TypeAlias = tuple[Any, int, int, int]
"""An event, its number, its timestamp (ms) and the processing time (ms)."""

_FIRST = itemgetter(0)


class Automaton(Generic[T]):
    """The automaton of a pattern, with values that `MatchContext.accumulated` shows to its conditions.

    Raises MalformedPatternError for what `Pattern.check` refuses.
    """

    defers: ClassVar[bool] = False
    """Whether it keeps events that may begin a match while another one is open: see `automata`."""

    def __init__(self, pattern: Pattern[T, Any], accumulators: Sequence[Accumulator] = ()) -> None:
        pattern.check()
        self.pattern = pattern
        self.accumulators = tuple(accumulators)
        self.shows_timeouts = True
        """Whether timeouts have their events. If nothing receives them, dicts that are empty cost less."""
        self.copy_event: Callable[[T], T] | None = None
        """Copies the events of matches and timeouts, whose receiver may change them; None: they are the same objects"""
        self.skip: AfterMatchSkipStrategy = pattern.get_after_match_skip_strategy()
        self.step_names = tuple(step.name for step in all_steps(pattern.steps()))
        self._zeros = tuple(accumulator.zero for accumulator in self.accumulators)
        self._accumulate = accumulate_of(self.accumulators, self.step_names)
        graph = compile_steps(pattern.steps())
        self.graph = graph
        self.window_ms = graph.window_ms
        self.state_names = tuple(state.name for state in graph.states)
        """Stable as long as the steps and their repetitions are: see `changed_patterns`."""
        self._closes_ms = [state.closes_ms for state in graph.states]
        self.limits_ms = (self.window_ms, *self._closes_ms)
        """The times that limit matches: they are part of what a stored partial match means."""
        self._closed = [None if state.closed is None else state.closed.number for state in graph.states]
        self._discarded = [state.discarded for state in graph.states]
        self._pending = [state.kind is Kind.PENDING for state in graph.states]
        # If time completes a match, the next event of the key tells the time of the match, whatever the event is.
        self._waits_for_time = any(self._pending)
        self._has_gaps = any(closes is not None for closes in self._closes_ms)
        # Then time only ends partial matches, if no complete ones have waited for them under another skip strategy.
        self._only_expires = not (self.skip.skips or self._waits_for_time or self._has_gaps)
        predicates = graph.atoms.predicates
        steps = {name: number for number, name in enumerate(self.step_names)}
        decisions = Decisions(graph.states, steps, len(predicates))
        self.moves = MoveTable(decisions, len(graph.states), len(predicates), self._has_gaps)
        """What events do to partial matches, by their bits."""
        self._rows = self.moves.rows
        self._idle = self.moves.idle
        self._is_plain = not (self._has_gaps or self.accumulators)
        self._completes_plainly = self._is_plain and not self.skip.skips
        self._iterative = [part.function for part in graph.atoms.iterative if isinstance(part, Iterative)]
        rich = [found for function in self._iterative if (found := rich_part(function)) is not None]
        self.rich_conditions: tuple[RichIterativeCondition[Any], ...] = tuple({id(one): one for one in rich}.values())
        """Conditions with a life cycle, each once: open them before the first event, and close them."""
        self.predicates: tuple[Expression | None, ...] = tuple(expression_of(part) for part in predicates)
        """For each bit, its condition as an expression that can be evaluated on columns; None if it is a function."""
        self.predicate_texts = tuple(text_of(part) for part in predicates)
        self.tests: list[Callable[[T], Any]] = [evaluator(part) for part in predicates]
        """For each bit, its condition as a function of an event."""
        self.bits: Callable[[T], int] = bits_of_event(self.tests)
        """Returns the bits of an event: bit n is 1 if it meets the simple condition n."""
        self.bits_of_chunk: Callable[[Sequence[T]], list[int]] = bits_of_chunk(self.tests)
        """Returns the bits of each event of a chunk."""

    def __reduce__(self) -> tuple[type[Automaton[Any]], tuple[Any, ...]]:
        return type(self), (self.pattern, self.accumulators)

    # ---- events and time

    def process(
        self, partial: PartialMatches, event: T, timestamp: int, bits: int, processing_time: int = 0
    ) -> list[Match[T]]:
        """Process one event and return the matches that it completes.

        Args:
            partial: the state of the event's key, which is changed.
            event: the event.
            timestamp: its time (ms), not below that of events before. Call `advance_time` with it first.
            bits: what `bits` returns for the event.
            processing_time: what `Context.current_processing_time` returns (ms).

        Raises:
            SkipTargetError: see `AfterMatchSkipStrategy.throw_exception_on_miss`.
        """
        if self._is_plain and not partial.completed:
            begun = self.moves.plain_begins.get(bits)
            if begun is not None:
                # The most frequent event that matters: it begins a match, and no condition is left to ask.
                step, target = begun
                number = partial.number
                partial.number = number + 1
                partial.add(number, timestamp, ((target, (None, step, event, number, timestamp)),))
                if self.window_ms is not None and timestamp + self.window_ms < partial.deadline_ms:
                    partial.deadline_ms = timestamp + self.window_ms
                return []
            ends = self.moves.plain_ends.get(bits)
            if ends is not None and self._completes_plainly:
                return self._completed(partial, ends, event, timestamp)
        done = self._step(partial, event, timestamp, bits, processing_time=processing_time)
        partial.number += 1
        return self._released(partial, done) if done or partial.completed else []

    def advance_time(
        self, partial: PartialMatches, time_ms: int, processing_time: int = 0
    ) -> tuple[list[Match[T]], list[Timeout[T]]]:
        """Advance the time of a key: return the matches that are complete by then, and the partial ones that timed out.

        Args:
            partial: the state of the key, which is changed.
            time_ms: the time. A window that ends at it has ended.
            processing_time: see `process`; for conditions of a pattern whose starts are deferred.

        Returns:
            Matches that a final `not_followed_by` completes or that timeouts no longer hold back; and timeouts, with
            the end of each one's time.
        """
        if self._only_expires and not self.shows_timeouts and not partial.completed:
            return [], self._expired(partial, time_ms)
        done, timeouts = self._ended(partial, time_ms)
        matches = self._released(partial, done) if done or partial.completed else []
        partial.find_deadline(self.window_ms)
        return matches, timeouts

    def _expired(self, partial: PartialMatches, time_ms: int) -> list[Timeout[T]]:
        """Remove the runs whose window has ended, and return an empty timeout for each."""
        window_ms, families = self.window_ms, partial.families
        timeouts: list[Timeout[T]] = []
        partial.deadline_ms = NEVER
        while families and window_ms is not None:
            number = next(iter(families))
            family = families[number]
            end_ms = family[0] + window_ms
            if end_ms > time_ms:
                partial.deadline_ms = end_ms
                break
            partial.replace(number, family, ())
            timeouts += [({}, end_ms)] * len(family[1])
        return timeouts

    def _ended(self, partial: PartialMatches, time_ms: int) -> tuple[list[Completed], list[Timeout[T]]]:
        """Remove the runs whose time has ended, and return those that are complete thereby, and those that are not."""
        done: list[Completed] = []
        timeouts: list[Timeout[T]] = []
        while partial.gaps and partial.gaps[0][0] <= time_ms:
            end_ms, number = heapq.heappop(partial.gaps)
            completed, ended = self._end_gap(partial, end_ms, number)
            done += completed
            timeouts += ended
        if self.window_ms is not None:
            families = partial.families
            while families:
                number = next(iter(families))
                family = families[number]
                end_ms = family[0] + self.window_ms
                if end_ms > time_ms:
                    break
                partial.replace(number, family, ())
                for state, node in family[1]:
                    if self._pending[state]:
                        done.append((number, node))
                    else:
                        timeouts.append((self._timed_out(node), end_ms))
        return done, timeouts

    def may_drop(self, bits: int, timeouts: bool) -> bool:
        """Return whether an event with these bits may be left out. `timeouts`: whether they have a receiver."""
        if self._waits_for_time:
            return False
        return self.moves.is_passed_over(bits) if timeouts else self.moves.is_without_effect(bits)

    def match(self, node: Node) -> Match[T]:
        """Return the events of the match or partial match that ends with a node."""
        return events_of(node, self.step_names, self.copy_event)

    def _timed_out(self, node: Node) -> Match[T]:
        return self.match(node) if self.shows_timeouts else {}

    # ---- state

    def load(self, value: tuple[Any, ...], bits: Callable[[T], int] | None = None) -> PartialMatches:
        """Return the state of a key from what `PartialMatches.dumped` gave. `bits`: in place of the attribute."""
        partial = PartialMatches.loaded(value, self._closes_ms.__getitem__, bits or self.bits, self._accumulate)
        if partial.deferred and not self.defers:
            self._begin_deferred(partial)
        partial.find_deadline(self.window_ms)
        return partial

    # ---- inside

    def _begin_deferred(self, partial: PartialMatches) -> None:
        """Begin the matches that another automaton has deferred, as if their events had come to this one."""
        later = PartialMatches()
        for number, event, timestamp, bits in partial.deferred:
            if number > max(partial.families, default=-1):
                later.number = number
                for completed in self._step(later, event, timestamp, bits, processing_time=0):
                    insort_right(later.completed, completed, key=_FIRST)
        for number, (start_time, runs) in later.families.items():
            partial.add(number, start_time, runs)
        for end_ms, number in later.gaps:
            partial.limit_gap(end_ms, number)
        partial.completed += later.completed
        partial.deferred.clear()

    def _completed(
        self, partial: PartialMatches, ends: Sequence[int | None], event: T, timestamp: int
    ) -> list[Match[T]]:
        """Return the matches that an event completes which does nothing else: see `MoveTable.plain_ends`."""
        here, families = partial.number, partial.families
        partial.number = here + 1
        matches: list[Match[T]] = []
        for number in partial.changed_by(ends, None):
            family = families[number]
            after: list[Run] = []
            for run in family[1]:
                step = ends[run[0]]
                if step is None:
                    after.append(run)
                else:
                    matches.append(self.match((run[1], step, event, here, timestamp)))
            if len(after) < len(family[1]):
                partial.replace(number, family, after)
        return matches

    def _step(
        self,
        partial: PartialMatches,
        event: T,
        timestamp: int,
        bits: int,
        *,
        processing_time: int,
        begins: bool = True,
    ) -> list[Completed]:
        """Take each run along the event, begin a family if `begins`, and return what is complete."""
        row = self._rows.get(bits) or self.moves.row(bits)
        done: list[Completed] = []
        if row is self._idle:
            return done
        families, here = partial.families, partial.number
        # An event that only begins matches leaves the others as they are.
        if families and bits not in self.moves.only_begin:
            for number in partial.changed_by(row, UNCHANGED):
                done += self._moved(partial, number, row, (event, here, timestamp, processing_time))
        moves = row[0]
        if begins and moves is not UNCHANGED:
            done += self._begin(partial, moves, (event, here, timestamp, processing_time))
        return done

    def _moved(
        self, partial: PartialMatches, number: int, row: Sequence[Decision], arrival: Arrival
    ) -> Sequence[Completed]:
        """Take the runs of a family along an event, and return what is complete."""
        family = partial.families[number]
        runs = family[1]
        if len(runs) == 1 and row[runs[0][0]] is UNCHANGED:
            return ()
        done: list[Completed] = []
        event, here, timestamp, _ = arrival
        accumulate = self._accumulate
        after: list[Run] = []
        changed = False
        for run in runs:
            moves = row[run[0]]
            if isinstance(moves, Ask):
                moves = self._answered(moves, run[1], arrival)
            if moves is UNCHANGED:
                after.append(run)
                continue
            changed = True
            node = run[1]
            for step, target, completes in moves:
                if step < 0:
                    last = node
                elif accumulate is None:
                    last = (node, step, event, here, timestamp)
                else:
                    last = (node, step, event, here, timestamp, accumulate(node, step, event))
                if target >= 0:
                    after.append((target, last))
                if completes:
                    done.append((number, last))
        if changed:
            partial.replace(number, family, after)
            if self._has_gaps and after:
                self._limit_gaps(partial, number, after, runs)
        return done

    def _begin(self, partial: PartialMatches, decision: Decision, arrival: Arrival) -> list[Completed]:
        """Start the matches that begin with the event, and return those that are complete with it."""
        if isinstance(decision, Ask):
            decision = beginnings(self._answered(decision, None, arrival))
        event, number, timestamp, _ = arrival
        runs: list[Run] = []
        done: list[Completed] = []
        for step, target, completes in decision:
            node: Node = (None, step, event, number, timestamp)
            if self._accumulate is not None:
                node = (*node, self._accumulate(None, step, event))
            if target != ENDS:
                runs.append((target, node))
            if completes:
                done.append((number, node))
        if runs:
            partial.add(number, timestamp, runs)
            if self.window_ms is not None and timestamp + self.window_ms < partial.deadline_ms:
                partial.deadline_ms = timestamp + self.window_ms
            if self._has_gaps:
                self._limit_gaps(partial, number, runs, ())
        return done

    def _answered(self, decision: Decision, node: Node | None, arrival: Arrival) -> Moves:
        """Evaluate iterative conditions until the moves are known."""
        event, _, timestamp, processing_time = arrival
        while isinstance(decision, Ask):
            last = node
            if decision.taken != PASSES_OVER:
                last = (node, decision.taken, event, -1, timestamp)
                if self._accumulate is not None:
                    last = (*last, self._accumulate(node, decision.taken, event))
            context = MatchContext(self.step_names, last, timestamp, processing_time, zeros=self._zeros)
            decision = decision.answer(bool(self._iterative[decision.condition](event, context)))
        return decision

    def _limit_gaps(self, partial: PartialMatches, number: int, runs: Sequence[Run], known: Sequence[Run]) -> None:
        """Note the ends of the times between two events, for the runs that are not among those that were there."""
        present = {id(run) for run in known}
        for run in runs:
            if (gap_ms := self._closes_ms[run[0]]) is not None and id(run) not in present:
                partial.limit_gap(run[1][4] + gap_ms, number)

    def _end_gap(self, partial: PartialMatches, end_ms: int, number: int) -> tuple[list[Completed], list[Timeout[T]]]:
        """Change the runs of a family whose time since the event before ends, as `gaps` describes."""
        done: list[Completed] = []
        timeouts: list[Timeout[T]] = []
        family = partial.families.get(number)
        if family is None or (self.window_ms is not None and family[0] + self.window_ms < end_ms):
            return done, timeouts
        after: list[Run] = []
        changed = False
        for run in family[1]:
            state, node = run
            gap_ms = self._closes_ms[state]
            if gap_ms is None or node[4] + gap_ms != end_ms:
                after.append(run)
                continue
            changed = True
            if (target := self._closed[state]) is not None:
                after.append((target, node))
                if (further_ms := self._closes_ms[target]) is not None:
                    partial.limit_gap(node[4] + further_ms, number)
            elif self._pending[state]:
                done.append((number, node))
            elif not self._discarded[state]:
                timeouts.append((self._timed_out(node), end_ms))
        if changed:
            partial.replace(number, family, after)
        return done, timeouts

    def discard_oldest(self, partial: PartialMatches, most: int) -> tuple[int, list[Match[T]]]:
        """Bound the partial matches of a key: see `PartialMatches.discard_oldest`.

        Returns:
            How many were discarded, and the complete matches that waited for them.
        """
        discarded = partial.discard_oldest(most)
        matches = self._released(partial, []) if partial.completed else []
        partial.find_deadline(self.window_ms)
        return discarded, matches

    def _released(self, partial: PartialMatches, done: list[Completed]) -> list[Match[T]]:
        """Return the complete matches whose turn it is, and discard what they make the skip strategy discard."""
        if not self.skip.skips:
            if partial.completed:
                # They waited under another strategy.
                done, partial.completed = [*partial.completed, *done], []
            if len(done) > 1:
                done.sort(key=_FIRST)
            return [self.match(node) for _, node in done]
        for completed in done:
            insort_right(partial.completed, completed, key=_FIRST)
        matches: list[Match[T]] = []
        waiting, position = partial.completed, 0
        while position < len(waiting):
            number, node = waiting[position]
            if partial.families and next(iter(partial.families)) < number:
                break
            matches.append(self.match(node))
            last = self.skip.last_discarded((self.step_names[step], event) for step, event in path_of(node))
            if last >= 0:
                partial.discard_up_to(last)
            position = bisect_right(waiting, last, lo=position + 1, key=_FIRST)
        del waiting[:position]
        return matches
