"""Partial matches as queryable state: live, and as snapshots have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, field, pattern_to_json
from penstock.engine.state.live_table import live_table
from penstock.testing import OperatorHarness, TwoInputHarness

AMOUNT = field("amount")
LOOP = (
    Pattern.begin("small").where(AMOUNT < 5).one_or_more().greedy().followed_by("large").where(AMOUNT > 500)
).within(1_000)  # fmt: skip


def event(n: int, amount: int, key: str = "k") -> dict[str, Any]:
    return {"key": key, "n": n, "amount": amount}


def harness(pattern: Pattern[Any, Any] = LOOP, name: str | None = "open") -> OperatorHarness:
    def build(events: Any) -> Any:
        found = CEP.pattern(events.key_by("key"), pattern).without_filter()
        return (found if name is None else found.set_queryable(name)).select(len)

    return OperatorHarness(build)


def live(one: Any, *keys: Any) -> dict[Any, Any]:
    """Return what a live query of some keys, or of all, answers."""
    backend = one.operator.keyed_backend()
    table = live_table(backend, one.operator.queryable_states()["open"])
    assert table is not None
    rows = [row for of in table.of_keys(keys).values() for row in of] if keys else table.first(100)
    return {row[:-1] if len(row) > 2 else row[0]: row[-1] for row in rows}


def stored(one: Any) -> dict[Any, Any]:
    """Return what a snapshot has."""
    return dict(one.operator.backend.tables[one.operator.queryable_states()["open"]].items())


def in_short(matches: list[dict[str, Any]]) -> list[Any]:
    return [
        ({step: [one["n"] for one in events] for step, events in match["events"].items()}, match["waits_for"])
        for match in matches
    ]


def test_a_key_shows_its_partial_matches() -> None:
    """A user would see that a key has many partial matches, and not which."""
    with harness() as one:
        one.push(event(1, 1), 10)
        one.push(event(2, 2), 20)
        one.push(event(3, 3, key="other"), 20)
        one.watermark(20)
        found = live(one, "k", "none")
        assert in_short(found["k"]) == [({"small": [1, 2]}, ["small", "large"]), ({"small": [2]}, ["small", "large"])]
        assert [(match["began"], match["ends"]) for match in found["k"]] == [(10, 1_010), (20, 1_020)]
        assert found["k"][0]["events"]["small"][0] == event(1, 1)
        assert live(one).keys() == {"k", "other"}


def test_queries_see_what_changed_since_the_snapshot_and_what_did_not() -> None:
    """A live query would be as old as the last checkpoint, or miss what it has."""
    with harness() as one:
        for n, key in enumerate("abc"):
            one.push(event(n, 1, key), n)
        one.watermark(10)
        assert stored(one) == {}
        one.operator.prepare_snapshot(1, False)
        assert stored(one) == live(one) and live(one).keys() == {"a", "b", "c"}
        one.push(event(7, 2, "a"), 20)
        one.push(event(8, 600, "b"), 21)
        one.watermark(30)
        assert in_short(live(one)["a"])[0] == ({"small": [0, 7]}, ["small", "large"])
        assert in_short(live(one, "c")["c"]) == [({"small": [2]}, ["small", "large"])]
        # Its match is complete, and the loop may take a further event.
        assert in_short(live(one, "b")["b"]) == [({"small": [1]}, ["small"])]
        one.watermark(5_000)
        assert live(one) == {} == live(one, "a", "b", "c")
        one.operator.prepare_snapshot(2, False)
        assert stored(one) == {}


def test_complete_matches_that_wait_are_shown() -> None:
    """A user would not see why a match does not come."""
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_to_next()).where(AMOUNT == 1)
    pattern = pattern.followed_by("b").where(lambda e, ctx: e["n"] == ctx.get_events_for_pattern("a")[0]["n"] + 10)
    with harness(pattern.within(100)) as one:
        for n in (1, 2, 12):
            one.push(event(n, 1 if n < 10 else 0), n)
        one.watermark(12)
        assert one.outputs() == []
        found = live(one, "k")["k"]
        assert in_short(found) == [({"a": [1]}, ["b"]), ({"a": [2], "b": [12]}, [])]
        assert [(match["began"], match["ends"]) for match in found] == [(1, 101), (2, 102)]


def test_rules_have_their_partial_matches_each() -> None:
    """A key would show the partial matches of one rule, or those of rules that are gone."""

    def rule(id: str, version: int, least: int | None) -> str:
        pattern = Pattern.begin("a").where(AMOUNT < 5).followed_by("b").where((least or 0) < AMOUNT)
        content = {"remove": True} if least is None else {"pattern": json.loads(pattern_to_json(pattern))}
        return json.dumps({"id": id, "version": version, **content})

    with TwoInputHarness(
        lambda events, rules: (
            CEP.dynamic_patterns(events.key_by("key"), rules).set_queryable("open").process(no_results)
        )
    ) as one:
        one.push2(rule("r", 1, 10))
        one.push2(rule("s", 1, 20))
        one.push1(event(1, 1), 1)
        one.watermark1(1)
        assert live(one).keys() == {("k", "r"), ("k", "s")} == live(one, "k").keys()
        one.operator.prepare_snapshot(1, False)
        assert stored(one) == live(one, "k")
        one.push1(event(2, 15), 2)
        one.watermark1(2)
        assert live(one, "k").keys() == {("k", "s")}
        one.push2(rule("s", 2, None))
        assert live(one) == {} == stored(one)


def test_a_program_that_gets_a_name_shows_what_was_stored_before() -> None:
    """Keys without further events would be missing from answers."""
    with harness(name=None) as before:
        before.push(event(1, 1), 1)
        before.watermark(1)
        before.operator.prepare_snapshot(1, False)
        entries = list(before.operator.matches_table.items())  # type: ignore[attr-defined]
    with harness() as one:
        operator: Any = one.operator
        for key, value in entries:
            operator.matches_table.put(key, value)
        operator.open_patterns(True)
        assert in_short(stored(one)["k"]) == [({"small": [1]}, ["small", "large"])]
        assert [timer.timestamp for timer in one.timers()] == [1_001]


def test_a_program_that_loses_the_name_forgets_what_was_written() -> None:
    """Snapshots would have partial matches that ended long ago, and queries would show them."""
    with harness(name=None) as one:
        operator: Any = one.operator
        operator.backend.layered("partial matches").put("k", [])
        operator.open()
        assert not operator.backend.tables["partial matches"]


def no_results(match: Any, ctx: Any) -> list[Any]:
    return []


def test_without_a_name_nothing_is_written() -> None:
    """Snapshots would have all partial matches twice."""
    with harness(name=None) as one:
        one.push(event(1, 1), 1)
        one.watermark(1)
        one.operator.prepare_snapshot(1, False)
        assert not one.operator.queryable_states()
        assert set(one.operator.keyed_tables()) == {"(cep) partial matches", "(cep) buffered events"} | {
            name for name in one.operator.keyed_tables() if "timers" in name
        }


@pytest.mark.parametrize(("name", "error"), [("", ValueError), (5, TypeError), (None, TypeError)])
def test_a_name_is_a_text(name: Any, error: type[Exception]) -> None:
    """A job would start, and nobody could query it."""
    with pytest.raises(error):
        harness(name=name) if name is not None else OperatorHarness(
            lambda events: CEP.pattern(events.key_by("key"), LOOP).set_queryable(name).select(len)
        )
