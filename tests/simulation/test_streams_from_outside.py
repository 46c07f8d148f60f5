"""Iterations whose operators read streams from outside: no checkpoint stops superstep 0, or a restored one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, explained, script, scripted, simulate, sweeps

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.hosts.simulator import Circumstances
from penstock.iteration import iterate, iterate_delta, superstep_windows

pytestmark = pytest.mark.simulation

SPLITS, RECORDS = 2, 12
VERTICES = SPLITS * RECORDS
SUPERSTEPS = 6
TIMEOUT_MS = 60_000


def first(value: Any) -> int:
    """Return the key."""
    return int(value[0])


def read_slowly(env: StreamExecutionEnvironment) -> Any:
    """Return the numbers of all vertices: barriers come between them."""
    source = scripted(*(script(split, RECORDS) for split in range(SPLITS)))
    numbers = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    return numbers.map(lambda value: int(value[0][1:]) * RECORDS + value[1][0])


def distances(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program for the distances in a ring. Its vertices and edges are read after its first workset."""
    env = environment(parallelism)
    vertices = read_slowly(env).map(lambda vertex: (vertex, VERTICES))
    edges = read_slowly(env).map(lambda vertex: (vertex, (vertex + 1) % VERTICES))
    iteration = iterate_delta(vertices, env.from_collection([(0, 0)]), SUPERSTEPS, key=first)
    replayed = iteration.workset.replay(edges)
    further = iteration.workset.join(replayed).where(first).equal_to(first).window(superstep_windows())
    messages = further.apply(lambda value, edge: (edge[1], value[1] + 1))
    changed = iteration.solution_set.co_group(
        messages, lambda key, entry, found: min(found) if min(found)[1] < entry[1] else None, key=first
    )
    iteration.close_with(changed, changed.rebalance()).print()
    return env


def found_distances() -> list[Any]:
    """Return the results of `distances`."""
    return [(vertex, vertex if 0 < vertex <= SUPERSTEPS else VERTICES) for vertex in range(VERTICES)]


def entered(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that adds one to each number, with numbers that enter later."""
    env = environment(parallelism)
    iteration = iterate(env.from_collection([-1]), SUPERSTEPS)
    numbers = iteration.union(iteration.enter(read_slowly(env)))
    iteration.close_with(numbers.map(lambda number: number + 1).rebalance()).print()
    return env


def after_entering() -> list[Any]:
    """Return the results of `entered`."""
    return [number + SUPERSTEPS for number in range(-1, VERTICES)]


PROGRAMS: dict[str, tuple[Callable[[int], StreamExecutionEnvironment], Callable[[], list[Any]]]] = {
    "delta": (distances, found_distances),
    "enter": (entered, after_entering),
}


def circumstances(seed: int, *, each_superstep: bool = False) -> Circumstances:
    """Return circumstances with a checkpoint every few steps, several at once, and crashes."""
    random = Random(seed)
    return Circumstances(
        jump_rate=0.0,
        each_superstep=each_superstep,
        checkpoint_interval_ms=random.choice([1, 3, 10]),
        checkpoint_timeout_ms=TIMEOUT_MS,
        concurrent_max=random.choice([1, 3, 20]),
        crash_at_steps=tuple(random.sample(range(100, 1_500), 2)),
        crash_rate=0.5 * (seed % 2),
        channel_rows=random.choice([2, 64]),
    )


def run(name: str, seed: int, around: Circumstances) -> int:
    """Run a program, check its results, and return how long it took (ms)."""
    make, expected = PROGRAMS[name]
    simulation = simulate(make(1 + seed % 3), seed, around)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
        values = [tuple(one) if isinstance(one, list) else one for v in simulation.results.values() for one in v]
        assert set(values) == set(expected())
        return simulation.clock.now_ms() - around.start_ms


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("each_superstep", [False, True])
@pytest.mark.parametrize("seeds", sweeps(2, 500))
def test_no_checkpoint_stops_a_superstep(name: str, each_superstep: bool, seeds: int) -> None:
    """Barriers on streams that are read would wait for those of the heads, and these for the end of the superstep."""
    for seed in range(seeds):
        took_ms = run(name, seed, circumstances(seed, each_superstep=each_superstep))
        assert took_ms < TIMEOUT_MS, f"seed {seed}: the superstep waits until a checkpoint expires"


def test_a_head_that_keeps_its_barrier_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not notice this fault."""
    monkeypatch.setattr(SuperstepFeedback, "_may_read_outside", False)
    assert any(run("delta", seed, circumstances(seed)) >= TIMEOUT_MS for seed in range(4))
