"""Iterations on arrays: connected components, compared with plain NumPy, under faults and other parallelism."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.simulation.iteration_programs import CALM
from tests.simulation.programs import environment, explained, simulate, sweeps
from tests.simulation.test_superstep_mutants import often
from tests.simulation.test_supersteps import drawn

from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.iteration.array_iteration import Arrays, _Steps
from penstock.iteration.arrays import ArrayStep, iterate_arrays, reduce_by_key

pytestmark = pytest.mark.simulation

VERTICES = 300


def graph() -> tuple[Any, Any]:
    """Return the edges of a sparse graph, each in both directions."""
    random = np.random.default_rng(7)
    source, target = random.integers(0, VERTICES, 200), random.integers(0, VERTICES, 200)
    return np.r_[source, target], np.r_[target, source]


class Components(ArrayStep):
    """Takes the least label among the messages, and sends it on from vertices that have changed."""

    def prepare(self) -> None:
        keys, sources = self.entries["key"], self.static["key"]
        assert (np.diff(keys) > 0).all() and (np.diff(sources) >= 0).all(), "not sorted by key"
        self.first = np.searchsorted(sources, keys)
        self.stop = np.searchsorted(sources, keys, side="right")

    def step(self, superstep: int, messages: Arrays) -> Arrays:
        least = reduce_by_key(messages, "key", label=np.minimum)
        at = np.searchsorted(self.entries["key"], least["key"])
        assert (self.entries["key"][at] == least["key"]).all(), "a message to another subtask"
        lower = (least["label"] < self.entries["label"][at]) | (superstep == 0)
        changed = at[lower]
        self.entries["label"][changed] = least["label"][lower]
        edges = np.concatenate([np.arange(0), *map(np.arange, self.first[changed], self.stop[changed])])
        labels = np.repeat(self.entries["label"][changed], self.stop[changed] - self.first[changed])
        return reduce_by_key({"key": self.static["target"][edges], "label": labels}, "key", label=np.minimum)


def chunks(env: StreamExecutionEnvironment, arrays: Arrays, count: int) -> Any:
    """Return a stream of arrays in several chunks."""
    divided = zip(*(np.array_split(array, count) for array in arrays.values()), strict=True)
    parts = [dict(zip(arrays, one, strict=True)) for one in divided]
    return env.from_collection(parts).rebalance()


def components(parallelism: int, slack: int) -> StreamExecutionEnvironment:
    """Return a program for the connected components of the graph."""
    env = environment(parallelism)
    source, target = graph()
    vertices = np.arange(VERTICES)
    labelled = {"key": vertices, "label": vertices.copy()}
    entries = chunks(env, labelled, 3)
    found = iterate_arrays(
        entries,
        chunks(env, labelled, 4),
        Components(),
        static=chunks(env, {"key": source, "target": target}, 5),
        slack=slack,
    )
    found.flat_map(lambda chunk: list(zip(chunk["key"].tolist(), chunk["label"].tolist(), strict=True))).print()
    return env


def expected() -> set[Any]:
    """Return each vertex with the least one of its component."""
    source, target = graph()
    label = np.arange(VERTICES)
    for _ in range(VERTICES):
        np.minimum.at(label, target, label[source])
    return set(enumerate(label.tolist()))


@pytest.mark.parametrize("slack", [0, 2])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_components_on_arrays(parallelism: int, slack: int) -> None:
    """A message would get lost between subtasks, or entries would not be those of its keys."""
    simulation = simulate(components(parallelism, slack), parallelism, CALM)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    values = [tuple(value) for values in simulation.results.values() for value in values]
    assert len(values) == VERTICES
    assert set(values) == expected()


class Reached(ArrayStep):
    """Marks the vertices that messages reach, and sends messages on along directed edges."""

    def prepare(self) -> None:
        self.sources = np.searchsorted(self.entries["key"], self.static["key"])

    def step(self, superstep: int, messages: Arrays) -> Arrays:
        new = np.isin(self.entries["key"], messages["key"]) & (self.entries["label"] == 0)
        self.entries["label"][new] = 1
        return {"key": self.static["target"][new[self.sources]]}


def reached(parallelism: int, kinds: tuple[Any, Any, Any], step: ArrayStep) -> Any:
    """Return a simulation of a search along a path, from its first vertex; the keys are of these types."""
    env = environment(parallelism)
    path = np.array([1, 60, 100, 120])
    of_entries, of_messages, of_static = kinds
    entries = env.from_collection([{"key": path.astype(of_entries), "label": np.zeros(4, int)}])
    static = env.from_collection([{"key": path[:-1].astype(of_static), "target": path[1:]}])
    begin = env.from_collection([{"key": path[:1].astype(of_messages)}])
    found = iterate_arrays(entries, begin, step, 9, static=static)
    found.flat_map(lambda chunk: chunk["key"][chunk["label"] > 0].tolist()).print()
    return simulate(env, parallelism, CALM)


@pytest.mark.parametrize("kinds", [(np.int64,) * 3, (np.int8,) * 3, (np.uint8, np.int64, np.int16)])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_keys_of_narrow_types_and_subtasks_without_a_part(parallelism: int, kinds: tuple[Any, Any, Any]) -> None:
    """Products with keys of 8 bits would choose wrong subtasks; a subtask without edges would not know their names."""
    simulation = reached(parallelism, kinds, Reached())
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED, simulation.error
    assert sorted(value for values in simulation.results.values() for value in values) == [1, 60, 100, 120]


class Returning(ArrayStep):
    """Returns the same from each step."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def step(self, superstep: int, messages: Arrays) -> Any:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (5, "must be a dict of NumPy arrays by name, got 5"),
        ({"key": [1]}, "must be a dict of NumPy arrays by name"),
        ({"label": np.arange(2)}, "need an array 'key' of whole numbers"),
        ({"key": np.arange(2.0)}, "need an array 'key' of whole numbers"),
        ({"key": np.arange(2), "label": np.arange(3)}, "must be of equal lengths"),
    ],
)
def test_messages_that_are_no_chunk_are_refused(returned: Any, message: str) -> None:
    """Positions behind the shortest array would be lost, and other values would fail somewhere in the engine."""
    simulation = reached(2, (np.int64,) * 3, Returning(returned))
    assert simulation.run() is JobStatus.FAILED
    assert f"the messages that step() returns {message}" in str(simulation.error).replace("the arrays of ", "")


