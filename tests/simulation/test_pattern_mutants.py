"""Mutation tests of patterns: some seed must find each deliberate fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.simulation.test_patterns import (
    PATTERNS,
    run,
    run_columns,
    run_no_more_skipping,
    run_other_skipping,
    run_queried,
    run_removed_rule,
    run_rules,
    run_shorter_times,
)
from tests.unit.cep.oracle import check_random_patterns

from penstock.cep import deferred_starts
from penstock.cep.automaton import Automaton
from penstock.cep.condition_index import ConditionIndex
from penstock.cep.deferred_loops import LoopDeferringAutomaton
from penstock.cep.move_table import MoveTable
from penstock.cep.operators.column_bits import ColumnBits, NeededRows
from penstock.cep.operators.deadlines import Deadlines
from penstock.cep.operators.dynamic_operator import DynamicCepOperator
from penstock.cep.operators.event_buffer import EventBuffer
from penstock.cep.operators.key_states import KeyStates, KeyTimers
from penstock.cep.operators.pattern_filter import PatternFilterOperator
from penstock.cep.operators.queryable_matches import QueryableMatches
from penstock.cep.partial_matches import PartialMatches

pytestmark = pytest.mark.simulation


def events_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Snapshots lack the events that wait for the watermark."""
    patch.setattr(EventBuffer, "store", lambda self, table: None)


def events_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """Events that a snapshot has are not read."""
    patch.setattr(EventBuffer, "restore", lambda self, entries, bits: None)


def partial_matches_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Snapshots lack the partial matches that have changed since the last one."""
    patch.setattr(KeyStates, "store", lambda self: None)


def partial_matches_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A key that was stored begins again."""
    patch.setattr(KeyStates, "other", lambda self, key: None)


def partial_matches_stay_stored(patch: pytest.MonkeyPatch) -> None:
    """A key without partial matches stays in snapshots."""
    patch.setattr(KeyStates, "drop", lambda self, key: self.live.pop(key))


def the_filter_drops_what_begins_no_match(patch: pytest.MonkeyPatch) -> None:
    """Events that only a later step takes are dropped before the exchange."""
    patch.setattr(PatternFilterOperator, "may_drop", lambda self, bits: not self.automaton.moves.begins(bits))


def deadlines_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """Time limits of keys that are in use end only with the key's next event."""
    patch.setattr(Deadlines, "add", lambda self, deadline_ms, key: None)


def stored_keys_have_no_timers(patch: pytest.MonkeyPatch) -> None:
    """Time limits of keys that are restored end only with the key's next event."""
    patch.setattr(KeyTimers, "register", lambda self, key, time_ms: None)


def columns_keep_what_begins_a_match(patch: pytest.MonkeyPatch) -> None:
    """Rows that only a later step takes are left out."""
    patch.setattr(NeededRows, "mask", lambda self, bits: bits & 1 == 1)


def columns_mix_up_their_bits(patch: pytest.MonkeyPatch) -> None:
    """A row has the bits of another condition, where a chunk has many rows."""
    of = ColumnBits.of
    patch.setattr(ColumnBits, "of", lambda self, batch: 3 - of(self, batch))


def rules_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """After a restart the rules that had come are gone, until a next version comes."""
    open_patterns = DynamicCepOperator.open_patterns

    def forgets(self: DynamicCepOperator, is_restored: bool) -> None:
        open_patterns(self, is_restored)
        self.rules.clear()

    patch.setattr(DynamicCepOperator, "open_patterns", forgets)


def a_next_version_begins_again(patch: pytest.MonkeyPatch) -> None:
    """Partial matches of a rule end with its version."""
    process_rules = DynamicCepOperator.process_rules

    def forgets(self: DynamicCepOperator, chunk: Any) -> bool:
        for matching in self.matchings():
            matching.states.live.clear()
        return process_rules(self, chunk)

    patch.setattr(DynamicCepOperator, "process_rules", forgets)


