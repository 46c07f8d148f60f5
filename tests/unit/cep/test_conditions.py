"""Conditions: how often they are called, what they see, and which bits they become."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from tests.unit.cep.letters import Play, play

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.cep import (
    CEP,
    IterativeCondition,
    MalformedPatternError,
    Pattern,
    RichIterativeCondition,
    SimpleCondition,
    field,
)
from penstock.cep.automaton import Automaton
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.testing import OperatorHarness


def test_a_simple_condition_is_called_once_per_event() -> None:
    """The price of a condition would grow with the number of partial matches."""
    calls: list[str] = []
    pattern = Pattern.begin("a").followed_by("b").where(lambda e: calls.append(e) or e[0] == "b")

    assert play(pattern, "a1 a2 a3 x1 b1") == ["a1 b1", "a2 b1", "a3 b1"]
    assert calls == ["a1", "a2", "a3", "x1", "b1"]


def test_an_iterative_condition_is_called_once_per_event_and_partial_match() -> None:
    """A slow condition would be paid twice, as in Flink."""
    calls: list[tuple[str, str]] = []

    def later(event: str, ctx: Any) -> bool:
        (before,) = ctx.get_events_for_pattern("a")
        calls.append((before, event))
        return event[0] == "b"

    assert play(Pattern.begin("a").followed_by("b").where(later), "a1 x1 a2 b1") == ["a1 b1", "a2 b1"]
    assert calls == [("a1", "x1"), ("a1", "a2"), ("a1", "b1"), ("a2", "b1")]


def test_an_iterative_condition_is_not_called_if_a_simple_one_decides() -> None:
    """`where(kind == 'b').where(compare)` would compare events of other kinds."""
    calls: list[str] = []
    pattern = (
        Pattern.begin("a").followed_by("b").where(lambda e: e[0] == "b").where(lambda e, ctx: calls.append(e) or True)
    )

    assert play(pattern, "a1 x1 x2 b1") == ["a1 b1"]
    assert calls == ["b1"]


def test_the_context_shows_the_match_without_the_event() -> None:
    """A sum over a loop would count the event twice."""
    seen: list[tuple[list[str], int, int]] = []

    def rising(event: str, ctx: Any) -> bool:
        before = ctx.get_events_for_pattern("a")
        seen.append((list(before), ctx.timestamp(), ctx.current_processing_time()))
        return event[0] == "a" and (not before or event > before[-1])

    game = Play(Pattern.begin("a").where(rising).times_or_more(2).consecutive())

    assert game.feed("a2@5 a1@6 a3@7", processing_time=99) == ["a1 a3"]
    assert seen[0] == ([], 5, 99)
    assert (["a1"], 7, 99) in seen


def test_an_unknown_step_in_a_condition_is_an_error() -> None:
    """A typing error would look like a step that took no event."""
    pattern = Pattern.begin("a").followed_by("b").where(lambda e, ctx: bool(ctx.get_events_for_pattern("A")))

    with pytest.raises(ValueError, match="no step 'A', only a, b"):
        play(pattern, "a1 b1")


@pytest.mark.parametrize("contiguity", ["not_followed_by", "not_next"])
def test_a_condition_of_a_not_step_sees_the_step_before(contiguity: str) -> None:
    """Flink evaluates it for the event that was just taken, without that event: `[0]` raises (FLINK-15964)."""

    def same(event: str, ctx: Any) -> bool:
        return event[0] == "n" and event[1] == ctx.get_events_for_pattern("a")[0][1]

    pattern = getattr(Pattern.begin("a"), contiguity)("n").where(same).followed_by("b")

    assert play(pattern, "a1 n2 b1") == ["a1 b1"]
    assert play(pattern, "a1 n1 b1") == []


def test_a_condition_of_a_not_step_is_not_called_for_the_event_before_it() -> None:
    """A condition would be called for an event that cannot meet it, with a match that it does not expect."""
    calls: list[str] = []
    pattern = Pattern.begin("a").not_followed_by("n").where(lambda e, ctx: calls.append(e) or False)
    pattern = pattern.followed_by("b").optional().followed_by("c").optional()

    assert play(pattern, "a1 x1") == ["a1"]
    assert set(calls) == {"x1"}


def test_a_condition_behind_a_not_step_sees_the_event_just_taken() -> None:
    """The check whether a match is complete would raise in the user's condition, as in Flink."""
    pattern = (
        Pattern.begin("a")
        .not_next("n")
        .where(lambda e, ctx: ctx.get_events_for_pattern("a")[0] == e.replace("n", "a"))
        .followed_by("b")
        .optional()
    )

    assert play(pattern, "a1 x1 b1") == ["a1 b1"]


def test_a_condition_may_be_a_bound_method_and_a_subtype() -> None:
    """A user's own class of conditions would be refused."""

    class Longer:
        def __init__(self, than: int) -> None:
            self.than = than

        def __call__(self, event: str) -> bool:
            return len(event) > self.than

    pattern = Pattern.begin("a").subtype(str).where(Longer(2)).or_(lambda e: e == "a")

    assert play(pattern, "a1 a22 a") == ["a22", "a"]


