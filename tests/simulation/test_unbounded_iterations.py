"""Structured iterations over unbounded streams: what arrives joins the superstep that begins next, exactly once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from tests.simulation.programs import environment, explained, script, simulate, sweeps
from tests.simulation.test_supersteps import RECORDS, SPLITS, all_numbers, drawn, edges

from penstock.api.source import Boundedness
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import ProcessFunction, RuntimeContext
from penstock.engine.runtime.task.held_input import HeldInput
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.hosts.simulator import Circumstances
from penstock.hosts.simulator.sources import ScriptedSource
from penstock.iteration import IterationBodyResult, IterationListener, Iterations, iterate, iterate_delta

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 4
SEEDS_IN_SOAK = 5_000
CALM = Circumstances(jump_rate=0.0)


class Unbounded(ScriptedSource):
    """A source that does not say that it ends."""

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED


def numbers(env: StreamExecutionEnvironment, splits: int = SPLITS, pauses: Any = ()) -> Any:
    """Return an unbounded stream of (split, position)."""
    source = Unbounded([script(split, RECORDS, pauses=pauses) for split in range(splits)], chunk_records_max=2)
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    return stream.map(lambda value: (int(value[0][1:]), value[1][0]))


# Bulk: each number is counted up to a limit, while others arrive.


class CountUp(ProcessFunction[Any, Any], IterationListener):
    """Adds one to each number. A record that was fed back says in which superstep."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Any:
        split, number, counted, fed_back = value
        assert ctx.timestamp() == self.context.get_superstep_number()
        assert ctx.timestamp() > 0, "a record of an unbounded stream in superstep 0"
        assert fed_back is None or ctx.timestamp() == fed_back + 1
        yield split, number, counted + 1, ctx.timestamp()

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> None:
        assert epoch_watermark == self.context.get_superstep_number()


def counting(parallelism: int, splits: int = SPLITS, pauses: Any = (), rounds: int = 4) -> StreamExecutionEnvironment:
    """Return a program that counts as numbers arrive."""
    env = environment(parallelism)
    iteration = iterate(numbers(env, splits, pauses).map(lambda value: (*value, 0, None)))
    counted = iteration.process(CountUp()).key_by(lambda value: value[2]).map(lambda value: value)
    done = counted.filter(lambda value: value[2] >= rounds)
    iteration.close_with(counted.filter(lambda value: value[2] < rounds).rebalance(), outputs=[done])
    done.map(lambda value: value[:3]).print()
    return env


def after_counting() -> list[Any]:
    """Return the results of `counting`."""
    return [(*value, 4) for value in all_numbers()]