def timers_are_not_set_again(patch: pytest.MonkeyPatch) -> None:
    """Under another limit of time, keys without further events keep the timers that they had, or none."""
    patch.setattr(KeyStates, "set_timers_again", lambda self: None)


def a_removed_rule_keeps_its_timers(patch: pytest.MonkeyPatch) -> None:
    """Timers of a rule that is gone stay until they fire."""
    patch.setattr(KeyTimers, "clear", lambda self: None)


def keys_of_partial_matches_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """A rule does not get the events that are only gaps, which end strict matches."""

    def begin(self: KeyStates, key: Any) -> PartialMatches:
        partial = self.live[key] = PartialMatches()
        return partial

    patch.setattr(KeyStates, "begin", begin)


def conditions_of_rules_are_mixed_up(patch: pytest.MonkeyPatch) -> None:
    """An event meets a condition of one rule, and counts for another one."""
    met = ConditionIndex.met

    def shifted(self: ConditionIndex, event: Any) -> Any:
        conditions, failures = met(self, event)
        return conditions >> 1, failures

    patch.setattr(ConditionIndex, "met", shifted)


def deferred_events_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Events that may begin a match, or belong to it, are lost if they wait for the end of another match."""
    dumped = PartialMatches.dumped
    patch.setattr(PartialMatches, "dumped", lambda self: (*dumped(self)[:-1], ()))


def open_matches_of_another_automaton_are_followed_alone(patch: pytest.MonkeyPatch) -> None:
    """Open matches that came without their events are followed as if the events were there."""
    patch.setattr(deferred_starts, "_is_followed_plainly", lambda partial: False)


def events_that_another_automaton_deferred_begin_nothing(patch: pytest.MonkeyPatch) -> None:
    """Where a pattern no longer defers events, those that were deferred are forgotten."""
    patch.setattr(Automaton, "_begin_deferred", lambda self, partial: partial.deferred.clear())


def the_next_match_does_not_begin(patch: pytest.MonkeyPatch) -> None:
    """When the match at the front ends, those that wait for it stay deferred."""
    patch.setattr(LoopDeferringAutomaton, "_begun", lambda self, partial, processing_time: [])


def followers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A match that was deferred begins without the events since."""
    follow = LoopDeferringAutomaton._follow_next

    def forgets(self: LoopDeferringAutomaton[Any], partial: PartialMatches, now_ms: int, to_end: bool) -> Any:
        partial.followers.clear()
        return follow(self, partial, now_ms, to_end)

    patch.setattr(LoopDeferringAutomaton, "_follow_next", forgets)


def one_event_completes_one_match(patch: pytest.MonkeyPatch) -> None:
    """An event that completes several matches completes the first one."""
    completed = Automaton._completed
    patch.setattr(Automaton, "_completed", lambda self, *arguments: completed(self, *arguments)[:1])


def what_only_begins_a_match_ends_others(patch: pytest.MonkeyPatch) -> None:
    """An event that begins a match takes the place of those that are open."""
    add = PartialMatches.add

    def alone(self: PartialMatches, number: int, start_time: int, runs: Any) -> None:
        self.families.clear()
        self.runs = 0
        add(self, number, start_time, runs)

    patch.setattr(PartialMatches, "add", alone)


def splitting_events_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """Events that move a partial match are dropped as if they had no effect."""
    patch.setattr(MoveTable, "is_passed_over", lambda self, bits: not self.begins(bits) and bits not in self.plain_ends)


def states_that_serve_another_key_remember_the_first(patch: pytest.MonkeyPatch) -> None:
    """The state of a key that ended serves another one as it is."""
    patch.setattr(PartialMatches, "is_as_new", lambda self: True)


