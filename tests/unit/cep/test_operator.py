"""The operator of a pattern: order, late events, state, timers, bounds, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    EventComparator,
    MalformedPatternError,
    Pattern,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternStream,
    TimedOutPartialMatchHandler,
    WithinType,
    field,
)
from penstock.cep.automata import automaton_of
from penstock.cep.operators.pattern_filter import PatternFilterOperator
from penstock.common.errors import JobError, ProgramError, UserFunctionError
from penstock.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from penstock.engine.runtime.chunks import Rows
from penstock.testing import OperatorHarness

LATE: OutputTag[Any] = OutputTag("late")
TIMED_OUT: OutputTag[Any] = OutputTag("timed out")


def a_then_b(within: int | None = 10) -> Pattern[str, str]:
    """The letter a, and then b."""
    pattern: Pattern[str, str] = Pattern.begin("a")
    pattern = pattern.where(lambda e: e[0] == "a").followed_by("b").where(lambda e: e[0] == "b")
    return pattern if within is None else pattern.within(within)


def shown(match: dict[str, list[str]]) -> str:
    return " ".join(event for events in match.values() for event in events)


def harness(
    pattern: Pattern[str, str] | None = None,
    settings: Callable[[PatternStream[str]], PatternStream[str]] = lambda found: found,
    comparator: Any = None,
    **of_harness: Any,
) -> OperatorHarness:
    """An operator whose keys are the third letters of events."""

    def program(stream: DataStream[Any]) -> DataStream[Any]:
        keyed = stream.key_by(lambda event: event[2:3])
        found = settings(CEP.pattern(keyed, pattern or a_then_b(), comparator))
        return found.select(shown, timed_out_tag=TIMED_OUT, timeout_function=lambda match, time: (shown(match), time))

    return OperatorHarness(program, **of_harness)


def feed(one: OperatorHarness, events: str) -> None:
    for event in events.split():
        letter, _, time = event.partition("@")
        one.push(letter, int(time))


def test_events_are_ordered_by_time() -> None:
    """Disorder would decide which matches there are."""
    with harness() as one:
        feed(one, "b2@4 a1@3 b1@2 x1@1500 a3@1400")
        assert one.outputs() == []
        one.watermark(3)
        one.watermark(4)
        assert one.outputs_with_timestamps() == [("a1 b2", 4)]
        feed(one, "b3@1405")
        one.watermark(2_000)
        assert one.outputs()[1:] == ["a3 b3"]


def test_events_of_one_time_are_ordered_by_the_comparator() -> None:
    """Of two events with one timestamp, the first to arrive would be first."""

    class ByNumber(EventComparator[str]):
        def compare(self, first: str, second: str) -> int:
            return int(first[1]) - int(second[1])

    for comparator in (ByNumber(), lambda first, second: int(first[1]) - int(second[1])):
        with harness(comparator=comparator) as one:
            feed(one, "b2@5 a1@5")
            one.watermark(5)
            assert one.outputs() == ["a1 b2"]


def test_late_events_go_to_their_side_output() -> None:
    """They would be lost without a trace."""
    with harness(settings=lambda found: found.side_output_late_data(LATE)) as one:
        one.watermark(5)
        feed(one, "a1@5 b1@6 a2@4")
        one.watermark(9)
        assert one.side_outputs(LATE) == ["a1", "a2"]
        assert one.outputs() == []
    with harness() as one:
        one.watermark(5)
        feed(one, "a1@5 b1@6")
        assert one.counters.late_records_dropped == 1


def test_a_key_without_partial_matches_has_no_state() -> None:
    """A million keys that are idle would fill the memory."""
    with harness() as one:
        feed(one, "a1k@1 b1k@2 a2l@3 xxm@4")
        one.watermark(4)
        operator: Any = one.operator
        assert list(operator.matching.states.live) == ["l"]
        assert one.timers() == []
        operator.prepare_snapshot(1, False)
        assert [(timer.key, timer.timestamp) for timer in one.timers()] == [("l", 13)]
        assert [key for key, _ in operator.matches_table.items()] == ["l"]
        assert list(operator.events_table.items()) == []
        one.watermark(13)
        operator.prepare_snapshot(2, False)
        assert not operator.matches_table
        assert one.timers() == []


def test_matches_that_have_ended_leave_few_deadlines() -> None:
    """Each match would leave an entry until its window ends, perhaps for days."""
    with harness(a_then_b(within=10_000_000)) as one:
        operator: Any = one.operator
        for number in range(2_000):
            feed(one, f"a{number % 7}@{2 * number} b{number % 7}@{2 * number + 1}")
            one.watermark(2 * number + 1)
        assert len(one.outputs()) == 2_000
        assert operator.matching.states.live == {}
        assert sum(map(len, operator.matching.states.deadlines._keys.values())) <= 257


def test_a_stored_key_that_changes_has_one_timer() -> None:
    """A timer of each state that a snapshot has seen would stay, and fire for nothing."""
    with harness() as one:
        operator: Any = one.operator
        feed(one, "a1k@1")
        one.watermark(1)
        operator.prepare_snapshot(1, False)
        feed(one, "b1k@2 a2k@5")
        one.watermark(5)
        operator.prepare_snapshot(2, False)
        assert [(timer.key, timer.timestamp) for timer in one.timers()] == [("k", 15)]
        feed(one, "b2k@6")
        one.watermark(6)
        operator.prepare_snapshot(3, False)
        assert one.timers() == [] and not operator.matches_table
        assert one.outputs() == ["a1k b1k", "a2k b2k"]


def test_buffered_events_are_stored_by_key_and_removed() -> None:
    """A restart would lose events that wait for the watermark, or process them twice."""
    with harness() as one:
        operator: Any = one.operator
        feed(one, "a1k@1 b1k@900 a2l@901 a3k@1500")
        operator.prepare_snapshot(1, False)
        assert dict(operator.events_table.items()) == {
            ("k", 0): [(1, "a1k"), (900, "b1k")],
            ("l", 0): [(901, "a2l")],
            ("k", 1): [(1500, "a3k")],
        }
        one.watermark(900)
        operator.prepare_snapshot(2, False)
        assert dict(operator.events_table.items()) == {("l", 0): [(901, "a2l")], ("k", 1): [(1500, "a3k")]}
        one.watermark(2_000)
        operator.prepare_snapshot(3, False)
        assert not operator.events_table


def test_in_processing_time_events_are_processed_at_once() -> None:
    """Results would wait for a watermark that never comes."""
    with harness(settings=lambda found: found.in_processing_time(), now_ms=100) as one:
        one.push("a1k")
        one.advance_ms(9)
        one.push("b1k")
        assert one.outputs_with_timestamps() == [("a1k b1k", None)]
        one.push("a2k")
        one.advance_ms(10)
        assert one.side_outputs(TIMED_OUT) == []
        one.advance_ms(1)
        assert one.side_outputs(TIMED_OUT) == [("a2k", 119)]


def test_the_partial_matches_of_a_key_are_bounded() -> None:
    """A hot key would take all the memory."""
    with harness(a_then_b(None), lambda found: found.limit_partial_matches(2)) as one:
        feed(one, "a1k@1 a2k@2 a3k@3 b1k@4")
        one.watermark(4)
        assert one.outputs() == ["a2k b1k", "a3k b1k"]
        figures = one.operator.figures  # type: ignore[attr-defined]
        assert (figures.discarded, figures.partial_matches, figures.largest_key, figures.matches) == (1, 0, 3, 2)
    with harness(a_then_b(None), lambda found: found.limit_partial_matches(2, "fail")) as one:
        feed(one, "a1k@1 a2k@2 a3k@3")
        with pytest.raises(JobError, match="key 'k': 3 partial matches exceed the bound of 2"):
            one.watermark(4)


def test_metrics_say_what_a_pattern_does() -> None:
    """A user would not see partial matches that grow, or that the filter drops nothing."""
    with harness(a_then_b(10), lambda found: found.limit_partial_matches(2)) as one:
        feed(one, "a1k@1 a2k@2 a3k@3 b1k@4 a1j@5 x@6")
        one.watermark(4)
        expected = {
            "numPartialMatches": 0,
            "maxPartialMatchesOfKey": 3,
            "numMatches": 2,
            "numTimedOutMatches": 0,
            "numDiscardedPartialMatches": 1,
            "numBufferedEvents": 1,
        }
        assert metrics_of(one.operator) == expected
        one.watermark(20)
        assert metrics_of(one.operator) == {**expected, "numTimedOutMatches": 1, "numBufferedEvents": 0}
        assert one.operator.context.counters.extremes["maxPartialMatchesOfKey"] == "max"


def test_the_filter_counts_what_it_drops_before_the_exchange() -> None:
    """A user would not see whether conditions spare the exchange anything."""
    with harness() as one:
        dropping = PatternFilterOperator("filter", automaton_of(a_then_b()), timeouts=True)
        dropping.setup(one.operator.context, one.operator.output)
        dropping.process(Rows(["a1k", "x1k", "x2k", "b1k"], [1, 2, 3, 4]))
        assert one.outputs() == ["a1k", "b1k"]
        assert metrics_of(dropping)["numRecordsDropped"] == 2


def metrics_of(operator: Any) -> dict[str, Any]:
    """The own metrics of an operator, read now."""
    operator.metrics.collect()
    return dict(operator.context.counters.user)


def test_the_plan_shows_what_is_dropped_before_the_exchange() -> None:
    """A user would have to measure whether events of no step cross the exchange."""
    names = []
    for filters in (True, False):
        env = StreamExecutionEnvironment.get_execution_environment()
        keyed = env.from_collection([{"kind": 1}]).key_by("kind")
        pattern = Pattern.begin("a").where(field("kind") == 1).followed_by("b").where(field("kind") < 0)
        found = CEP.pattern(keyed, pattern.within(10))
        (found if filters else found.without_filter()).select(len).print()
        names.append(env.get_execution_plan())
    assert "Pattern filter: kind == 1 or kind < 0" in names[0]
    assert "Pattern filter" not in names[1] and "Pattern a .. b" in names[1]


def test_a_pattern_that_may_grow_without_end_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A user would learn of it when memory is full."""
    with harness(a_then_b(None)), harness(a_then_b(10)):
        (record,) = caplog.records
    assert record.levelname == "WARNING" and "partial matches that wait for 'b' have no limit of time" in record.message


