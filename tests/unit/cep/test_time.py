"""Windows of both kinds, gaps between repetitions, deadlines."""

from __future__ import annotations

from tests.unit.cep.letters import Play, play

from penstock.cep import Pattern, WithinType
from penstock.cep.partial_matches import NEVER

PREVIOUS = WithinType.PREVIOUS_AND_CURRENT


def test_a_window_excludes_its_end() -> None:
    """A match that takes exactly the window's length would count."""
    assert play(Pattern.begin("a").followed_by("b").within(10), "a1@1 b1@10 a2@21 b2@31") == ["a1 b1"]


def test_a_partial_match_times_out_at_first_event_and_window() -> None:
    """Orders without a payment would be reported with a wrong time, or without what they have."""
    game = Play(Pattern.begin("a").followed_by("b").followed_by("c").within(10))

    game.feed("a1@1 b1@3")
    game.until(500)
    assert game.timeouts == [("a1 b1", 11)]


def test_the_shortest_window_counts_wherever_it_stands() -> None:
    """A window on the first step would be ignored."""
    game = Play(Pattern.begin("a").within(5).followed_by("b").within(20))

    assert game.feed("a1@1 b1@7") == []
    assert game.timeouts == [("a1", 6)]


def test_a_window_inside_a_group_counts() -> None:
    """A limit that a user has written would have no effect."""
    game = Play(Pattern.begin("a").followed_by(Pattern.begin("b").followed_by("c").within(5)))

    assert game.feed("a1@1 b1@2 c1@6") == []
    assert game.timeouts == [("a1 b1", 6)]


def test_time_since_the_previous_event_is_limited_for_its_step_only() -> None:
    """A gap would be measured from the first event, or limit other steps."""
    pattern = Pattern.begin("a").followed_by("b").within(5, PREVIOUS).followed_by("c")

    assert play(pattern, "a1@1 b1@5 c1@50 a2@60 b2@65 c2@66") == ["a1 b1 c1"]


def test_time_alone_ends_a_gap() -> None:
    """Flink sets no timer: the time-out would come with the key's next event, or never."""
    game = Play(Pattern.begin("a").followed_by("b").within(10, PREVIOUS))

    game.feed("a1@1")
    assert game.partial.deadline_ms == 11
    game.until(11)
    assert game.timeouts == [("a1", 11)]
    assert not game.partial


def test_time_alone_completes_a_final_not_step_with_a_gap() -> None:
    """A ship that goes dark would be reported when it is back."""
    game = Play(Pattern.begin("a").not_followed_by("n").within(10, PREVIOUS))

    assert game.feed("a1@1") == []
    assert game.until(11) == ["a1"]


def test_the_earlier_of_window_and_gap_ends_a_partial_match() -> None:
    """The time of a time-out would depend on how far the watermark jumps."""
    game = Play(Pattern.begin("a").followed_by("b").followed_by("c").within(8, PREVIOUS).within(10))

    game.feed("a1@1 b1@9")
    game.until(100)
    assert game.timeouts == [("a1 b1", 11)]


def test_repetitions_must_be_close() -> None:
    """`times(2, gap)` would accept repetitions of any distance, as Flink 2.3 does."""
    pattern = Pattern.begin("a").times(2, gap=3)

    assert play(pattern, "a1@1 a2@9") == []
    assert play(pattern, "a1@1 a2@3 a3@6") == ["a1 a2"]


def test_each_gap_between_repetitions_counts() -> None:
    """Flink 2.3 checks the first gap of three repetitions, not the second one."""
    game = Play(Pattern.begin("a").times(3, gap=3))

    assert game.feed("a1@1 a2@2 a3@10 a4@11 a5@12") == ["a3 a4 a5"]
    assert ("a1 a2", 5) in game.timeouts


def test_the_gap_between_repetitions_does_not_limit_the_step_before() -> None:
    """Flink 2.3 measures from the step before, and not between the repetitions."""
    pattern = Pattern.begin("s").followed_by("a").times(2, gap=3).followed_by("e")

    assert play(pattern, "s1@1 a1@9 a2@10 e1@50") == ["s1 a1 a2 e1"]
    assert play(pattern, "s1@1 a1@2 a2@10 e1@11") == []


def test_a_loop_ends_when_its_gap_is_over_and_the_match_goes_on() -> None:
    """A partial match would time out, or take a repetition that is too far away."""
    game = Play(Pattern.begin("a").one_or_more(gap=3).followed_by("b"))

    assert game.feed("a1@1 a2@9 b1@10") == ["a1 b1", "a2 b1"]
    assert game.feed("a3@21 x1@22 a4@29 b2@30") == ["a3 b2", "a4 b2"]
    assert game.timeouts == []


def test_a_greedy_loop_lets_go_of_events_that_come_too_late_for_it() -> None:
    """A match would be discarded for an event that the loop can no longer take."""
    pattern = Pattern.begin("a").one_or_more(gap=3).greedy().followed_by("b")

    assert play(pattern, "a1@1 x1@2 a2@9 b1@10") == ["a1 b1", "a2 b1"]


def test_an_optional_step_may_be_left_out_when_its_time_is_over() -> None:
    """The partial match would time out although it needs no event of the step."""
    game = Play(Pattern.begin("a").followed_by("b").optional().within(5, PREVIOUS).followed_by("c"))

    assert game.feed("a1@1 c1@20") == ["a1 c1"]
    assert game.feed("a2@30 x1@31 b1@40 c2@41") == ["a2 c2"]


def test_a_gap_of_a_group_lies_between_its_repetitions() -> None:
    """A limit on the repetitions of a group would have no effect, as in Flink 2.3."""
    pattern = Pattern.begin(Pattern.begin("a").followed_by("b")).times(2, gap=3)

    assert play(pattern, "a1@1 b1@9 a2@10 b2@20") == ["a1 a2 b1 b2"]
    assert play(pattern, "a1@1 b1@2 a2@5 b2@6") == []


def test_time_matters_to_a_key_only_if_a_pattern_limits_it() -> None:
    """A key would be woken for nothing."""
    game = Play(Pattern.begin("a").followed_by("b"))

    game.feed("a1@1")
    assert game.partial.deadline_ms == NEVER
