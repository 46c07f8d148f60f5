"""Steps that repeat, are optional, or are groups."""

from __future__ import annotations

from tests.unit.cep.letters import play

from penstock.cep import Pattern


def test_a_loop_gives_each_prefix() -> None:
    """A user would get the longest match only, or the shortest."""
    pattern = Pattern.begin("a").followed_by("b").one_or_more().followed_by("c")

    assert play(pattern, "a1 b1 x1 b2 c1") == ["a1 b1 b2 c1", "a1 b1 c1"]


def test_a_consecutive_loop_ends_at_the_first_other_event() -> None:
    """Repetitions with other events between them would count as a row."""
    pattern = Pattern.begin("a").followed_by("b").one_or_more().consecutive().followed_by("c")

    assert play(pattern, "a1 b1 x1 b2 c1") == ["a1 b1 c1"]


def test_combinations_leave_out_events_that_fit() -> None:
    """A user would miss the matches that skip an event."""
    pattern = Pattern.begin("a").followed_by("b").times(2).allow_combinations()

    assert play(pattern, "a1 b1 b2 b3") == ["a1 b1 b2", "a1 b1 b3"]


def test_a_greedy_loop_takes_what_fits_it() -> None:
    """`b+` would leave events to the next step, whose condition they meet too."""
    pattern = Pattern.begin("a").followed_by("b").one_or_more().greedy().followed_by("c")

    assert play(pattern, "a1 b1 b2 c1") == ["a1 b1 b2 c1"]


def test_greedy_has_no_effect_on_the_last_step() -> None:
    """A user who comes from Flink would get no match before the loop ends."""
    assert play(Pattern.begin("a").followed_by("b").one_or_more().greedy(), "a1 b1 b2") == ["a1 b1", "a1 b1 b2"]


def test_times_counts_exactly_or_between() -> None:
    """A pattern of three failures would be found after two."""
    assert play(Pattern.begin("a").times(3), "a1 a2 a3 a4") == ["a1 a2 a3", "a2 a3 a4"]
    assert play(Pattern.begin("a").times(1, 2).consecutive().next("b"), "a1 a2 b1") == ["a1 a2 b1", "a2 b1"]


def test_times_from_zero_makes_the_step_optional() -> None:
    """`times(0, 2)` would need an event."""
    assert play(Pattern.begin("a").followed_by("b").times(0, 2).followed_by("c"), "a1 c1") == ["a1 c1"]


def test_times_or_more_needs_the_least_number() -> None:
    """A loop would be complete too early."""
    assert play(Pattern.begin("a").times_or_more(2).followed_by("b"), "a1 b1 a2 b2") == ["a1 a2 b2"]


def test_an_optional_step_may_be_left_out() -> None:
    """A user would get matches with the step only, or without it only."""
    pattern = Pattern.begin("a").followed_by("b").optional().followed_by("c")

    assert play(pattern, "a1 b1 c1") == ["a1 b1 c1", "a1 c1"]


def test_a_pattern_of_optional_steps_gives_no_empty_match() -> None:
    """Each event would be reported as a match of nothing."""
    pattern = Pattern.begin("a").optional().followed_by("b").optional()

    assert play(pattern, "x1 a1 b1") == ["a1", "a1 b1", "b1"]


def test_until_ends_a_loop() -> None:
    """A loop would go on past the event that ends it."""
    pattern = Pattern.begin("a").followed_by("b").one_or_more().until(lambda e: e[0] == "u").followed_by("c")

    assert play(pattern, "a1 b1 u1 b2 c1") == ["a1 b1 c1"]


def test_the_event_that_ends_a_loop_may_go_to_the_next_step() -> None:
    """The match would miss the event that ends it."""
    pattern = Pattern.begin("a").followed_by("b").one_or_more().until(lambda e: e[0] == "c").followed_by("c")

    assert play(pattern, "a1 b1 c1 b2") == ["a1 b1 c1"]


