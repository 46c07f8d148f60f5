"""Several iterations of all kinds in one job, of Python objects: one behind another, and beside each other.

Each is compared with plain loops: undisturbed, and under all faults, savepoints, and restores with another parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.simulation.iteration_programs import CALM, first
from tests.simulation.programs import environment, explained, graph_of, simulate, sweeps
from tests.simulation.test_chained_iterations import crashing
from tests.simulation.test_supersteps import drawn

from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import GlobalWindows
from penstock.hosts.simulator import Circumstances
from penstock.iteration import (
    IterationBodyResult,
    IterationConfig,
    Iterations,
    ReplayableDataStreamList,
    iterate,
    iterate_delta,
    superstep_windows,
    with_broadcast_set,
)

pytestmark = pytest.mark.simulation

KEYS = 7
LIMIT = 97
STATIC = [3, 5, 8]
Pairs = Counter[tuple[int, int]]


class Part(NamedTuple):
    """A stream of pairs (key, number), and what it has by plain loops."""

    stream: Any
    pairs: Pairs


def sums_of(pairs: Pairs) -> Pairs:
    """Return the sum of each key, kept small."""
    sums: Counter[int] = Counter()
    for (key, number), count in pairs.items():
        sums[key] += number * count
    return Counter({(key, sums[key] % LIMIT): 1 for key in {key for key, _ in pairs}})


def changed(pairs: Pairs, change: Callable[[int, int], tuple[int, int]]) -> Pairs:
    """Return the pairs that `change` makes of each."""
    found: Pairs = Counter()
    for pair, count in pairs.items():
        found[change(*pair)] += count
    return found


def summed(stream: Any) -> Any:
    """Sum the numbers of each key in the superstep."""
    windows = stream.key_by(first).window(superstep_windows())
    return windows.reduce(lambda one, other: (one[0], one[1] + other[1])).map(lambda pair: (pair[0], pair[1] % LIMIT))


def bulk(random: Random, part: Part) -> Part:
    """Add to numbers, send them to the next key, and add them up, in an order that is drawn; large ones leave."""
    supersteps, added, bound = random.randint(1, 5), random.randint(1, 9), random.choice([LIMIT, 40])
    steps = [random.choice(["add", "turn", "sum", "divide"]) for _ in range(random.randint(1, 3))]
    iteration = iterate(part.stream, supersteps, name=f"bulk {random.random()}")
    stream: Any = iteration
    for step in steps:
        if step == "add":
            stream = stream.map(lambda pair: (pair[0], (pair[1] + added) % LIMIT))
        elif step == "turn":
            stream = stream.map(lambda pair: ((pair[0] + 1) % KEYS, pair[1])).rebalance()
        elif step == "sum":
            stream = summed(stream)
        else:
            stream = stream.filter(lambda pair: pair[1] % 2).union(stream.filter(lambda pair: pair[1] % 2 == 0))
    result = iteration.close_with(stream.filter(lambda pair: pair[1] < bound).rebalance())
    pairs = part.pairs
    for _ in range(supersteps):
        for step in steps:
            if step == "add":
                pairs = changed(pairs, lambda key, number: (key, (number + added) % LIMIT))
            elif step == "turn":
                pairs = changed(pairs, lambda key, number: ((key + 1) % KEYS, number))
            elif step == "sum":
                pairs = sums_of(pairs)
        pairs = Counter({pair: count for pair, count in pairs.items() if pair[1] < bound})
    return Part(result, pairs)


def delta(random: Random, part: Part) -> Part:
    """Add messages up in a solution set; halves of them are the next messages, for the next key."""
    is_deferred, base = random.random() < 0.5, random.randint(0, 9)
    entries = part.stream.environment.from_collection([(key, base) for key in range(0, KEYS, 2)])
    settings: Any = {"key": first, "deferred": is_deferred, "name": f"delta {random.random()}"}
    iteration = iterate_delta(entries, part.stream, None, **settings)
    added = iteration.solution_set.co_group(
        iteration.workset,
        lambda key, entry, messages: (key, (entry[1] if entry else 0) + sum(number for _, number in messages)),
        key=first,
    )
    halves = iteration.workset.map(lambda pair: ((pair[0] + 1) % KEYS, pair[1] // 2)).filter(lambda pair: pair[1])
    result = iteration.close_with(added, halves.rebalance())
    totals = dict.fromkeys(range(0, KEYS, 2), base)
    messages = part.pairs
    while messages:
        for (key, number), count in messages.items():
            totals[key] = totals.get(key, 0) + number * count
        halved = changed(messages, lambda key, number: ((key + 1) % KEYS, number // 2))
        messages = Counter({pair: count for pair, count in halved.items() if pair[1]})
    return Part(result, Counter(totals.items()))


def distances(random: Random, part: Part) -> Part:
    """The shortest ways on a ring: the same in any order of the messages, so that subtasks may be ahead."""
    slack, far = random.randint(0, 2), random.randint(1, 9)
    entries = part.stream.environment.from_collection([(key, 1_000) for key in range(KEYS)])
    iteration = iterate_delta(entries, part.stream, key=first, slack=slack, name=f"distances {random.random()}")

    def nearer(key: int, entry: Any, messages: list[Any]) -> Any:
        best = min(number for _, number in messages)
        return (key, best) if best < entry[1] else None

    closer = iteration.solution_set.co_group(iteration.workset, nearer, key=first)
    told = closer.flat_map(
        lambda pair: [((pair[0] + 1) % KEYS, pair[1] + far), ((pair[0] - 2) % KEYS, pair[1] + 2 * far + 1)]
    )
    result = iteration.close_with(closer, told)
    best = dict.fromkeys(range(KEYS), 1_000)
    for key, number in part.pairs:
        best[key] = min(best[key], number)
    # As many turns as a way has steps at most.
    for _ in range(2 * KEYS):
        for key, number in list(best.items()):
            for other, way in (((key + 1) % KEYS, far), ((key - 2) % KEYS, 2 * far + 1)):
                best[other] = min(best[other], number + way)
    return Part(result, Counter(best.items()))


def replayed(random: Random, part: Part) -> Part:
    """Add the sum of what is replayed in each superstep, in all subtasks."""
    supersteps = random.randint(1, 4)

    def body(variables: Any, data: Any) -> IterationBodyResult:
        moved = with_broadcast_set(
            variables[0], data[0], lambda pairs, known: [(key, (number + sum(known)) % LIMIT) for key, number in pairs]
        )
        fed_back = summed(moved)
        return IterationBodyResult([fed_back.rebalance()], [fed_back.map(lambda pair: pair)])

    static = part.stream.environment.from_collection(STATIC)
    (result,) = Iterations.iterate_bounded_streams_until_termination(
        [part.stream], ReplayableDataStreamList.replay(static), IterationConfig(supersteps_max=supersteps), body
    )
    pairs, found = part.pairs, Counter[Any]()
    for _ in range(supersteps):
        pairs = sums_of(changed(pairs, lambda key, number: (key, (number + sum(STATIC)) % LIMIT)))
        found += pairs
    return Part(result, found)


def mixture(seed: int, parallelism: int) -> tuple[StreamExecutionEnvironment, set[Any]]:
    """Return a program of several iterations, and its results: (iteration, key, number) and how often it has it."""
    random = Random(seed)
    env = environment(parallelism)
    initial = Counter((random.randrange(KEYS), random.randrange(30)) for _ in range(random.choice([1, 8, 20])))
    parts = [Part(env.from_collection(list(initial.elements())).rebalance(), initial)]
    for _ in range(random.randint(2, 3)):
        kind = random.choice([bulk, delta, distances, replayed])
        before = random.choice(parts[-2:])
        if not before.pairs:
            continue
        small = before.stream.map(lambda pair: (pair[0], pair[1] % LIMIT))
        parts.append(kind(random, Part(small, changed(before.pairs, lambda key, number: (key, number % LIMIT)))))
    # What comes twice after a failure has the same count, because print() is not transactional.
    named = [part.stream.map(lambda pair, index=index: ((index, *pair), 1)) for index, part in enumerate(parts[1:])]
    windows = named[0].union(*named[1:]).key_by(first).window(GlobalWindows.create_with_end_of_stream_trigger())
    windows.reduce(lambda one, other: (one[0], one[1] + other[1])).print()
    expected = {((index, *pair), count) for index, part in enumerate(parts[1:]) for pair, count in part.pairs.items()}
    return env, expected


def ran(seed: int, circumstances: Circumstances) -> tuple[bool, set[Any], set[Any]]:
    """Run a program; return whether it has read all, its results, and what they should be."""
    env, expected = mixture(seed, 1 + seed % 3)
    simulation = simulate(
        env, seed, circumstances, rescaled=lambda chance: graph_of(mixture(seed, chance.randint(1, 4))[0])
    )
    with explained(simulation):
        status = simulation.run()
        assert status is not JobStatus.FAILED, f"{seed}: {simulation.error}"
    found = {tuple(value) for values in simulation.results.values() for value in values}
    return status is JobStatus.FINISHED and not simulation.driver.drained, found, expected


@pytest.mark.parametrize("seeds", sweeps(4, 2_000))
def test_several_iterations_give_what_plain_loops_give(seeds: int) -> None:
    """One iteration would end another one, or get the records of a later superstep of it."""
    for seed in range(seeds):
        has_ended, found, expected = ran(seed, CALM)
        assert has_ended and found == expected, seed


@pytest.mark.parametrize("seeds", sweeps(4, 2_000))
def test_several_iterations_survive_crashes(seeds: int) -> None:
    """A checkpoint would have one iteration before a superstep, and the one behind it after."""
    assert survived(seeds, crashing) > seeds / 2


@pytest.mark.soak
def test_several_iterations_survive_faults() -> None:
    """The same with savepoints, restores with another parallelism, and all other faults, which take minutes."""
    assert survived(1_000, drawn) > 1_000 / 5


def survived(seeds: int, circumstances: Callable[[int], Circumstances]) -> int:
    """Run programs under faults, and check their results. Return how many have read all."""
    finished = 0
    for seed in range(seeds):
        has_ended, found, expected = ran(seed, circumstances(seed))
        if has_ended:
            finished += 1
            assert found == expected, f"{seed}: missing {expected - found}, and {found - expected}"
    return finished