def test_simple_parts_of_a_condition_become_one_bit() -> None:
    """Columns could not be used for the simple part of a condition, or each part would be a pass of its own."""
    pattern = (
        Pattern.begin("a")
        .where(field("x") > 1)
        .where(field("y") > 2)
        .where(lambda e, ctx: True)
        .followed_by("b")
        .where(lambda e: e["x"] == 0)
        .followed_by("c")
    )
    automaton = Automaton(pattern)

    assert [repr(predicate) for predicate in automaton.predicates] == ["(x > 1 and y > 2)", "None"]
    assert automaton.predicate_texts == ("x > 1 and y > 2", "λ(e)")
    events = [{"x": 2, "y": 3}, {"x": 2, "y": 2}, {"x": 0, "y": 9}, {"x": None, "y": 9}]
    assert automaton.bits_of_chunk(events) == [automaton.bits(event) for event in events] == [1, 0, 2, 0]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_bits_of_a_chunk_are_those_of_its_events(count: int) -> None:
    """Events would be matched differently when they come in chunks."""
    pattern: Any = Pattern.begin("s0")
    for number in range(count):
        pattern = pattern.followed_by(f"s{number + 1}").where(lambda e, number=number: e % (number + 2) == 0)
    automaton = Automaton(pattern)

    expected = [sum(1 << number for number in range(count) if event % (number + 2) == 0) for event in range(12)]
    assert automaton.bits_of_chunk(range(12)) == [automaton.bits(event) for event in range(12)] == expected


def test_events_that_change_nothing_are_known() -> None:
    """Rows that matter to no step could not be dropped before the exchange."""
    relaxed = Automaton(Pattern.begin("a").where(lambda e: e == "a").followed_by("b").where(lambda e: e == "b"))
    strict = Automaton(Pattern.begin("a").where(lambda e: e == "a").next("b").where(lambda e: e == "b"))
    any_event = Automaton(Pattern.begin("a").where(lambda e: e == "a").next("b"))

    bits = relaxed.bits("x")
    assert [automaton.moves.is_passed_over(bits) for automaton in (relaxed, strict, any_event)] == [True, False, False]
    assert [relaxed.moves.begins(relaxed.bits(event)) for event in "abx"] == [True, False, False]


class Longer(SimpleCondition[str]):
    def __init__(self, than: int) -> None:
        self.than = than

    def filter(self, value: str) -> bool:
        return len(value) > self.than


class After(IterativeCondition[str]):
    def filter(self, value: str, ctx: Any) -> bool:
        return all(value > before for before in ctx.get_events_for_pattern("a"))


def test_conditions_may_be_objects_of_flinks_classes() -> None:
    """A program that comes from Flink would have to be written anew."""
    pattern = Pattern.begin("a").where(Longer(2)).followed_by("b").where(Longer(2)).where(After())
    assert play(pattern, "a12 a1 a11 a13") == ["a12 a13", "a11 a13"]
    automaton = Automaton(pattern)
    assert automaton.predicate_texts[0] == "Longer(e)" and "After(e, ctx)" in pattern.draw()
    assert automaton.rich_conditions == ()


class Known(RichIterativeCondition[str]):
    """Holds for events of a table that `open` reads; and what happens to it."""

    happened: ClassVar[list[str]] = []

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def open(self, runtime_context: Any) -> None:
        self.names = {"a", "b"}
        self.asked = runtime_context.get_metrics_group().counter("asked")
        self.happened.append(f"open {runtime_context.get_index_of_this_subtask()}")
        if self.fails:
            runtime_context.get_state(ValueStateDescriptor("s"))

    def filter(self, value: str, ctx: Any) -> bool:
        self.asked.inc()
        return value in self.names

    def close(self) -> None:
        self.happened.append("close")


def test_a_rich_condition_is_opened_before_the_first_event_and_closed() -> None:
    """A condition could not read a table, or connect to a service, or its connection would stay open."""
    Known.happened.clear()
    one = Known()
    pattern = Pattern.begin("a").where(lambda e: e != "x").where(one).next("b").where(one).or_(lambda e: e == "c")
    with OperatorHarness(
        lambda events: CEP.pattern(events.key_by(lambda _: 0), pattern).select(lambda m: "".join(map(str, m.values())))
    ) as harness:
        for at, event in enumerate("axabxc"):
            harness.push(event, timestamp=at)
        harness.watermark(9)
        assert harness.outputs() == ["['a']['b']"]
        assert Known.happened == ["open 0"]
    assert Known.happened == ["open 0", "close"]


def test_a_rich_condition_has_no_state() -> None:
    """State of a condition would be that of any key."""
    pattern = Pattern.begin("a").where(Known(fails=True))
    with (
        pytest.raises((ProgramError, UserFunctionError), match="state"),
        OperatorHarness(lambda events: CEP.pattern(events.key_by(lambda _: 0), pattern).select(len)),
    ):
        pass


def test_a_condition_that_is_a_class_or_makes_a_generator_is_refused() -> None:
    """A class would be called as a condition: its objects are true."""

    class Yields(SimpleCondition[str]):
        def filter(self, value: str) -> Any:
            yield value

    for given in (Longer, Yields()):
        with pytest.raises(MalformedPatternError):
            Pattern.begin("a").where(given)  # type: ignore[arg-type]