def test_conditions_that_fail_name_the_event() -> None:
    """Nobody would know which event has no such field."""
    simple: Pattern[Any, Any] = Pattern.begin("a").where(lambda e: e[7] == "a")
    with harness(simple) as one, pytest.raises(UserFunctionError, match=r"(?s)a condition of the pattern.*'short'"):
        feed(one, "short@1")
    iterative: Pattern[Any, Any] = Pattern.begin("a").where(lambda e, ctx: ctx.get_events_for_pattern("x"))
    with harness(iterative) as one, pytest.raises(UserFunctionError, match=r"(?s)'abc'.*key 'c'.*no step 'x'"):
        feed(one, "abc@1")
        one.watermark(1)


def test_functions_that_fail_name_the_match() -> None:
    """Nobody would know which match the function did not like."""

    class Fails(PatternSelectFunction[str, str]):
        def select(self, match: dict[str, list[str]]) -> str:
            return match["c"][0]

    with OperatorHarness(lambda s: CEP.pattern(s.key_by(lambda e: 1), a_then_b()).select(Fails())) as one:
        feed(one, "a1@1 b1@2")
        with pytest.raises(
            UserFunctionError, match=r"(?s)in Fails.select.*\{'a': \['a1'\], 'b': \['b1'\]\}.*KeyError: 'c'"
        ):
            one.watermark(2)


