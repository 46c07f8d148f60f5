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
from penstock.cep.automata import automaton_of
from penstock.cep.condition_index import ConditionIndex
from penstock.cep.operators.column_bits import ColumnBits, NeededRows
from penstock.cep.operators.deadlines import Deadlines
from penstock.cep.operators.dynamic_operator import DynamicCepOperator
from penstock.cep.operators.event_buffer import EventBuffer
from penstock.cep.operators.key_states import KeyStates, KeyTimers
from penstock.cep.operators.pattern_filter import PatternFilterOperator
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
    """Return the matches and timeouts of each key, from the automaton alone. `event`: what a record becomes."""
    automaton = automaton_of(pattern)
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
@pytest.mark.parametrize("number", seeds(2, in_soak=2_000))
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
@pytest.mark.parametrize("number", seeds(2, in_soak=1_000))
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


@pytest.mark.parametrize("run_a_job", [run_shorter_times, run_removed_rule])
@pytest.mark.parametrize("number", seeds(2, in_soak=500))
def test_a_rule_changes_under_faults(run_a_job: Callable[[int], None], number: int) -> None:
    """Keys without further events would keep the times of a version before, or timers of a rule that is gone."""
    run_a_job(number)


@pytest.mark.parametrize("number", seeds(2, in_soak=1_000))
def test_matches_of_a_rule_are_found_once_under_faults(number: int) -> None:
    """A rule would be lost in a restart, or its partial matches with its next version, or matches be doubled."""
    run_rules(number)


def events_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Snapshots lack the events that wait for the watermark."""
    patch.setattr(EventBuffer, "store", lambda self, table: None)


def events_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """Events that a snapshot has are not read."""
    patch.setattr(EventBuffer, "restore", lambda self, entries, bits: None)


def partial_matches_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Snapshots lack the partial matches that have changed since the last one."""
    patch.setattr(KeyStates, "store", lambda self: None)


def partial_matches_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A key that was stored begins again."""
    patch.setattr(KeyStates, "other", lambda self, key: None)


def partial_matches_stay_stored(patch: pytest.MonkeyPatch) -> None:
    """A key without partial matches stays in snapshots."""
    patch.setattr(KeyStates, "drop", lambda self, key: self.live.pop(key))


def the_filter_drops_what_begins_no_match(patch: pytest.MonkeyPatch) -> None:
    """Events that only a later step takes are dropped before the exchange."""
    patch.setattr(PatternFilterOperator, "may_drop", lambda self, bits: not self.automaton.moves.begins(bits))


def deadlines_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """Time limits of keys that are in use end only with the key's next event."""
    patch.setattr(Deadlines, "add", lambda self, deadline_ms, key: None)


def stored_keys_have_no_timers(patch: pytest.MonkeyPatch) -> None:
    """Time limits of keys that are restored end only with the key's next event."""
    patch.setattr(KeyTimers, "register", lambda self, key, time_ms: None)


def columns_keep_what_begins_a_match(patch: pytest.MonkeyPatch) -> None:
    """Rows that only a later step takes are left out."""
    patch.setattr(NeededRows, "mask", lambda self, bits: bits & 1 == 1)


def columns_mix_up_their_bits(patch: pytest.MonkeyPatch) -> None:
    """A row has the bits of another condition, where a chunk has many rows."""
    of = ColumnBits.of
    patch.setattr(ColumnBits, "of", lambda self, batch: 3 - of(self, batch))


def rules_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """After a restart the rules that had come are gone, until a next version comes."""
    open_patterns = DynamicCepOperator.open_patterns

    def forgets(self: DynamicCepOperator, is_restored: bool) -> None:
        open_patterns(self, is_restored)
        self.rules.clear()

    patch.setattr(DynamicCepOperator, "open_patterns", forgets)


