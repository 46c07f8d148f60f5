"""Patterns that come as rules while a job runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    field,
    pattern_to_json,
)
from penstock.common import WatermarkStrategy
from penstock.datastream import OutputTag
from penstock.testing import TwoInputHarness

REJECTED: OutputTag[Any] = OutputTag("rejected")
TIMED_OUT: OutputTag[Any] = OutputTag("timed out")


class Shown(PatternProcessFunction[Any, Any], TimedOutPartialMatchHandler[Any]):
    def process_match(self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        events = " ".join(str(event["n"]) for events in match.values() for event in events)
        yield f"{ctx.pattern_id()}/{ctx.pattern_version()}: {events} @{ctx.timestamp()}"

    def process_timed_out_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[tuple[OutputTag[Any], Any]]:
        yield TIMED_OUT, f"{ctx.pattern_id()} @{ctx.timestamp()}"


def harness(**settings: Any) -> TwoInputHarness:
    return TwoInputHarness(
        lambda events, rules: (
            CEP.dynamic_patterns(events.key_by("key"), rules).side_output_rejected_rules(REJECTED).process(Shown())
        ),
        **settings,
    )


def rule(id: str, version: int, pattern: Pattern[Any, Any] | None) -> str:
    content = {"remove": True} if pattern is None else {"pattern": json.loads(pattern_to_json(pattern))}
    return json.dumps({"id": id, "version": version, **content})


def two(least: int, within: int | None = None) -> Pattern[Any, Any]:
    pattern = Pattern.begin("a").where(field("amount") < 5).followed_by("b").where(field("amount") >= least)
    return pattern if within is None else pattern.within(within)


def event(n: int, amount: int, key: str = "k") -> dict[str, Any]:
    return {"key": key, "n": n, "amount": amount}


def test_rules_are_added_changed_and_removed() -> None:
    """A job would have to stop for each new pattern."""
    with harness() as one:
        one.push1(event(1, 1), 1)
        one.push2(rule("r", 1, two(10)))
        one.watermark1(1)
        one.push1(event(2, 9), 2)
        one.watermark1(2)
        assert one.outputs() == []
        one.push2(rule("r", 2, two(8)))
        one.push2(rule("s", 1, two(100)))
        one.push1(event(3, 9), 3)
        one.push1(event(4, 1), 4)
        one.watermark1(4)
        # The partial match of the first version has continued under the second one.
        assert one.outputs() == ["r/2: 1 3 @3"]
        one.push2(rule("r", 3, None))
        one.push1(event(5, 200), 5)
        one.watermark1(5)
        assert one.outputs()[1:] == ["s/1: 4 5 @5"]
        assert one.operator.figures.partial_matches == 0  # type: ignore[attr-defined]
        assert one.side_outputs(REJECTED) == []


def test_rules_that_are_wrong_or_old_change_nothing() -> None:
    """A slip in a rule would end the job, or bring an old version back."""
    with harness() as one:
        one.push2(rule("r", 2, two(10)))
        half = json.dumps({"id": "\ud800", "version": 1, "remove": True})
        for text in (
            "{",
            rule("r", 2, two(1)),
            rule("r", 1, None),
            '{"id": "", "version": 1, "remove": true}',
            5,
            half,
        ):
            one.push2(text)
        one.push2('{"id": "x", "version": 1, "pattern": {"steps": [{"name": "a", "where": {"eval": "1"}}]}}')
        one.push1(event(1, 1), 1)
        one.push1(event(2, 11), 2)
        one.watermark1(2)

        assert one.outputs() == ["r/2: 1 2 @2"]
        errors = [rejected.error for rejected in one.side_outputs(REJECTED)]
        assert len(errors) == 7
        assert "not valid JSON" in errors[0]
        assert "has version 2 already, got 2" in errors[1]
        assert "$.id: expected a text" in errors[5]
        assert "$.pattern.steps[0].where: expected" in errors[6]


def test_time_ends_partial_matches_of_each_rule_alone() -> None:
    """A rule would time out with the window of another."""
    with harness() as one:
        one.push2(rule("short", 1, two(50, within=10)))
        one.push2(rule("long", 1, two(50, within=30)))
        one.push1(event(1, 1), 1)
        one.watermark1(15)
        assert one.side_outputs(TIMED_OUT) == ["short @11"]
        one.push2(rule("short", 2, None))
        one.push1(event(2, 60), 20)
        one.watermark1(40)
        assert one.outputs() == ["long/1: 1 2 @20"]
        assert one.timers() == []


def test_the_event_time_of_rules_does_not_count() -> None:
    """Events would wait for a stream of rules that has no watermarks."""
    with harness() as one:
        one.push2(rule("r", 1, two(10)))
        one.push1(event(1, 1), 1)
        one.push1(event(2, 11), 2)
        one.watermark1(2)
        one.watermark2(1_000)
        assert one.outputs() == ["r/1: 1 2 @2"]
        assert one.watermarks() == [2]


def test_one_subtask_reports_what_was_rejected() -> None:
    """A rejected rule would be reported by each subtask."""
    with harness(subtask=1, parallelism=2) as one:
        one.push2("{")
        assert one.side_outputs(REJECTED) == []


def test_a_condition_that_fails_does_not_hold(caplog: pytest.LogCaptureFixture) -> None:
    """A rule about a field that some events lack would end the job, again after each restart."""
    with harness() as one:
        one.push2(rule("r", 1, two(10)))
        for number, amount in enumerate([1, "many", None, 12, "x"]):
            one.push1({"key": "k", "n": number, "amount": amount}, number)
        one.push1({"key": "k", "n": 9}, 9)
        one.watermark1(9)
        assert one.outputs() == ["r/1: 0 3 @3"]
        assert one.operator.failed_conditions == 3  # type: ignore[attr-defined]
    assert len(caplog.messages) == 1
    assert "a condition of rule 'r', version 1, fails on {'key': 'k', 'n': 1, 'amount': 'many'}" in caplog.text


def test_what_is_not_a_stream_is_refused() -> None:
    """A program would fail in a worker."""
    with pytest.raises(TypeError, match="needs events with a key"):
        TwoInputHarness(lambda events, rules: CEP.dynamic_patterns(events, rules).process(Shown()))
    with pytest.raises(TypeError, match="without a key"):
        TwoInputHarness(
            lambda events, rules: CEP.dynamic_patterns(events.key_by("k"), rules.key_by("k")).process(Shown())
        )


def test_in_batch_mode_rules_come_first() -> None:
    """Which events meet a rule would depend on chance, although all of both are there."""
    env = environment()
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event["n"])
    rows = [event(n, amount, key) for n, amount in enumerate([1, 2, 30, 1, 30]) for key in "kl"]
    events = env.from_collection(rows).set_parallelism(1).assign_timestamps_and_watermarks(strategy)
    rules = env.from_collection([rule("r", 1, two(20, within=2)), rule("s", 1, two(40))])
    found = CEP.dynamic_patterns(events.set_parallelism(1).key_by("key"), rules).process(Shown())
    assert sorted(collected(found)) == ["r/1: 1 2 @2"] * 2 + ["r/1: 3 4 @4"] * 2


def test_a_condition_that_fails_leaves_the_others_of_its_rule() -> None:
    """An event that begins a match would be passed over, for it lacks a field that another step asks for."""
    pattern = Pattern.begin("login").where(field("kind") == "login").followed_by("pay").where(field("amount") > 5)
    with harness() as one:
        one.push2(rule("r", 1, pattern))
        one.push1({"key": "k", "n": 1, "kind": "login"}, 1)
        one.push1({"key": "k", "n": 2, "amount": 9}, 2)
        one.watermark1(2)
        assert one.outputs() == ["r/1: 1 2 @2"]
        assert one.operator.failed_conditions == 2  # type: ignore[attr-defined]


def test_a_condition_that_fails_on_an_event_that_was_kept_back_does_not_hold() -> None:
    """A new version of a rule would end the job, again after each restart."""

    def run(start: Any) -> Pattern[Any, Any]:
        begun = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(start).one_or_more()
        return begun.consecutive().greedy().next("b").where(field("amount") == 2)

    with harness() as one:
        one.push2(rule("r", 1, run(field("amount") == 1)))
        for number in range(3):
            one.push1(event(number, 1), number)
        one.watermark1(2)
        one.push2(rule("r", 2, run(field("missing") == 1)))
        one.push1(event(3, 2), 3)
        one.watermark1(3)
        assert one.outputs() == ["r/2: 0 1 2 3 @3"]


def test_a_rule_that_is_removed_leaves_no_timers() -> None:
    """Timers of days would stay in each checkpoint until they end."""
    with harness() as one:
        operator: Any = one.operator
        one.push2(rule("r", 1, two(10, within=1_000_000)))
        one.push2(rule("s", 1, two(10, within=1_000)))
        for number in range(1_000):
            one.push1(event(number, 1, key=f"k{number}"), 1)
        one.watermark1(1)
        operator.prepare_snapshot(1, False)
        assert len(one.timers()) == 2_000
        one.push2(rule("r", 2, None))
        assert {timer.window for timer in one.timers()} == {"s"}
        one.push2(rule("s", 2, None))
        assert one.timers() == [] and not operator.matches_table and operator.figures.partial_matches == 0


@pytest.mark.parametrize("before", [None, 10_000])
def test_a_shorter_time_of_a_rule_counts_for_keys_without_further_events(before: int | None) -> None:
    """Partial matches would time out when they would have done under the version before, or stay forever."""
    with harness() as one:
        one.push2(rule("r", 1, two(10, within=before)))
        one.push1(event(1, 1), 1)
        one.watermark1(2)
        one.push2(rule("r", 2, two(10, within=100)))
        assert [timer.timestamp for timer in one.timers()] == [101]
        one.watermark1(101)
        assert one.side_outputs(TIMED_OUT) == ["r @101"]
        one.operator.prepare_snapshot(1, False)
        assert one.timers() == [] and one.operator.figures.partial_matches == 0  # type: ignore[attr-defined]


def test_partial_matches_that_begin_with_deferred_events_are_counted() -> None:
    """The number of partial matches would fall below zero when a rule has another skip strategy."""

    def run(skip: AfterMatchSkipStrategy) -> Pattern[Any, Any]:
        return Pattern.begin("a", skip).where(field("amount") == 1).one_or_more().consecutive().next("b").within(50)

    with harness() as one:
        operator: Any = one.operator
        one.push2(rule("r", 1, run(AfterMatchSkipStrategy.skip_past_last_event()).where(field("amount") == 2)))
        for number in range(3):
            one.push1(event(number, 1), number)
        one.watermark1(3)
        one.push2(rule("r", 2, run(AfterMatchSkipStrategy.no_skip()).where(field("amount") == 2)))
        one.push1(event(3, 1), 4)
        one.watermark1(4)
        (partial,) = operator.rules["r"].states.live.values()
        assert operator.figures.partial_matches == partial.runs >= 4
        one.push1(event(4, 2), 5)
        one.watermark1(100)
        assert len(one.outputs()) == 4 and operator.figures.partial_matches == 0
