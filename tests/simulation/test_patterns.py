"""Patterns under random schedules and faults: the automaton, on the events of each key in order, is the oracle."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, graph_of, scripted, seeds

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from penstock.cep.deferred_starts import automaton_of
from penstock.cep.partial_matches import PartialMatches
from penstock.common import WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import OutputTag
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.hosts.simulator.programs import Record, SplitScript

pytestmark = pytest.mark.simulation

TIMED_OUT: OutputTag[Any] = OutputTag("timed out")
END = 2**63 - 1


class Shown(PatternProcessFunction[Any, Any], TimedOutPartialMatchHandler[Any]):
    """Emits the events of each match, and those of each partial match whose time has ended."""

    def process_match(self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        yield "match", path_of(match)

    def process_timed_out_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[tuple[OutputTag[Any], Any]]:
        yield TIMED_OUT, ("timeout", path_of(match), ctx.timestamp())


def path_of(match: dict[str, list[Any]]) -> tuple[Any, ...]:
    return tuple((name, tuple((event[0], event[1]) for event in events)) for name, events in match.items())


def a(event: Record) -> bool:
    return event[3] % 5 == 0


def b(event: Record) -> bool:
    return event[3] % 5 == 1


def c(event: Record) -> bool:
    return event[3] % 5 == 2


def rising(event: Record, ctx: Any) -> bool:
    return all(event[3] > before[3] for before in ctx.get_events_for_pattern("a"))


PAST_LAST = AfterMatchSkipStrategy.skip_past_last_event()

PATTERNS: dict[str, Callable[[], Pattern[Any, Any]]] = {
    "relaxed": lambda: Pattern.begin("a").where(a).followed_by("b").where(b).within(40),
    "strict": lambda: Pattern.begin("a", PAST_LAST).where(a).one_or_more().consecutive().greedy().next("b").where(b),
    "loop": lambda: Pattern.begin("a").where(a).followed_by("b").where(b).one_or_more().greedy().followed_by("c")
    .where(c).within(90),
    "without": lambda: Pattern.begin("a").where(a).not_followed_by("b").where(b).within(50),
    "gap": lambda: Pattern.begin("a").where(a).followed_by("b").where(b).times(2)
    .within(30, WithinType.PREVIOUS_AND_CURRENT),
    "skip": lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_to_next()).where(a).followed_by_any("b").where(b)
    .followed_by("c").where(c).within(120),
    "iterative": lambda: Pattern.begin("a").where(a).followed_by("b").where(rising).within(60),
}  # fmt: skip


def script(split: int, random: Random) -> SplitScript:
    """Return a split whose events have keys of its own, in order of time, some at one time, some with pauses."""
    records: list[tuple[Record, int]] = []
    time = 0
    for position in range(random.randint(20, 60)):
        time += random.choice([0, 1, 5, 5, 10, 10, 35])
        records.append(((f"s{split}", (position,), 10 * split + random.randrange(3), random.randrange(7)), time))
    pauses = ((random.randrange(len(records)), random.choice([1, 300])),) if random.random() < 0.5 else ()
    return SplitScript(f"s{split}", split, tuple(records), pauses)


def expected(scripts: list[SplitScript], pattern: Pattern[Any, Any]) -> Counter[Any]:
    """Return the matches and timeouts of each key, from the automaton alone."""
    automaton = automaton_of(pattern)
    results: Counter[Any] = Counter()
    keys: dict[int, list[tuple[int, Record]]] = {}
    for one in scripts:
        for record, time in one.records:
            keys.setdefault(record[2], []).append((time, record))
    for events in keys.values():
        partial = PartialMatches()
        for time, record in [*events, (END, None)]:
            matches, timeouts = automaton.advance_time(partial, time)
            results.update(("timeout", path_of(match), end) for match, end in timeouts)
            if record is not None:
                matches += automaton.process(partial, record, time, automaton.bits(record))
            results.update(("match", path_of(match)) for match in matches)
    return results


def graph(scripts: list[SplitScript], pattern: Pattern[Any, Any], parallelism: int) -> JobGraph:
    """Return a job that looks for the pattern, and prints what it finds."""
    env = environment(parallelism)
    events = env.from_source(scripted(*scripts), WatermarkStrategy.for_monotonous_timestamps(), "events")
    events.set_parallelism(2)
    found = CEP.pattern(events.key_by(lambda record: record[2]), pattern).process(Shown())
    found.union(found.get_side_output(TIMED_OUT)).print()
    return graph_of(env)


def run(name: str, seed: int) -> bool:
    """Run a job, and compare its results. Returns whether it went back to a checkpoint."""
    random = Random(seed)
    scripts = [script(split, random) for split in range(2)]
    # Splits stay with their subtasks: read in another order, events would rightly be late.
    circumstances = dataclasses.replace(
        Circumstances.draw(Random(seed + 1)),
        exactly_once=True,
        damage_rate=0.0,
        cancel_at_step=None,
        drain_rate=0.0,
        slots_change_at_steps=(),
    )
    simulation = Simulation(
        graph(scripts, PATTERNS[name](), 2),
        Random(seed),
        circumstances,
        Trace(None),
        exact_time=True,
        rescaled=lambda chance: graph(scripts, PATTERNS[name](), chance.randint(1, 4)),
    )
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    results = Counter(value for values in simulation.outside.results.values() for value in values)
    found, wanted = results, expected(scripts, PATTERNS[name]())
    assert found == wanted, f"{name}, seed {seed}: missing {wanted - found}, in addition {found - wanted}"
    return bool(simulation.went_back)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("number", seeds(4, in_soak=2_000))
def test_patterns_find_the_same_under_faults(name: str, number: int) -> None:
    """A restart, or another parallelism, would lose or double matches, or time-outs."""
    run(name, number)
