"""Random patterns on random streams in disorder, with snapshots in between: the automaton in order is the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.unit.cep.oracle import OraclePattern, random_pattern

from penstock.cep import CEP
from penstock.cep.automata import automaton_of
from penstock.cep.partial_matches import PartialMatches
from penstock.testing import OperatorHarness

END = 2**63 - 1
DISORDER_MS = 3


def taken(match: dict[str, list[str]]) -> list[str]:
    return [event for events in match.values() for event in events]


def of_operator(pattern: OraclePattern, arrivals: list[tuple[str, int]], random: Random) -> list[list[str]]:
    """The matches that the operator finds; the last letter of an event is its key."""
    with OperatorHarness(
        lambda stream: CEP.pattern(stream.key_by(lambda event: event[-1]), pattern.built()).select(taken)
    ) as harness:
        highest, watermark = 0, 0
        for event, time in arrivals:
            harness.push(event, time)
            highest = max(highest, time)
            if random.random() < 0.3 and highest - DISORDER_MS - 1 > watermark:
                watermark = highest - DISORDER_MS - 1
                harness.watermark(watermark)
            if random.random() < 0.2:
                harness.operator.prepare_snapshot(1, False)
        harness.watermark(END)
        return sorted(harness.outputs())


def of_automaton(pattern: OraclePattern, arrivals: list[tuple[str, int]]) -> list[list[str]]:
    """The matches of each key's events in order of time."""
    automaton = automaton_of(pattern.built())
    found: list[Any] = []
    for key in "yz":
        partial = PartialMatches()
        for event, time in sorted(arrivals, key=lambda arrival: arrival[1]):
            if event[-1] == key:
                found += automaton.advance_time(partial, time)[0]
                found += automaton.process(partial, event, time, automaton.bits(event))
        found += automaton.advance_time(partial, END)[0]
    return sorted(map(taken, found))


def test_disorder_and_snapshots_change_nothing() -> None:
    """Matches would depend on when events arrive, or on when a snapshot is taken."""
    count = 0
    for seed in range(150):
        random = Random(seed)
        pattern = random_pattern(random)
        events = [(label + key, time) for label, time in pattern.events for key in "yz"]
        delays = [random.choice([0, 0, DISORDER_MS - 1, DISORDER_MS]) for _ in events]
        order = sorted(range(len(events)), key=lambda index: (events[index][1] + delays[index], index))
        arrivals = [events[index] for index in order]
        wanted = of_automaton(pattern, arrivals)
        count += len(wanted)
        assert of_operator(pattern, arrivals, random) == wanted, f"seed {seed}: {pattern.built()}"
    assert count > 300
