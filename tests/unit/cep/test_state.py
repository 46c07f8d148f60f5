"""The state of a key: what it costs, how it is written and read, and how it goes on under a changed pattern."""

from __future__ import annotations

import gc
import pickle
import random
from typing import Any

import pytest
from tests.unit.cep.letters import Play, letters, play, shown
from tests.unit.cep.oracle import random_pattern

from penstock.cep import AfterMatchSkipStrategy, Pattern, WithinType
from penstock.cep.automata import automaton_of
from penstock.cep.automaton import Automaton
from penstock.cep.changed_patterns import translated
from penstock.cep.partial_matches import SMALL


def written_and_read(game: Play, automaton: Automaton[Any] | None = None) -> Play:
    """The same key after a restart, with the same automaton or that of a changed pattern."""
    value = pickle.loads(pickle.dumps(game.partial.dumped()))
    copy = Play(game.automaton.pattern, automaton or game.automaton)
    if automaton is not None:
        value = translated(value, game.automaton.state_names, game.automaton.step_names, automaton)
    copy.partial = copy.automaton.load(value)
    copy.now = game.now
    copy.timeouts = list(game.timeouts)
    return copy


def test_a_key_without_partial_matches_keeps_nothing() -> None:
    """State would grow with each key ever seen (FLINK-32701, FLINK-40237)."""
    game = Play(Pattern.begin("a").followed_by("b").within(10))

    for events, kept in (("x1", False), ("a1", True), ("b1", False), ("a2@100 x2@110", False)):
        game.feed(events)
        assert bool(game.partial) is kept


def test_a_snapshot_is_flat_and_has_each_event_once() -> None:
    """A long match could not be written (FLINK-12319: a stack overflow), or would be written once per branch."""
    game = Play(Pattern.begin("a").followed_by("b").one_or_more().followed_by("c"))
    game.feed("a1 " + " ".join(f"b{number}" for number in range(3_000)))

    value = game.partial.dumped()
    _, events, nodes, families, _, _ = value
    assert (len(events), len(nodes), len(families)) == (3_001, 3_001, 1)
    assert len(written_and_read(game).feed("c1")) == 3_000


def test_events_are_freed_with_the_last_partial_match_that_needs_them() -> None:
    """A stream that ends loops again and again would fill memory."""

    class Event(str):
        __slots__ = ("__weakref__",)

    game = Play(Pattern.begin("a").followed_by_any("b").next("c"))
    automaton, partial = game.automaton, game.partial
    for number, name in enumerate(["a1", *["b1", "x1"] * 500]):
        automaton.process(partial, Event(name), number, automaton.bits(name))
    del automaton, name

    gc.collect()
    assert sum(isinstance(thing, Event) for thing in gc.get_objects()) <= 1
    assert partial.runs == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_between_any_two_events_changes_nothing(seed: int) -> None:
    """A job that restarts would lose matches, or emit others."""
    chance = random.Random(seed)
    for _ in range(40):
        generated = random_pattern(chance)
        whole = Play(generated.built(), automaton_of(generated.built()))
        restarted = written_and_read(whole)
        for label, time in generated.events:
            event = f"{label}@{time}"
            assert restarted.feed(event) == whole.feed(event)
            restarted = written_and_read(restarted)
        assert restarted.until(1_000) == whole.until(1_000)
        assert sorted(restarted.timeouts) == sorted(whole.timeouts)


def test_a_restart_keeps_complete_matches_that_wait() -> None:
    """A match that waits for an earlier partial match would be lost."""
    strategy = AfterMatchSkipStrategy.skip_to_first("b")
    game = Play(Pattern.begin("b", strategy).one_or_more().followed_by("c").within(10))

    assert game.feed("b1@1 b2@2 c1@3 x1@4") == ["b1 b2 c1", "b1 c1"]
    assert written_and_read(game).until(20) == ["b2 c1"]


def test_many_partial_matches_of_a_key_are_found_by_state() -> None:
    """Each event would visit all partial matches: with 10,000 of them, a few hundred events a second."""
    automaton = automaton_of(letters(Pattern.begin("a").followed_by("b").within(100_000)))
    game = Play(automaton.pattern, automaton)
    game.feed(" ".join(f"a{number}" for number in range(SMALL + 20)))

    nothing: list[None] = [None] * len(automaton.state_names)
    assert list(game.partial.changed_by(nothing, None)) == []
    assert game.feed("b1") == [f"a{number} b1" for number in range(SMALL + 20)]
    assert not game.partial