def test_process_functions_have_side_outputs_and_a_life_cycle() -> None:
    """A function could not open a connection, or send matches to two places."""
    calls: list[str] = []

    class Both(PatternProcessFunction[str, str], TimedOutPartialMatchHandler[str]):
        def open(self, runtime_context: Any) -> None:
            calls.append("open")

        def close(self) -> None:
            calls.append("close")

        def process_match(self, match: dict[str, list[str]], ctx: PatternProcessFunction.Context) -> Any:
            ctx.output(LATE, ctx.timestamp())
            yield TIMED_OUT, "tagged"
            yield shown(match)

        def process_timed_out_match(self, match: dict[str, list[str]], ctx: PatternProcessFunction.Context) -> Any:
            ctx.output(TIMED_OUT, (shown(match), ctx.timestamp()))

    with OperatorHarness(lambda s: CEP.pattern(s.key_by(lambda e: 1), a_then_b()).process(Both())) as one:
        feed(one, "a1@1 b1@2 a2@3")
        one.watermark(50)
        assert one.outputs() == ["a1 b1"]
        assert one.side_outputs(LATE) == [2]
        assert one.side_outputs(TIMED_OUT) == ["tagged", ("a2", 13)]
    assert calls == ["open", "close"]


def test_results_of_partial_matches_have_no_main_output() -> None:
    """A timeout would look like a match."""

    class Wrong(PatternProcessFunction[str, str], TimedOutPartialMatchHandler[str]):
        def process_match(self, match: dict[str, list[str]], ctx: PatternProcessFunction.Context) -> Any:
            return None

        def process_timed_out_match(self, match: dict[str, list[str]], ctx: PatternProcessFunction.Context) -> Any:
            yield "a result"

    with OperatorHarness(lambda s: CEP.pattern(s.key_by(lambda e: 1), a_then_b()).process(Wrong())) as one:
        feed(one, "a1@1")
        with pytest.raises(
            UserFunctionError, match="a partial match has no results in the main output, got 'a result'"
        ):
            one.watermark(50)