def test_the_event_that_ends_a_greedy_loop_may_be_one_that_it_takes() -> None:
    """A greedy loop would keep the event that ends it from the next step."""

    def pattern(until: str) -> Pattern[str, str]:
        loop = Pattern.begin("a").where(lambda e: e[0] in "ac").one_or_more().greedy().until(lambda e: e[0] == until)
        return loop.followed_by("c")

    assert play(pattern("c"), "a1 a2 c1") == ["a1 a2 c1", "a2 c1"]
    assert play(pattern("u"), "a1 c1 u1 c2") == ["a1 c1 c2", "c1 c2"]
    assert play(pattern("u"), "a1 c1 x1") == []


def test_an_optional_greedy_loop_may_be_ended_before_it_begins() -> None:
    """The event that ends the loop would discard a match that has no repetition."""
    loop = Pattern.begin("s").followed_by("a").where(lambda e: e[0] in "ac").one_or_more().greedy().optional()
    pattern = loop.until(lambda e: e[0] == "u").followed_by("c")

    assert play(pattern, "s1 u1 c1") == ["s1 c1"]
    assert play(pattern, "s1 a1 u1 c1") == ["s1 a1 c1"]


def test_a_loop_is_discarded_by_a_not_step_behind_it() -> None:
    """A loop would go on after the forbidden event, and the match with it."""
    pattern = Pattern.begin("a").one_or_more().not_followed_by("n").followed_by("b")

    assert play(pattern, "a1 n1 b1 a2 a3 b2") == ["a2 a3 b2", "a2 b2", "a3 b2"]


def test_until_ends_the_loop_of_a_group() -> None:
    """A group would repeat past the event that ends it."""
    group = Pattern.begin("a").next("b")
    pattern = Pattern.begin("s").followed_by(group).one_or_more().until(lambda e: e[0] == "u").followed_by("e")

    assert play(pattern, "s1 a1 b1 u1 a2 b2 e1") == ["s1 a1 b1 e1"]
    assert play(pattern, "s1 a1 b1 a2 b2 e1") == ["s1 a1 a2 b1 b2 e1", "s1 a1 b1 e1"]


def test_a_group_repeats_as_a_whole() -> None:
    """Events of two repetitions would mix."""
    group = Pattern.begin("a").next("b")

    assert play(Pattern.begin("s").followed_by(group).times(2).followed_by("e"), "s1 a1 b1 x1 a2 b2 e1") == [
        "s1 a1 a2 b1 b2 e1"
    ]


def test_repetitions_of_a_group_have_the_contiguity_of_the_group() -> None:
    """Repetitions with other events between them would count as a row."""
    pattern = Pattern.begin("s").followed_by(Pattern.begin("a").followed_by("b")).times(2).consecutive()

    assert play(pattern, "s1 x1 a1 x2 b1 a2 b2") == ["s1 a1 a2 b1 b2"]
    assert play(pattern, "s1 a1 b1 x1 a2 b2") == []


def test_the_first_step_of_a_group_repeats_as_it_says() -> None:
    """Flink repeats it as the group is repeated: `consecutive` has no effect."""
    pattern = Pattern.begin("s").followed_by(Pattern.begin("a").one_or_more().consecutive().followed_by("b"))

    assert play(pattern, "s1 a1 x1 a2 b1") == ["s1 a1 b1"]


def test_a_group_may_be_optional() -> None:
    """A match without the group would be missing."""
    pattern = Pattern.begin("s").followed_by(Pattern.begin("a").next("b")).optional().followed_by("e")

    assert play(pattern, "s1 a1 b1 e1") == ["s1 a1 b1 e1", "s1 e1"]


def test_a_loop_of_optional_steps_ends() -> None:
    """The job would hang: the group can repeat without an event."""
    group = Pattern.begin("a").optional().followed_by("b").optional()

    assert "s1 a1 e1" in play(Pattern.begin("s").followed_by(group).one_or_more().followed_by("e"), "s1 a1 e1")
