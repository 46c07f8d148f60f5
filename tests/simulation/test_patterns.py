"""Patterns under random schedules and faults: the automaton, on the events of each key in order, is the oracle."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.simulation.programs import environment, graph_of, scripted, seeds

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    WithinType,
    field,
    pattern_to_json,
)
from penstock.cep.automaton import Automaton
from penstock.cep.operators.cep_operator import CepOperator
from penstock.cep.operators.dynamic_operator import DynamicCepOperator
from penstock.cep.partial_matches import PartialMatches
from penstock.cep.shown_matches import shown_matches
from penstock.common import WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import OutputTag
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.state.live_table import live_tables
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
    "deferring": lambda: Pattern.begin("a", PAST_LAST).where(a).one_or_more().greedy().followed_by("c").where(c)
    .within(60),
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


def expected(
    scripts: list[SplitScript], pattern: Pattern[Any, Any], event: Callable[[Record], Any] = lambda record: record
) -> Counter[Any]:
    """Return the matches and timeouts of each key, from the plain automaton. `event`: what a record becomes."""
    automaton = Automaton(pattern)
    results: Counter[Any] = Counter()
    keys: dict[int, list[tuple[int, Record]]] = {}
    for one in scripts:
        for record, time in one.records:
            keys.setdefault(record[2], []).append((time, event(record)))
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


def circumstances(seed: int) -> Circumstances:
    """Draw circumstances under which results are exact."""
    # Splits stay with their subtasks: read in another order, events would rightly be late.
    return dataclasses.replace(
        Circumstances.draw(Random(seed + 1)),
        exactly_once=True,
        damage_rate=0.0,
        cancel_at_step=None,
        drain_rate=0.0,
        slots_change_at_steps=(),
    )


def run(name: str, seed: int) -> bool:
    """Run a job, and compare its results. Returns whether it went back to a checkpoint."""
    random = Random(seed)
    scripts = [script(split, random) for split in range(2)]
    simulation = Simulation(
        graph(scripts, PATTERNS[name](), 2),
        Random(seed),
        circumstances(seed),
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
@pytest.mark.parametrize("number", seeds((2,), in_soak=2_000))
def test_patterns_find_the_same_under_faults(name: str, number: int) -> None:
    """A restart, or another parallelism, would lose or double matches, or time-outs."""
    run(name, number + 1)


class Event(NamedTuple):
    """A record whose fields expressions can name, and columns have."""

    origin: str
    place: int
    key: int
    kind: int


def event_of(record: Record) -> Event:
    return Event(record[0], record[1][0], record[2], record[3] % 5)


def in_columns(name: str) -> Pattern[Any, Any]:
    """The pattern with conditions that columns can compute, or, of "iterative", not only such."""
    is_a, is_b, is_c = field("kind") == 0, field("kind") == 1, field("kind") == 2
    if name == "relaxed":
        return Pattern.begin("a").where(is_a).followed_by("b").where(is_b).within(40)
    if name == "strict":
        loop = Pattern.begin("a", PAST_LAST).where(is_a).one_or_more().consecutive().greedy()
        return loop.next("b").where(is_b)
    if name == "without":
        return Pattern.begin("a").where(is_a).not_followed_by("b").where(is_b).within(50)
    return (
        Pattern.begin("a")
        .where(is_a)
        .followed_by("b")
        .where(lambda event: event.kind == 1)
        .followed_by("c")
        .where(is_c)
        .within(120)
    )


def column_graph(scripts: list[SplitScript], pattern: Pattern[Any, Any], parallelism: int) -> JobGraph:
    """Return a job that looks for the pattern in columns."""
    env = environment(parallelism)
    events = env.from_source(scripted(*scripts), WatermarkStrategy.for_monotonous_timestamps(), "events")
    columns = events.set_parallelism(2).map(event_of).set_parallelism(2).as_columns(Event).set_parallelism(2)
    found = CEP.pattern(columns.key_by("key"), pattern).process(Shown())
    found.union(found.get_side_output(TIMED_OUT)).print()
    return graph_of(env)


def long_script(split: int, random: Random) -> SplitScript:
    """Return a split whose chunks may have enough rows for Arrow."""
    parts = [script(split, random) for _ in range(5)]
    records, last = [], 0
    for part in parts:
        records += [(record, last + time) for record, time in part.records]
        last = records[-1][1]
    numbered = [((origin, (at,), key, kind), time) for at, ((origin, _, key, kind), time) in enumerate(records)]
    return SplitScript(f"s{split}", split, tuple(numbered), ())


def run_columns(name: str, seed: int) -> bool:
    """Run a job on columns, and compare its results. Returns whether it went back to a checkpoint."""
    random = Random(seed)
    scripts = [long_script(split, random) for split in range(2)]
    simulation = Simulation(
        column_graph(scripts, in_columns(name), 2),
        Random(seed),
        circumstances(seed),
        Trace(None),
        exact_time=True,
        rescaled=lambda chance: column_graph(scripts, in_columns(name), chance.randint(1, 4)),
    )
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    found = Counter(value for values in simulation.outside.results.values() for value in values)
    wanted = expected(scripts, in_columns(name), event_of)
    assert found == wanted, f"{name}, seed {seed}: missing {wanted - found}, in addition {found - wanted}"
    return bool(simulation.went_back)


@pytest.mark.parametrize("name", ["relaxed", "strict", "without", "mixed"])
@pytest.mark.parametrize("number", seeds((2,), in_soak=1_000))
def test_columns_find_the_same_under_faults(name: str, number: int) -> None:
    """Columns would lose or double matches where rows do not."""
    run_columns(name, number + 1)


RULES = ("relaxed", "strict")
"""Patterns that come as rules. An event concerns the second one, too, where it is only a gap."""


def rule(version: int, name: str = "relaxed") -> str:
    """Return a rule: a pattern as JSON. All its versions have one pattern."""
    pattern = json.loads(pattern_to_json(in_columns(name)))
    return json.dumps({"id": name, "version": version, "pattern": pattern})


def dynamic_graph(
    scripts: list[SplitScript], parallelism: int, rules: Sequence[str] = (), pauses: tuple[tuple[int, int], ...] = ()
) -> JobGraph:
    """Return a job that looks for the patterns of rules, whose versions come while events come.

    `rules`: instead of four versions of each of `RULES`, these. `pauses`: between them.
    """
    env = environment(parallelism)
    events = env.from_source(scripted(*scripts), WatermarkStrategy.for_monotonous_timestamps(), "events")
    events.set_parallelism(2)
    typed = events.map(event_of).set_parallelism(2)
    if not rules:
        rules = [rule(version, name) for version in range(1, 5) for name in RULES]
        pauses = tuple((2 * position, LATER_MS + 40 * position) for position in range(1, 4))
    texts = list(rules)
    records = tuple((("rules", (position,), 0, position), 0) for position in range(len(texts)))
    versions = env.from_source(
        scripted(SplitScript("rules", 0, records, pauses)), WatermarkStrategy.no_watermarks(), "rules"
    )
    control = versions.set_parallelism(1).map(lambda record: texts[record[3]]).set_parallelism(1)
    found = CEP.dynamic_patterns(typed.key_by(lambda event: event.key), control).process(Shown())
    found.union(found.get_side_output(TIMED_OUT)).print()
    return graph_of(env)


LATER_MS = 3_000
"""Events pause for so long before the first one, so that the first version of the rule is there in all subtasks."""


def run_rules(seed: int) -> bool:
    """Run a job with rules, and compare its results. Returns whether it went back to a checkpoint."""
    random = Random(seed)
    scripts = []
    for split in range(2):
        one = script(split, random)
        scripts.append(dataclasses.replace(one, pauses=((0, LATER_MS), (len(one.records) // 2, 60))))
    simulation = Simulation(
        dynamic_graph(scripts, 2),
        Random(seed),
        circumstances(seed),
        Trace(None),
        exact_time=True,
        rescaled=lambda chance: dynamic_graph(scripts, chance.randint(1, 4)),
    )
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    found = Counter(value for values in simulation.outside.results.values() for value in values)
    wanted = sum((expected(scripts, in_columns(name), event_of) for name in RULES), Counter())
    assert found == wanted, f"seed {seed}: missing {wanted - found}, in addition {found - wanted}"
    return bool(simulation.went_back)


def halves(split: int, random: Random) -> SplitScript:
    """Return a split with a long pause. Behind it only one of its keys has events."""
    first, second = script(split, random), script(split, random)
    last = first.records[-1][1]
    records = list(first.records)
    for number, ((origin, _, _, kind), time) in enumerate(second.records):
        records.append(((origin, (len(first.records) + number,), 10 * split, kind), last + 100 + time))
    pauses = ((0, LATER_MS), (len(first.records), LATER_MS), (len(records) - 1, LATER_MS))
    return SplitScript(f"s{split}", split, tuple(records), pauses)


def run_changing_rules(seed: int, rules: Sequence[str]) -> tuple[Counter[Any], list[SplitScript]]:
    """Run a job whose one rule changes between the halves of its events. Returns what it found, and the events."""
    random = Random(seed)
    scripts = [halves(split, random) for split in range(2)]
    pauses = ((1, LATER_MS * 3 // 2),)
    simulation = Simulation(
        dynamic_graph(scripts, 2, rules, pauses),
        Random(seed),
        circumstances(seed),
        Trace(None),
        exact_time=True,
        rescaled=lambda chance: dynamic_graph(scripts, chance.randint(1, 4), rules, pauses),
    )
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    return Counter(value for values in simulation.outside.results.values() for value in values), scripts


def run_shorter_times(seed: int) -> None:
    """Let a next version limit the time of matches: each event that begins one has one match, or one timeout."""
    unlimited = json.loads(rule(1))
    del unlimited["pattern"]["steps"][-1]["within_ms"]
    found, scripts = run_changing_rules(seed, [json.dumps(unlimited), rule(2)])
    begun = Counter((record[0], record[1][0]) for one in scripts for record, _ in one.records if record[3] % 5 == 0)
    outcomes: Counter[Any] = Counter()
    for result, count in found.items():
        outcomes[dict(result[1])["a"][0]] += count
    assert outcomes == begun, f"seed {seed}: missing {begun - outcomes}, in addition {outcomes - begun}"


def run_removed_rule(seed: int) -> None:
    """Remove a rule: no timer reminds of it, and what it had found is right."""
    unknown: list[Any] = []
    known = DynamicCepOperator.matching_of

    def matching_of(self: DynamicCepOperator, namespace: Any) -> Any:
        matching = known(self, namespace)
        if matching is None:
            unknown.append(namespace)
        return matching

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DynamicCepOperator, "matching_of", matching_of)
        removed = json.dumps({"id": "relaxed", "version": 2, "remove": True})
        found, scripts = run_changing_rules(seed, [rule(1), removed])
    wanted = expected(scripts, in_columns("relaxed"), event_of)
    assert not found - wanted, f"seed {seed}: in addition {found - wanted}"
    assert not unknown, f"seed {seed}: timers of the rule that is gone: {unknown}"


STRICT_WITHIN_MS = 80


def strict_pattern(is_limited: bool, skips: bool) -> Pattern[Any, Any]:
    """Return a strict pattern with long loops. `is_limited`: by time. `skips`: past the last event of a match."""
    strategy = PAST_LAST if skips else AfterMatchSkipStrategy.no_skip()
    loop = Pattern.begin("a", strategy).where(field("kind") != 1).one_or_more().consecutive()
    pattern: Pattern[Any, Any] = loop.next("b").where(field("kind") <= 1)
    return pattern.within(STRICT_WITHIN_MS) if is_limited else pattern


def run_other_skipping(seed: int, skips: bool = True) -> None:
    """Let a next version of a strict rule have another skip strategy, and so another automaton.

    `skips`: whether the second one skips past the last event of a match. Of each key, results are those of the plain
    automaton, which changes at some event.
    """
    # Time that releases matches at the change would be another place for it.
    patterns = [strict_pattern(skips, one) for one in (not skips, skips)]
    rules = [
        json.dumps({"id": "strict", "version": version, "pattern": json.loads(pattern_to_json(one))})
        for version, one in enumerate(patterns, 1)
    ]
    found, scripts = run_changing_rules(seed, rules)
    for key, events in events_of_keys(scripts).items():
        places = {(event[0], event[1]) for _, event in events}
        of_key = Counter({result: count for result, count in found.items() if result[1][0][1][0] in places})
        possible = [results_with_change(patterns, events, change) for change in range(len(events) + 1)]
        assert of_key in possible, f"seed {seed}, key {key}: {of_key - possible[-1]}, {possible[-1] - of_key}"


def events_of_keys(scripts: list[SplitScript]) -> dict[int, list[tuple[int, Any]]]:
    """Return the events of each key with their times, in order."""
    keys: dict[int, list[tuple[int, Any]]] = {}
    for one in scripts:
        for record, time in one.records:
            keys.setdefault(record[2], []).append((time, event_of(record)))
    return keys


def results_with_change(
    patterns: Sequence[Pattern[Any, Any]], events: list[tuple[int, Any]], change: int
) -> Counter[Any]:
    """Return what plain automata find in the events of a key: the first one in so many, the second one in the rest."""
    automata = [Automaton(pattern) for pattern in patterns]
    partial, results = PartialMatches(), Counter[Any]()
    for position, (time, event) in enumerate([*events, (END, None)]):
        automaton = automata[position >= change]
        if position == change:
            partial = automaton.load(partial.dumped())
        matches, timeouts = automaton.advance_time(partial, time)
        results.update(("timeout", path_of(match), end) for match, end in timeouts)
        if event is not None:
            matches += automaton.process(partial, event, time, automaton.bits(event))
        results.update(("match", path_of(match)) for match in matches)
    return results


def run_no_more_skipping(seed: int) -> None:
    """Let a next version of a strict rule skip nothing."""
    run_other_skipping(seed, skips=False)


def run_queried(seed: int) -> None:
    """Run a pattern whose partial matches are queryable.

    What a live query shows before a snapshot is what the snapshot has, and what its stored partial matches mean.
    """
    random = Random(seed)
    scripts = [script(split, random) for split in range(2)]
    wrong: list[str] = []
    prepare = CepOperator.prepare_snapshot

    def prepare_snapshot(self: CepOperator, checkpoint_id: int, savepoint: bool) -> list[Any]:
        name = self.queryable_states()["open"]
        before = dict(live_tables(self.backend)[name].first(1_000))
        result = prepare(self, checkpoint_id, savepoint)
        after = dict(self.backend.tables[name].items())
        entries = {key: self.automaton.load(value) for key, (_, value) in self.matches_table.items()}
        meant = {key: shown_matches(self.automaton, partial) for key, partial in entries.items()}
        if not before == after == meant:
            wrong.append(f"live {before}, stored {after}, meant {meant}")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CepOperator, "prepare_snapshot", prepare_snapshot)
        simulation = Simulation(
            queried_graph(scripts, 2),
            Random(seed),
            dataclasses.replace(circumstances(seed), checkpoint_at_steps=tuple(range(0, 800, 40))),
            Trace(None),
            exact_time=True,
            rescaled=lambda chance: queried_graph(scripts, chance.randint(1, 4)),
        )
        assert simulation.run() is JobStatus.FINISHED, simulation.error
    assert not wrong, f"seed {seed}: {wrong[0]}"


def queried_graph(scripts: list[SplitScript], parallelism: int) -> JobGraph:
    """Return a job whose partial matches have a name."""
    env = environment(parallelism)
    events = env.from_source(scripted(*scripts), WatermarkStrategy.for_monotonous_timestamps(), "events")
    keyed = events.set_parallelism(2).key_by(lambda record: record[2])
    CEP.pattern(keyed, PATTERNS["loop"]()).set_queryable("open").select(path_of).print()
    return graph_of(env)


@pytest.mark.parametrize("number", seeds((3,), in_soak=500))
def test_queries_show_what_snapshots_have_under_faults(number: int) -> None:
    """A live query would show partial matches that have ended, or miss those that were restored."""
    run_queried(number)


def test_results_of_times_that_were_over_are_not_late() -> None:
    """A window behind a rule whose next version has a shorter time limit would drop the timeouts."""
    run_shorter_times(2)


@pytest.mark.parametrize("run_a_job", [run_shorter_times, run_removed_rule, run_other_skipping, run_no_more_skipping])
@pytest.mark.parametrize("number", seeds((3,), in_soak=500))
def test_a_rule_changes_under_faults(run_a_job: Callable[[int], None], number: int) -> None:
    """Keys without further events would keep the times of a version before, or timers of a rule that is gone."""
    run_a_job(number)


@pytest.mark.parametrize("number", seeds((2,), in_soak=1_000))
def test_matches_of_a_rule_are_found_once_under_faults(number: int) -> None:
    """A rule would be lost in a restart, or its partial matches with its next version, or matches be doubled."""
    run_rules(number)