def test_a_function_can_not_change_the_events_of_other_matches() -> None:
    """A match would contain what a function did to another one."""
    pattern: Pattern[Any, Any] = Pattern.begin("a").where(field("n") == 1).followed_by_any("b").where(field("n") == 2)

    def spoil(match: dict[str, list[dict[str, Any]]]) -> Any:
        match["a"][0]["n"] += 10
        return [event["n"] for events in match.values() for event in events]

    with OperatorHarness(lambda s: CEP.pattern(s.key_by(lambda e: 1), pattern).select(spoil)) as one:
        for time, number in enumerate([1, 2, 2]):
            one.push({"n": number}, time)
        one.watermark(9)
        assert one.outputs() == [[11, 2], [11, 2]]


def test_a_changed_pattern_after_the_call_has_no_effect() -> None:
    """A pattern that is built in a loop would be the last one everywhere."""
    pattern = a_then_b()

    def program(stream: DataStream[Any]) -> DataStream[Any]:
        found = CEP.pattern(stream.key_by(lambda e: 1), pattern)
        pattern.where(lambda e: False)
        return found.select(shown)

    with OperatorHarness(program) as one:
        feed(one, "a1@1 b1@2")
        one.watermark(2)
        assert one.outputs() == ["a1 b1"]


def test_arguments_are_refused_at_the_call() -> None:
    """A program would fail in a worker, an hour later."""
    for arguments, error, message in [
        (("stream", a_then_b()), TypeError, "expected a stream to look for a pattern in"),
        ((None, "pattern"), TypeError, "expected a Pattern"),
        ((None, Pattern.begin("a").not_followed_by("b")), MalformedPatternError, "needs within"),
        ((None, a_then_b(), 5), TypeError, "expected a function of two events"),
        ((None, a_then_b(), lambda one: 0), TypeError, "expected a function of two events"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            OperatorHarness(lambda s, given=arguments: CEP.pattern(given[0] or s, *given[1:]).select(shown))

    def refused(call: Callable[[PatternStream[Any]], Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            OperatorHarness(lambda s: call(CEP.pattern(s, a_then_b())))

    refused(lambda found: found.select(lambda: 1), TypeError, "takes")
    refused(lambda found: found.select(shown, timed_out_tag=TIMED_OUT), TypeError, "no timeout_function")
    refused(lambda found: found.select(shown, timeout_function=lambda m, t: 1), TypeError, "expected an OutputTag")
    refused(
        lambda found: found.select(shown, timed_out_tag=TIMED_OUT, timeout_function=lambda m: 1), TypeError, "takes"
    )
    refused(lambda found: found.process(PatternProcessFunction), TypeError, "expected an instance")
    refused(lambda found: found.limit_partial_matches(0), MalformedPatternError, "a positive int")
    refused(lambda found: found.limit_partial_matches(1, "drop"), MalformedPatternError, "'discard_oldest' or 'fail'")
    refused(lambda found: found.side_output_late_data("late"), TypeError, "expected an OutputTag")


def test_event_time_needs_timestamps() -> None:
    """All events would have the time 0."""
    with harness() as one, pytest.raises(ProgramError, match="a pattern in event time needs timestamps"):
        one.push("a1k")


def test_a_stream_without_a_key_is_processed_by_one_subtask() -> None:
    """Events of a match would be in different subtasks."""

    def program(stream: DataStream[Any]) -> DataStream[Any]:
        found = CEP.pattern(stream, a_then_b()).select(shown)
        assert found._transformation.parallelism == 1
        return found

    with OperatorHarness(program) as one:
        feed(one, "a1k@1 b1l@2")
        one.watermark(2)
        assert one.outputs() == ["a1k b1l"]


def test_gaps_end_with_the_watermark() -> None:
    """A timeout would come with the next event of the key, or never, as in Flink."""
    pattern: Pattern[str, str] = Pattern.begin("a")
    pattern = pattern.followed_by("b").within(5, WithinType.PREVIOUS_AND_CURRENT)
    with harness(pattern) as one:
        feed(one, "a1k@1")
        one.watermark(6)
        assert one.side_outputs(TIMED_OUT) == [("a1k", 6)]
        assert one.timers() == []


def test_a_changed_window_counts_for_keys_without_further_events() -> None:
    """A job that continues with a shorter window would end partial matches with the longer one, or never."""
    for before in (None, 1_000):
        with harness(a_then_b(within=before)) as old, harness(a_then_b(within=10)) as new:
            stored: Any = old.operator
            feed(old, "a1k@1")
            old.watermark(1)
            stored.prepare_snapshot(1, False)
            restored: Any = new.operator
            for key, value in stored.matches_table.items():
                restored.matches_table.put(key, value)
            for number, layout in stored._layouts.items():
                restored._layouts.put(number, layout)
            restored.layouts = type(restored.layouts)(restored._layouts.items(), restored._layouts.put)
            restored.open_patterns(True)
            new.watermark(11)
            assert new.side_outputs(TIMED_OUT) == [("a1k", 11)]
            restored.prepare_snapshot(1, False)
            assert new.timers() == [] and not restored.matches_table
            assert len(list(restored._layouts.items())) == 1


def test_a_bound_keeps_complete_matches_and_emits_them() -> None:
    """A complete match would be discarded with the partial matches that it waited for, or wait on."""

    def starts(event: str) -> bool:
        return event[0] == "a"

    def ends(event: str, ctx: Any) -> bool:
        return event[0] == "b" and event[1] == ctx.get_events_for_pattern("a")[0][1]

    pattern: Pattern[str, str] = Pattern.begin("a", AfterMatchSkipStrategy.skip_to_next())
    pattern = pattern.where(starts).followed_by("m").where(lambda e: e[0] == "m").one_or_more().optional()
    pattern = pattern.followed_by("b").where(ends)
    with harness(pattern, lambda found: found.limit_partial_matches(8)) as one:
        feed(one, "a1@1 a2@2 b2@3 a3@4 a4@5 a5@6")
        one.watermark(6)
        assert one.outputs() == []
        feed(one, "m1@7")
        one.watermark(7)
        assert one.outputs() == ["a2 b2"]


@pytest.mark.parametrize(("order", "error"), [(None, "got None"), (True, "got True"), (1 / 3, ""), ("x", "")])
def test_a_comparator_that_fails_is_reported_with_its_events(order: Any, error: str) -> None:
    """The error would be one of a sort, without operator and events; True would sort nothing, silently."""

    def compare(first: str, second: str) -> Any:
        return order if order != "x" else first.missing  # type: ignore[attr-defined]

    with harness(comparator=compare) as one:
        feed(one, "b2@5 a1@5")
        if order == 1 / 3:
            one.watermark(5)
            return
        with pytest.raises(UserFunctionError, match="the comparator of the pattern") as raised:
            one.watermark(5)
        assert error in str(raised.value) and "('a1', 'b2')" in str(raised.value)


def test_an_expression_that_fails_is_reported_by_its_text() -> None:
    """A misspelled field would be thirty lines of frames that are not the user's, twice, without the condition."""
    pattern = Pattern.begin("a").where(field("kind") == "x").followed_by("b").where(field("amuont") > 5)
    program = lambda stream: CEP.pattern(stream.key_by("key"), pattern.within(9)).select(len)  # noqa: E731
    with OperatorHarness(program) as one, pytest.raises(UserFunctionError) as raised:
        one.push({"key": 1, "kind": "x", "amount": 6}, 1)
    text = str(raised.value)
    assert "a condition of the pattern, amuont > 5" in text and "KeyError: 'amuont'" in text
    assert "'amount': 6" in text and "File" not in text