def test_chunks_with_different_arrays_are_refused() -> None:
    """The arrays that only some chunks have would be lost."""
    env = environment(1)
    entries = [{"key": np.arange(2)}, {"key": np.arange(2, 4), "label": np.arange(2)}]
    begin = env.from_collection([{"key": np.arange(2)}])
    iterate_arrays(env.from_collection(entries), begin, Returning(None)).print()
    simulation = simulate(env, 1, CALM)
    assert simulation.run() is JobStatus.FAILED
    assert "chunks of entries have different arrays: ['key'] and ['key', 'label']" in str(simulation.error)


@pytest.mark.parametrize("seeds", sweeps(4, 2_000))
def test_arrays_survive_faults_and_rescaling(seeds: int) -> None:
    """Restored entries would be those of other key groups, or messages would reach the subtask that had them before."""
    finished = 0
    for seed in range(seeds):
        simulation = simulate(components(1 + seed % 3, 2 * (seed % 2)), seed, drawn(seed))
        with explained(simulation):
            status = simulation.run()
        if status is JobStatus.FINISHED and not simulation.driver.drained:
            finished += 1
            assert {tuple(value) for values in simulation.results.values() for value in values} == expected(), seed
    assert finished > seeds / 3


class Counting(ArrayStep):
    """Counts the supersteps of each entry. Static data is there, but has no positions."""

    def prepare(self) -> None:
        assert len(self.static["target"]) == 0

    def step(self, superstep: int, messages: Arrays) -> Arrays:
        self.entries["count"] += 1
        return {"key": self.entries["key"]}


def test_static_data_without_positions_is_restored() -> None:
    """A step would find no arrays at all, and fail each time that it is restored."""
    for seed in range(3):
        env = environment(2)
        none = np.arange(0)
        entries = env.from_collection([{"key": np.arange(9), "count": np.zeros(9, int)}])
        static = env.from_collection([{"key": none, "target": none}])
        begin = env.from_collection([{"key": np.arange(9)}])
        found = iterate_arrays(entries, begin, Counting(), 8, static=static)
        found.flat_map(lambda chunk: chunk["count"].tolist()).print()
        simulation = simulate(env, seed, often(seed))
        with explained(simulation):
            assert simulation.run() is JobStatus.FINISHED, simulation.error
        assert {value for values in simulation.results.values() for value in values} == {8}


def test_restored_entries_of_other_subtasks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not notice that a restored subtask keeps the entries of all."""
    monkeypatch.setattr(_Steps, "_of_this_subtask", lambda self, chunk, key: chunk)
    for seed in range(20):
        simulation = simulate(components(3, 0), seed, often(seed))
        try:
            with explained(simulation):
                simulation.run()
        except AssertionError:
            return
        if {tuple(value) for values in simulation.results.values() for value in values} != expected():
            return
    raise AssertionError("no run found it")


class CountingMessages(ArrayStep):
    """Counts the messages of each key, and sends them again a few times."""

    def step(self, superstep: int, messages: Arrays) -> Arrays:
        np.add.at(self.entries["count"], np.searchsorted(self.entries["key"], messages["key"]), 1)
        return messages


def chained(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program with entries from an iteration on arrays, and messages from outside, for another one."""
    env = environment(parallelism)
    keys = np.arange(20)
    entries = env.from_collection([{"key": keys, "count": np.zeros(20, int)}])
    first = iterate_arrays(entries, chunks(env, {"key": keys}, 2), CountingMessages(), 6)
    iterate_arrays(first, chunks(env, {"key": keys}, 3), CountingMessages(), 2).flat_map(
        lambda chunk: list(zip(chunk["key"].tolist(), chunk["count"].tolist(), strict=True))
    ).print()
    return env


def test_messages_that_wait_for_another_iteration_are_in_its_checkpoints() -> None:
    """They would be lost: checkpoints complete while the iteration that leads to this one runs."""
    for seed in (2, 5):
        circumstances = dataclasses.replace(
            CALM,
            checkpoint_interval_ms=3,
            concurrent_max=3,
            crash_at_steps=tuple(Random(seed).sample(range(200, 900), 2)),
            crash_rate=0.3,
        )
        simulation = simulate(chained(1 + seed % 3), seed, circumstances)
        with explained(simulation):
            assert simulation.run() is JobStatus.FINISHED
        values = {tuple(value) for values in simulation.results.values() for value in values}
        assert values == {(key, 8) for key in range(20)}, seed