def lonely(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program with one split: numbers arrive at one head, when others wait, and nothing is fed back."""
    return counting(parallelism, 1, ((0, 300), (RECORDS // 2, 300)), rounds=1)


def after_lonely() -> list[Any]:
    """Return the results of `lonely`."""
    return [(*value, 1) for value in all_numbers() if value[0] == 0]


# Delta: connected components of a graph whose edges arrive while the iteration runs.


def grown(vertex: int, entry: Any, messages: list[Any]) -> Any:
    """Return the vertex with new neighbours and the least component; None: nothing has changed."""
    _, component, neighbours, _ = entry or (vertex, vertex, frozenset(), 0)
    found = neighbours | {value for _, kind, value in messages if kind == "edge"}
    least = min([component, *(value for _, kind, value in messages if kind == "component")])
    if entry is not None and (least, found) == (component, neighbours):
        return None
    return vertex, least, found, len(messages)


def to_neighbours(entry: Any) -> Any:
    _, component, neighbours, _ = entry
    return [(other, "component", component) for other in neighbours]


def growing(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program for the components of a graph that grows."""
    env = environment(parallelism)
    known = edges()

    def edges_of(value: tuple[int, int]) -> list[Any]:
        vertex = value[0] * RECORDS + value[1]
        both = [(one, "edge", other) for one, other in known] + [(other, "edge", one) for one, other in known]
        return [edge for edge in both if edge[0] == vertex]

    arrived = numbers(env).flat_map(edges_of)
    none: Any = env.from_collection([(0, 0, frozenset(), 0)]).filter(lambda entry: False)
    iteration = iterate_delta(none, arrived, key=lambda entry: entry[0])
    changed = iteration.solution_set.co_group(iteration.workset, grown, key=lambda message: message[0])
    solution = iteration.close_with(changed, changed.flat_map(to_neighbours).rebalance())
    solution.map(lambda entry: entry[:2]).print()
    return env


def grown_components() -> list[Any]:
    """Return the results of `growing`."""
    in_graph = {vertex for edge in edges() for vertex in edge if vertex < SPLITS * RECORDS}
    found = {vertex: vertex for edge in edges() for vertex in edge}
    for _ in range(20):
        for one, other in edges():
            found[one] = found[other] = min(found[one], found[other])
    return [(vertex, found[vertex]) for vertex in in_graph]


# Delta, deferred: the last superstep has a delta, and feeds nothing back.


def deferring(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program whose entries and messages arrive while messages go round, and end with the delta."""
    env = environment(parallelism)
    arrived = numbers(env).map(lambda value: value[0] * RECORDS + value[1])
    entries, messages = arrived.map(lambda key: (key, -1)), arrived.map(lambda key: (key, 3))
    iteration = iterate_delta(entries, messages, key=lambda entry: entry[0], deferred=True)
    left = iteration.solution_set.co_group(
        iteration.workset, lambda key, entry, messages: min(messages), key=lambda message: message[0]
    )
    again = left.filter(lambda message: message[1] > 0).map(lambda message: (message[0], message[1] - 1))
    iteration.close_with(left, again.rebalance()).print()
    return env


def after_deferring() -> list[Any]:
    """Return the results of `deferring`."""
    return [(split * RECORDS + number, 0) for split, number in all_numbers()]


# Several streams: a bounded variable is there before the first record of an unbounded data stream.


def entering(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program in which an unbounded data stream meets a variable that goes round once."""
    env = environment(parallelism)
    initial = env.from_collection([(-1, -1)])

    def body(variables: Any, data: Any) -> IterationBodyResult:
        joined = variables[0].union(data[0]).map(lambda value: (value[0], value[1], 1) if len(value) == 2 else value)
        doubled = joined.key_by(lambda value: value[1]).map(lambda value: (value[0], value[1], value[2] * 2))
        again = doubled.filter(lambda value: value[2] < 8)
        return IterationBodyResult([again.rebalance()], [doubled.filter(lambda value: value[2] >= 8)])

    Iterations.iterate_unbounded_streams([initial], [numbers(env)], body)[0].print()
    return env


def after_entering() -> list[Any]:
    """Return the results of `entering`."""
    return [(*value, 8) for value in [(-1, -1), *all_numbers()]]


PROGRAMS: dict[str, tuple[Callable[[int], StreamExecutionEnvironment], Callable[[], list[Any]]]] = {
    "counting": (counting, after_counting),
    "lonely": (lonely, after_lonely),
    "growing": (growing, grown_components),
    "deferring": (deferring, after_deferring),
    "entering": (entering, after_entering),
}


def results_of(name: str, seed: int, circumstances: Circumstances) -> tuple[JobStatus | None, list[Any]]:
    """Run a program; return how it ended, and its results."""
    simulation = simulate(PROGRAMS[name][0](1 + seed % 3), seed, circumstances)
    with explained(simulation):
        status = simulation.run()
    values = [tuple(value) for values in simulation.results.values() for value in values]
    return None if simulation.driver.drained else status, values


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_what_arrives_is_in_one_superstep(name: str, seed: int) -> None:
    """A record would be lost, or be in two supersteps, or the iteration would end while more may come."""
    status, values = results_of(name, seed, CALM)
    assert status is JobStatus.FINISHED
    assert sorted(values) == sorted(PROGRAMS[name][1]())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_an_unbounded_iteration_survives_faults(name: str, seeds: int) -> None:
    """A barrier would stand elsewhere between the records of the input than in the iteration."""
    finished = 0
    for seed in range(seeds):
        status, values = results_of(name, seed, drawn(seed))
        if status is JobStatus.FINISHED:
            finished += 1
            assert set(values) == set(PROGRAMS[name][1]()), seed
    assert finished > seeds / 3


def not_woken(patch: pytest.MonkeyPatch) -> None:
    """A head that begins a superstep does not tell heads that wait."""
    patch.setattr(SuperstepFeedback, "_wake", lambda self: None)


def begin_not_fed_back(patch: pytest.MonkeyPatch) -> None:
    """A begin does not travel to heads that wait."""
    begins = Supersteps.begins

    def asleep(self: Supersteps, begin: Any, edges: Any) -> None:
        begins(self, msgspec.structs.replace(begin, wakes=False), edges)

    patch.setattr(Supersteps, "begins", asleep)


def ends_while_open(patch: pytest.MonkeyPatch) -> None:
    """An iteration ends when nothing is fed back, although more may arrive."""
    patch.setattr(HeldInput, "is_open", False)


def takes_what_is_behind_a_barrier(patch: pytest.MonkeyPatch) -> None:
    """A superstep takes records that are behind a barrier which waits."""
    take = HeldInput.take

    def all_of(self: HeldInput, barriers: list[Any]) -> Any:
        taken = take(self, barriers)
        while not self.is_empty:
            reached: list[Any] = []
            taken += take(self, reached)
            barriers += reached
        return taken

    patch.setattr(HeldInput, "take", all_of)


def forgets_input_behind_a_barrier(patch: pytest.MonkeyPatch) -> None:
    """Records that arrived while a barrier waited are dropped when it leaves."""
    take = HeldInput.take

    def all_of(self: HeldInput, barriers: list[Any]) -> Any:
        waited = bool(barriers)
        taken = take(self, barriers)
        if barriers and not waited:
            self._items.clear()
        return taken

    patch.setattr(HeldInput, "take", all_of)


@pytest.mark.parametrize(
    "fault",
    [not_woken, begin_not_fed_back, ends_while_open, takes_what_is_behind_a_barrier, forgets_input_behind_a_barrier],
)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not notice this fault."""
    fault(monkeypatch)
    for seed in range(40):
        for name in PROGRAMS:
            crashing = dataclasses.replace(
                CALM,
                checkpoint_at_steps=tuple(range(0, 800, 20)),
                crash_at_steps=tuple(Random(seed).sample(range(20, 400), 3)),
                crash_rate=0.9,
                channel_rows=1 + seed % 3,
            )
            try:
                status, values = results_of(name, seed, crashing if "barrier" in fault.__name__ else CALM)
            except AssertionError:
                return
            if status is not JobStatus.FINISHED or set(values) != set(PROGRAMS[name][1]()):
                return
    raise AssertionError(f"no program found {fault.__name__}")
