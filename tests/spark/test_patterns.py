"""Patterns on Spark: state in RocksDB through a failure, another parallelism, a savepoint; partial matches are queried.

For matches, the automaton alone, on the events of each key in order of time, is the oracle.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, environment, lines_to, wait_until, wait_until_running
from tests.spark.test_lost_workers import visible
from typer.testing import CliRunner

from penstock.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler, field, pattern_to_json
from penstock.cep.automata import automaton_of
from penstock.cep.partial_matches import PartialMatches
from penstock.common import WatermarkStrategy
from penstock.common.errors import StateNotFoundError
from penstock.common.job_client import JobClient
from penstock.datastream import OutputTag
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.queryable_state import QueryableStateClient
from penstock.service.cli.main import app

pytestmark = pytest.mark.spark
EVENTS, KEYS = 24_000, 60
TIMED_OUT: OutputTag[str] = OutputTag("timed out")
ROCKS = {
    "state.backend.type": "rocksdb",
    "state.backend.rocksdb.cached-entries": "3",
    "state.backend.rocksdb.memory.fixed-per-slot": "4m",
    "execution.checkpointing.interval": "300 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "0 s",
}

Event = tuple[int, str, int]


def event(number: int) -> Event:
    """Key, kind and time (ms) of an event."""
    return number * 7919 % KEYS, "abcxxxxxx"[(number * 2654435761 >> 16) % 9], number


def pattern() -> Pattern[Event, Event]:
    return (
        Pattern.begin("a").where(lambda e: e[1] == "a").followed_by("b").where(lambda e: e[1] == "b").one_or_more()
        .greedy().followed_by("c").where(lambda e: e[1] == "c").within(2_000)
    )  # fmt: skip


def shown(kind: str, match: dict[str, list[Event]]) -> str:
    return f"{kind} {list(match.items())}"


class Shown(PatternProcessFunction[Event, str], TimedOutPartialMatchHandler[Event]):
    """Gives matches and timeouts as lines."""

    def process_match(self, match: dict[str, list[Event]], ctx: Any) -> Iterable[str]:
        yield shown("match", match)

    def process_timed_out_match(self, match: dict[str, list[Event]], ctx: Any) -> Iterable[tuple[Any, str]]:
        yield TIMED_OUT, shown("timeout", match)


def expected() -> Counter[str]:
    """What the automaton finds for each key alone."""
    automaton = automaton_of(pattern())
    keys: dict[int, PartialMatches] = {}
    found: Counter[str] = Counter()
    for one in [*map(event, range(EVENTS)), None]:
        time = 2**63 - 1 if one is None else one[2]
        for partial in keys.values() if one is None else [keys.setdefault(one[0], PartialMatches())]:
            matches, timeouts = automaton.advance_time(partial, time)
            found.update(shown("timeout", match) for match, _ in timeouts)
            if one is not None:
                matches += automaton.process(partial, one, time, automaton.bits(one))
            found.update(shown("match", match) for match in matches)
    return found


def started(folder: Path, parallelism: int, settings: dict[str, str]) -> JobClient:
    """A job that fails once it has checkpoints."""
    crash = folder / "crashed"

    def fails_once(one: Event) -> Event:
        if one[2] % (EVENTS // 2) > EVENTS // 8 and not crash.exists():
            crash.touch()
            raise RuntimeError("once")
        return one

    env = environment(STREAMING, parallelism, {**ROCKS, "execution.checkpointing.dir": str(folder / "cp"), **settings})
    source = DataGeneratorSource(event, EVENTS, RateLimiterStrategy.per_second(3_000))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[2])
    events = env.from_source(source, strategy, "events").map(fails_once)
    found = CEP.pattern(events.key_by(lambda e: e[0]), pattern()).process(Shown())
    found.union(found.get_side_output(TIMED_OUT)).sink_to(lines_to(folder / "out"))
    return env.execute_async("patterns")


def lines(folder: Path) -> list[str]:
    return [line for path in visible(folder / "out") for line in path.read_text().splitlines()]


@pytest.mark.soak
def test_a_failure_another_parallelism_and_a_savepoint_with_rocksdb(tmp_path: Path) -> None:
    """Partial matches, events that wait, or timers would be lost on the way into RocksDB and back."""
    first = started(tmp_path, 2, {})
    wait_until(lambda: first.get_num_restarts() == 1, "it has not failed", 180)
    wait_until_running(first)
    wait_until(lambda: lines(tmp_path), "nothing comes out", 60)
    first.rescale(3).result()
    assert {vertex.parallelism for vertex in first.get_vertex_metrics()} == {3}
    savepoint = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    first.get_job_execution_result().result()
    before = lines(tmp_path)

    second = started(tmp_path, 2, {"execution.state-recovery.path": savepoint})
    second.get_job_execution_result().result()
    found, wanted = Counter(lines(tmp_path)), expected()
    assert found == wanted, f"missing {wanted - found}, in addition {found - wanted}"
    assert 0 < len(before) < wanted.total()


def order(number: int) -> dict[str, Any]:
    """An event of one of ten customers. Now and then all of them order, and then only the odd ones pay."""
    customer, turn = number % 10, number // 10 % 50
    kind = "order" if turn == 0 else "pay" if turn == 1 and customer % 2 else "look"
    return {"customer": customer, "kind": kind, "at": number}


def test_partial_matches_of_a_running_job_are_queried(tmp_path: Path) -> None:
    """A user would see metrics, and not which orders are open; or those of a rule among those of another one."""
    settings = {
        "rest.bind-port": "0",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path),
    }
    unpaid = Pattern.begin("order").where(field("kind") == "order").followed_by("pay").where(field("kind") == "pay")
    unpaid = unpaid.within(10**9)
    env = environment(STREAMING, 2, settings)
    source = DataGeneratorSource(order, 10_000_000, RateLimiterStrategy.per_second(1_000))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
    orders = env.from_source(source, strategy, "orders").key_by("customer")
    rule = json.dumps({"id": "unpaid", "version": 1, "pattern": json.loads(pattern_to_json(unpaid))})
    CEP.pattern(orders, unpaid).set_queryable("open").select(len).print()
    of_rules = CEP.dynamic_patterns(orders, env.from_collection([rule])).set_queryable("open by rule")
    of_rules.process(lambda match, ctx: [len(match)]).print()
    job = env.execute_async("orders")
    try:
        job_id = str(job.get_job_id())
        client, _ = QueryableStateClient.of_job(job_id)

        def of_customer(customer: int, name: str = "open", isolation: Any = "read-uncommitted") -> Any:
            try:
                return client.get_kv_state(job_id, name, customer, isolation=isolation)
            except StateNotFoundError:
                return None

        wait_until(lambda: len(of_customer(4, isolation="read-committed") or ()) > 1, "nothing is open", 120)
        committed, live = of_customer(4, isolation="read-committed"), of_customer(4)
        assert committed == live[: len(committed)], "no order of customer 4 is ever paid"
        first = committed[0]["events"]["order"][0]
        assert first["customer"] == 4
        times = {"began": first["at"], "ends": first["at"] + 10**9}
        assert committed[0] == {"events": {"order": [first]}, "waits_for": ["pay"], **times}
        wait_until(lambda: of_customer(5) is None, "all orders of customer 5 are paid", 60)
        wait_until(lambda: of_customer(4, "open by rule"), "nothing is open under the rule", 60)
        by_rule = of_customer(4, "open by rule")
        assert by_rule.keys() == {"unpaid"}
        assert [one["waits_for"] for one in by_rule["unpaid"]] == [["pay"]] * len(by_rule["unpaid"])
        for more in ([], ["--live"]):
            printed = CliRunner().invoke(app, ["query", job_id, "open", "4", "--json", *more])
            assert printed.exit_code == 0, printed.output
            # The job prints its matches into the same text.
            (line,) = [line for line in printed.stdout.splitlines() if line.startswith("{")]
            assert json.loads(line)["value"][0] == committed[0]
    finally:
        job.cancel().result()
