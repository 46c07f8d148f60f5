"""Which events may be between those of a match: strict, relaxed, any; not-steps."""

from __future__ import annotations

from tests.unit.cep.letters import Play, play

from penstock.cep import Pattern


def test_next_takes_the_very_next_event() -> None:
    """A user who asks for two events in a row would get matches with others between them."""
    assert play(Pattern.begin("a").next("b"), "a1 b1 a2 x1 b2 a3 b3") == ["a1 b1", "a3 b3"]


def test_followed_by_takes_the_first_event_that_fits() -> None:
    """A user would get no match as soon as an unrelated event comes, or a match per event that fits."""
    assert play(Pattern.begin("a").followed_by("b"), "a1 x1 b1 b2") == ["a1 b1"]


def test_followed_by_any_takes_each_event_that_fits() -> None:
    """A user would miss all matches but the first one."""
    assert play(Pattern.begin("a").followed_by_any("b"), "a1 x1 b1 b2") == ["a1 b1", "a1 b2"]


def test_a_match_that_took_an_event_comes_before_one_that_passed_it_over() -> None:
    """The order of matches that one event completes would depend on a heap, as in Flink."""
    pattern = Pattern.begin("a").followed_by_any("b").followed_by_any("c").followed_by("d")

    assert play(pattern, "a1 b1 b2 c1 c2 d1") == [
        *("a1 b1 c1 d1", "a1 b1 c2 d1", "a1 b2 c1 d1", "a1 b2 c2 d1"),
    ]


def test_each_event_that_fits_the_first_step_begins_a_match() -> None:
    """Overlapping matches would be lost."""
    assert play(Pattern.begin("a").followed_by("b"), "a1 a2 b1") == ["a1 b1", "a2 b1"]


def test_not_next_discards_if_the_next_event_fits() -> None:
    """A match that must not be followed at once would be reported."""
    pattern = Pattern.begin("a").not_next("n").followed_by("b")

    assert play(pattern, "a1 n1 b1 a2 x1 n2 b2") == ["a2 b2"]


def test_not_next_at_the_end_waits_for_one_event() -> None:
    """A match would be reported before it is known what comes next."""
    assert play(Pattern.begin("a").not_next("n"), "a1 n1 a2 x1") == ["a2"]


def test_not_followed_by_discards_if_an_event_fits_before_the_next_step() -> None:
    """A match with the forbidden event in it would be reported."""
    pattern = Pattern.begin("a").not_followed_by("n").followed_by("b")

    assert play(pattern, "a1 x1 n1 b1 a2 x2 b2 n2") == ["a2 b2"]


def test_an_optional_step_that_took_an_event_ends_the_not_step_before_it() -> None:
    """`a c n b` would be refused, although the forbidden event comes behind c."""
    pattern = Pattern.begin("a").not_followed_by("n").followed_by("c").optional().followed_by("b")

    assert play(pattern, "a1 c1 n1 b1") == ["a1 c1 b1"]
    assert play(pattern, "a1 x1 n1 c1 b1") == []


def test_not_followed_by_at_the_end_is_complete_when_its_time_is_over() -> None:
    """A ship that goes dark would be reported late, or never."""
    game = Play(Pattern.begin("a").not_followed_by("n").within(10))

    assert game.feed("a1@1 a2@4 n1@12") == ["a1"]
    assert game.until(100) == []
    assert game.timeouts == []


def test_a_window_on_an_earlier_step_makes_a_final_not_step_wait() -> None:
    """Flink forgets the not-step then, and reports each `a` at once."""
    game = Play(Pattern.begin("a").within(10).not_followed_by("n"))

    assert game.feed("a1@1") == []
    assert game.until(11) == ["a1"]