def test_small_and_large_keys_give_the_same() -> None:
    """Results would depend on how many partial matches a key happens to have."""
    pattern = Pattern.begin("a").followed_by("b").one_or_more().followed_by("c").within(60)
    chance = random.Random(1)
    events = " ".join(f"{chance.choice('aaaabcx')}{number}" for number in range(150))
    small, large = Play(pattern), Play(pattern)
    large.feed("a0@-1000 " * (SMALL + 1))
    large.until(-1)
    large.now = 0
    large.timeouts.clear()

    assert large.feed(events) == small.feed(events)
    assert large.timeouts == small.timeouts


def test_partial_matches_go_on_under_a_changed_condition() -> None:
    """A rule could be changed only by losing what is under way."""
    game = Play(Pattern.begin("a").followed_by("b").followed_by("c").within(10))
    game.feed("a1@1 b1@2")
    changed = letters(Pattern.begin("a").followed_by("b").followed_by("c").where(lambda e: e[0] in "cd").within(50))

    later = written_and_read(game, automaton_of(changed))
    assert later.feed("d1@40") == ["a1 b1 d1"]


def test_partial_matches_go_on_when_a_step_is_added_behind_them() -> None:
    """A longer pattern would restore states of other steps."""
    game = Play(Pattern.begin("a").followed_by("b"))
    game.feed("a1 x1")

    later = written_and_read(game, automaton_of(letters(Pattern.begin("a").followed_by("b").followed_by("c"))))
    assert later.feed("b1 c1") == ["a1 b1 c1"]


def test_partial_matches_of_steps_that_are_gone_are_dropped() -> None:
    """A restored match would have events of a step that the pattern does not have."""
    game = Play(Pattern.begin("a").followed_by("b").followed_by("c"))
    game.feed("a1 a2 b1")

    later = written_and_read(game, automaton_of(letters(Pattern.begin("a").followed_by("c"))))
    assert later.feed("c1") == []
    assert not later.partial


def test_an_automaton_is_sent_by_its_pattern() -> None:
    """A job would be deployed with tables as large as its stream is varied."""
    automaton = Automaton(Pattern.begin("a").where(str.isalpha).next("b").where(str.isdigit))
    copy = pickle.loads(pickle.dumps(automaton))

    assert shown(Play(copy.pattern, copy).automaton.process(copy.load((0, (), (), (), (), ())), "a", 1, 1)) == []
    assert copy.state_names == automaton.state_names


@pytest.mark.parametrize("seed", range(10))
def test_deferred_starts_change_no_result(seed: int) -> None:
    """A strict pattern that skips past the last event would find other matches, or find them later."""
    chance = random.Random(seed)
    strategy = AfterMatchSkipStrategy.skip_past_last_event()
    for _ in range(40):
        pattern: Pattern[str, str] = Pattern.begin("a", strategy)
        for name in ("b", "c", "d")[: chance.randint(0, 3)]:
            fits = chance.choice(["a", "ab", "abc", "bc", name])
            pattern.where(lambda e, fits=fits: e[0] in fits)
            _repeat(chance, pattern)
            pattern = pattern.not_next(f"n{name}").next(name) if _may_forbid(pattern, chance) else pattern.next(name)
        _repeat(chance, pattern)
        if chance.random() < 0.5:
            pattern.within(chance.randint(3, 9))
        fixed = letters(pattern)
        deferring, following = automaton_of(fixed), Automaton(fixed)
        assert type(deferring) is not Automaton
        one, other = Play(fixed, deferring), Play(fixed, following)
        for number in range(30):
            event = f"{chance.choice('aaabbcdnx')}{number}"
            assert one.feed(event) == other.feed(event)
            one = written_and_read(one)
        assert one.until(1_000) == other.until(1_000)
        assert one.timeouts == other.timeouts


def _may_forbid(pattern: Pattern[str, str], chance: random.Random) -> bool:
    return chance.random() < 0.2 and not pattern.steps()[-1].optional


def _repeat(chance: random.Random, pattern: Pattern[str, str]) -> None:
    if chance.random() < 0.5:
        least = chance.randint(1, 2)
        pattern.times(least, chance.choice([least, 3])) if chance.random() < 0.5 else pattern.times_or_more(least)
        pattern.consecutive()
        if chance.random() < 0.5:
            pattern.greedy()
    elif chance.random() < 0.2 and not (pattern._previous and pattern._previous._step.greedy):
        pattern.optional()


def test_a_strict_match_costs_its_length() -> None:
    """`A+ B` on long runs of A would be quadratic: a thousand rows, half a million steps."""
    evaluated: list[str] = []
    strategy = AfterMatchSkipStrategy.skip_past_last_event()
    pattern = (
        Pattern.begin("a", strategy)
        .where(lambda e, ctx: evaluated.append(e) or e[0] == "a")
        .one_or_more()
        .consecutive()
        .greedy()
        .next("b")
    )

    assert len(play(pattern, " ".join([*(f"a{number}" for number in range(500)), "b1"] * 2))) == 2
    assert len(evaluated) == 2 * 501