def live_queries_read_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A live query does not know of keys that have changed since the last snapshot."""
    patch.setattr(QueryableMatches, "places", lambda self, keys: iter(()))
    patch.setattr(QueryableMatches, "has", lambda self, place: False)


def ended_keys_stay_queryable(patch: pytest.MonkeyPatch) -> None:
    """Snapshots keep what was written for queries of keys that have ended."""
    patch.setattr(QueryableMatches, "discard_all", lambda self, places: None)


def run_loop(seed: int) -> None:
    """Run the pattern that defers events while a match is open."""
    run("deferring", seed)


def run_one(seed: int) -> None:
    """Run one of the patterns on rows: of those for which seeds are known."""
    names = [name for name in PATTERNS if name != "deferring"]
    run(names[seed % len(names)], seed)


def run_one_on_columns(seed: int) -> None:
    """Run one of the patterns on columns."""
    run_columns(["relaxed", "strict", "without"][seed % 3], seed)


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], Any]]] = [
    (events_are_not_stored, run_one),
    (events_are_not_restored, run_one),
    (partial_matches_are_not_stored, run_one),
    (partial_matches_are_not_restored, run_one),
    (partial_matches_stay_stored, run_one),
    (the_filter_drops_what_begins_no_match, run_one),
    (deadlines_are_not_noted, run_one),
    (stored_keys_have_no_timers, run_one),
    (columns_keep_what_begins_a_match, run_one_on_columns),
    (columns_mix_up_their_bits, run_one_on_columns),
    (rules_are_not_restored, run_rules),
    (a_next_version_begins_again, run_rules),
    (deferred_events_are_not_stored, run_loop),
    (timers_are_not_set_again, run_shorter_times),
    (a_removed_rule_keeps_its_timers, run_removed_rule),
    (keys_of_partial_matches_are_not_noted, run_rules),
    (conditions_of_rules_are_mixed_up, run_rules),
    (open_matches_of_another_automaton_are_followed_alone, run_other_skipping),
    (events_that_another_automaton_deferred_begin_nothing, run_no_more_skipping),
    (the_next_match_does_not_begin, run_loop),
    (followers_are_forgotten, run_loop),
    (one_event_completes_one_match, check_random_patterns),
    (what_only_begins_a_match_ends_others, check_random_patterns),
    (splitting_events_are_dropped, run_one),
    (states_that_serve_another_key_remember_the_first, run_one),
    (live_queries_read_the_snapshot, run_queried),
    (ended_keys_stay_queryable, run_queried),
]
IN_OTHER_PROGRAMS: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], Any]]] = [
    (events_are_not_restored, run_one_on_columns),
    (partial_matches_are_not_stored, run_rules),
    (stored_keys_have_no_timers, run_rules),
    (stored_keys_have_no_timers, run_shorter_times),
]
"""Faults that one of the programs above finds, in others."""
FIRST: dict[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], Any]], int] = {
    (deferred_events_are_not_stored, run_loop): 52,
    (a_next_version_begins_again, run_rules): 9,
    (partial_matches_are_not_stored, run_rules): 9,
    (stored_keys_have_no_timers, run_rules): 9,
    (open_matches_of_another_automaton_are_followed_alone, run_other_skipping): 15,
    (events_that_another_automaton_deferred_begin_nothing, run_no_more_skipping): 2,
    (states_that_serve_another_key_remember_the_first, run_one): 2,
    (live_queries_read_the_snapshot, run_queried): 4,
    (ended_keys_stay_queryable, run_queried): 4,
}
"""The seed that is known to find the fault, if it is not the first one. The search begins there."""


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "run_a_job"), first_of(len(FAULTS), [*FAULTS, *IN_OTHER_PROGRAMS]))
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], run_a_job: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would pass an operator that loses matches, and its result would be worthless."""
    fault(monkeypatch)
    first = FIRST.get((fault, run_a_job), 1)
    for seed in range(first, first + 60):
        try:
            run_a_job(seed)
        except AssertionError:
            return
    pytest.fail("all programs succeeded despite the fault")