def a_next_version_begins_again(patch: pytest.MonkeyPatch) -> None:
    """Partial matches of a rule end with its version."""
    process_rules = DynamicCepOperator.process_rules

    def forgets(self: DynamicCepOperator, chunk: Any) -> bool:
        for matching in self.matchings():
            matching.states.live.clear()
        return process_rules(self, chunk)

    patch.setattr(DynamicCepOperator, "process_rules", forgets)


def timers_are_not_set_again(patch: pytest.MonkeyPatch) -> None:
    """Under another limit of time, keys without further events keep the timers that they had, or none."""
    patch.setattr(KeyStates, "set_timers_again", lambda self: None)


def a_removed_rule_keeps_its_timers(patch: pytest.MonkeyPatch) -> None:
    """Timers of a rule that is gone stay until they fire."""
    patch.setattr(KeyTimers, "clear", lambda self: None)


def keys_of_partial_matches_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """A rule does not get the events that are only gaps, which end strict matches."""

    def begin(self: KeyStates, key: Any) -> PartialMatches:
        partial = self.live[key] = PartialMatches()
        return partial

    patch.setattr(KeyStates, "begin", begin)


def conditions_of_rules_are_mixed_up(patch: pytest.MonkeyPatch) -> None:
    """An event meets a condition of one rule, and counts for another one."""
    met = ConditionIndex.met

    def shifted(self: ConditionIndex, event: Any) -> Any:
        conditions, failures = met(self, event)
        return conditions >> 1, failures

    patch.setattr(ConditionIndex, "met", shifted)


def deferred_events_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Events that may begin a match, or belong to it, are lost if they wait for the end of another match."""
    dumped = PartialMatches.dumped
    patch.setattr(PartialMatches, "dumped", lambda self: (*dumped(self)[:-1], ()))


def run_loop(seed: int) -> None:
    """Run the pattern that defers events while a match is open."""
    run("deferring", seed)


def run_one(seed: int) -> None:
    """Run one of the patterns on rows: of those for which seeds are known."""
    names = [name for name in PATTERNS if name != "deferring"]
    run(names[seed % len(names)], seed)


def run_one_on_columns(seed: int) -> None:
    """Run one of the patterns on columns."""
    run_columns(["relaxed", "strict", "without"][seed % 3], seed)


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], Any]]] = [
    (events_are_not_stored, run_one),
    (events_are_not_restored, run_one),
    (partial_matches_are_not_stored, run_one),
    (partial_matches_are_not_restored, run_one),
    (partial_matches_stay_stored, run_one),
    (the_filter_drops_what_begins_no_match, run_one),
    (deadlines_are_not_noted, run_one),
    (stored_keys_have_no_timers, run_one),
    (columns_keep_what_begins_a_match, run_one_on_columns),
    (columns_mix_up_their_bits, run_one_on_columns),
    (events_are_not_restored, run_one_on_columns),
    (rules_are_not_restored, run_rules),
    (a_next_version_begins_again, run_rules),
    (partial_matches_are_not_stored, run_rules),
    (stored_keys_have_no_timers, run_rules),
    (deferred_events_are_not_stored, run_loop),
    (timers_are_not_set_again, run_shorter_times),
    (stored_keys_have_no_timers, run_shorter_times),
    (a_removed_rule_keeps_its_timers, run_removed_rule),
    (keys_of_partial_matches_are_not_noted, run_rules),
    (conditions_of_rules_are_mixed_up, run_rules),
]
FIRST: dict[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], Any]], int] = {
    (a_next_version_begins_again, run_rules): 9,
    (deferred_events_are_not_stored, run_loop): 52,
    (partial_matches_are_not_stored, run_rules): 9,
    (stored_keys_have_no_timers, run_rules): 9,
}
"""The seed that is known to find the fault, if it is not the first one. The search begins there."""


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "run_a_job"), FAULTS)
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], run_a_job: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would pass an operator that loses matches, and its result would be worthless."""
    fault(monkeypatch)
    first = FIRST.get((fault, run_a_job), 1)
    for seed in range(first, first + 60):
        try:
            run_a_job(seed)
        except AssertionError:
            return
    pytest.fail("all programs succeeded despite the fault")