def test_deferred_events_see_the_processing_time_at_which_they_are_processed() -> None:
    """A condition on processing time would see 1970 when a timeout sets deferred events free."""
    seen: list[int] = []
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).times(3).consecutive().within(10)
    pattern.where(lambda e, ctx: seen.append(ctx.current_processing_time()) or True)
    game = Play(pattern)
    game.feed("a1@1 a2@5", processing_time=7)
    game.automaton.advance_time(game.partial, 11, 8)

    assert seen == [7, 7, 8]


def test_a_window_of_the_previous_event_is_restored() -> None:
    """After a restart, a gap would end with the key's next event only."""
    game = Play(Pattern.begin("a").followed_by("b").within(10, WithinType.PREVIOUS_AND_CURRENT))
    game.feed("a1@1")

    later = written_and_read(game)
    assert later.partial.deadline_ms == 11
    later.until(11)
    assert later.timeouts == [("a1", 11)]


STRICT: Pattern[str, str] = (
    Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(lambda e: e[0] in "ab")
    .one_or_more().consecutive().next("b").where(lambda e: e[0] in "bc")
    .next("c").where(lambda e, ctx: e[0] == "c" and len(ctx.get_events_for_pattern("a")) < 3)
)  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_strict_matches_of_either_automaton_continue_in_the_other(seed: int) -> None:
    """A job or a rule would lose matches when its skip strategy has changed: its automaton is another one then."""
    chance = random.Random(seed)
    pattern = STRICT.copied().within(chance.choice([3, 6, 20]))
    deferring, following = automaton_of(pattern), Automaton(pattern)
    one, other, found = Play(pattern, deferring), Play(pattern, following), 0
    for number in range(150):
        event, at = f"{chance.choice('aaabbbccx')}{number}", one.now + chance.choice([0, 1, 1, 2])
        matches = one.feed(f"{event}@{at}")
        assert matches == other.feed(f"{event}@{at}")
        found += len(matches)
        if chance.random() < 0.3:
            one = written_and_read(one, chance.choice([deferring, following]))
    assert one.until(1_000) == other.until(1_000)
    assert sorted(one.timeouts) == sorted(other.timeouts) and found + len(one.timeouts) > 5


def test_a_strict_match_behind_the_front_times_out_with_it() -> None:
    """A timeout would be missing where a match was held back whose loop goes on until its time is over, too."""
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).one_or_more().consecutive().next("b")
    pattern = pattern.where(lambda e, ctx: e[0] == "b" and len(ctx.get_events_for_pattern("a")) < 3).within(10)
    for automaton in (automaton_of(pattern), Automaton(pattern)):
        game = Play(pattern, automaton)
        assert game.feed("a0@1 a1@1 a2@1 b3@2") == []
        assert game.until(11) == ["a1 a2 b3"]
        assert sorted(game.timeouts) == [("a0 a1 a2 b3", 11), ("a1 a2 b3", 11), ("a2 b3", 11)]


@pytest.mark.parametrize("contiguity", [Pattern.next, Pattern.followed_by])
def test_events_that_were_deferred_behind_a_dropped_match_begin_matches(contiguity: Any) -> None:
    """A match would be found late, or after one that begins behind it."""

    def ends_with(loop: str, last: str) -> Pattern[str, str]:
        found = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(lambda e: e[0] in "ab")
        found = contiguity(found, loop).where(lambda e: e[0] in "bc").one_or_more()
        found = found.consecutive() if contiguity is Pattern.next else found
        return contiguity(found, last).where(lambda e: e[0] == last)

    longer, changed = ends_with("b", "d"), ends_with("e", "c").within(100)
    assert Automaton not in (type(automaton_of(longer)), type(automaton_of(changed)))
    found = 0
    for seed in range(60):
        chance = random.Random(seed)
        game = Play(longer.copied(), automaton_of(longer))
        game.feed(" ".join(f"{chance.choice('aab')}{number}" for number in range(5)))
        one = written_and_read(game, automaton_of(changed))
        other = written_and_read(game, Automaton(changed))
        for number in range(6, 20):
            event = f"{chance.choice('abbc')}{number}"
            # As in a job, time advances only where it ends something.
            matches, expected = (
                shown(game.automaton.process(game.partial, event, number, game.automaton.bits(event)))
                for game in (one, other)
            )
            assert matches == expected
            found += len(matches)
        assert one.until(1_000) == other.until(1_000)
        assert sorted(one.timeouts) == sorted(other.timeouts)
    assert found > 60
