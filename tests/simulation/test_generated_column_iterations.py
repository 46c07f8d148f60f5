"""Random iterations on columns, under all faults, rescaling and savepoints, compared with plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow.compute
import pytest
from tests.simulation.iteration_programs import CALM
from tests.simulation.programs import environment, explained, simulate, sweeps
from tests.simulation.test_column_iterations import NUMBERS
from tests.simulation.test_supersteps import drawn

from penstock.common import Row
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import GlobalWindows
from penstock.iteration import iterate, superstep_windows

pytestmark = pytest.mark.simulation

KEYS = 7
LIMIT = 60
Step = tuple[Callable[[Any], Any], Callable[[Counter[Any]], Counter[Any]]]
"""What a step does with a stream of columns, and with its records in a plain loop."""


def valued(batch: Any, values: Any) -> Any:
    """Return a batch with other values."""
    return batch.set_column(1, "value", values)


def applied(records: Counter[Any], change: Callable[[int, int], list[Any]]) -> Counter[Any]:
    """Return the records that `change` makes of each."""
    found: Counter[Any] = Counter()
    for (key, value), count in records.items():
        for one in change(key, value):
            found[one] += count
    return found


def summed(records: Counter[Any]) -> Counter[Any]:
    """Return the sums of keys."""
    sums: Counter[int] = Counter()
    for (key, value), count in records.items():
        sums[key] += value * count
    return Counter({(key, sums[key]): 1 for key in {key for key, _ in records}})


def adding(amount: int) -> Step:
    """Add to each value."""
    return (
        lambda stream: stream.map_batches(lambda batch: valued(batch, pyarrow.compute.add(batch[1], amount))),
        lambda records: applied(records, lambda key, value: [(key, value + amount)]),
    )


def turning(keys: int) -> Step:
    """Give each record the next key, and send it there."""

    def turned(batch: Any) -> Any:
        numbers = batch[0].to_numpy()
        return batch.set_column(0, "key", pyarrow.array((numbers + 1) % keys))

    return (
        lambda stream: stream.map_batches(turned).key_by("key").map_batches(lambda batch: batch),
        lambda records: applied(records, lambda key, value: [((key + 1) % keys, value)]),
    )


def twice() -> Step:
    """Double the even records."""

    def doubled(batch: Any) -> Any:
        values = batch[1].to_numpy()
        return batch.take(pyarrow.array(np.repeat(np.arange(len(values)), np.where(values % 2, 1, 2))))

    return (
        lambda stream: stream.map_batches(doubled),
        lambda records: applied(records, lambda key, value: [(key, value)] * (1 if value % 2 else 2)),
    )


def parted(amount: int) -> Step:
    """Let odd records take another way, on which they become larger."""

    def odd(batch: Any) -> Any:
        return pyarrow.array(batch[1].to_numpy() % 2 == 1)

    def both_ways(stream: Any) -> Any:
        one = (
            stream.filter_batches(odd)
            .rebalance()
            .map_batches(lambda batch: valued(batch, pyarrow.compute.add(batch[1], amount)))
        )
        return one.union(stream.filter_batches(lambda batch: pyarrow.compute.invert(odd(batch))))

    return both_ways, lambda records: applied(records, lambda key, value: [(key, value + amount * (value % 2))])


def small() -> Step:
    """Drop large values."""
    return (
        lambda stream: stream.filter_batches(lambda batch: pyarrow.compute.less(batch[1], LIMIT)),
        lambda records: Counter({one: count for one, count in records.items() if one[1] < LIMIT}),
    )


def summing() -> Step:
    """Sum the values of a key in the superstep."""
    return (
        lambda stream: stream.key_by("key").window(superstep_windows()).aggregate({"value": ("value", "sum")}),
        summed,
    )


def generated(seed: int) -> tuple[Callable[[int], StreamExecutionEnvironment], Counter[Any]]:
    """Return a program, by its parallelism, and its results."""
    random = Random(seed)
    initial = [(random.randrange(KEYS), random.randrange(10)) for _ in range(random.choice([1, 20, 60]))]
    makers = [
        lambda: adding(random.randint(1, 9)), lambda: turning(KEYS), lambda: parted(random.randint(1, 4)), summing
    ]  # fmt: skip
    steps = [random.choice(makers)() for _ in range(random.randint(1, 4))]
    if random.random() < 0.5:
        steps.insert(random.randrange(len(steps) + 1), twice())
    supersteps = random.randint(1, 6)
    # A sum that grows without end, or a doubled one, has a bound.
    steps += [small()] if random.random() < 0.7 else [summing()]

    def program(parallelism: int) -> StreamExecutionEnvironment:
        env = environment(parallelism)
        records = [Row(key=key, value=value) for key, value in initial]
        iteration = iterate(env.from_collection(records).rebalance().as_columns(NUMBERS), supersteps)
        stream: Any = iteration
        for on_stream, _ in steps:
            stream = on_stream(stream)
        result = iteration.close_with(stream.rebalance())
        # What comes twice after a failure has the same count, because print() is not transactional.
        pairs = result.map(lambda record: (record.key, record.value)).key_by(lambda pair: pair[0])
        at_end = pairs.window(GlobalWindows.create_with_end_of_stream_trigger())
        at_end.reduce(lambda one, other: (one[0], one[1] + other[1])).print()
        return env

    records: Counter[Any] = Counter(initial)
    for _ in range(supersteps):
        for _, plain in steps:
            records = plain(records)
        if not records:
            break
    return program, summed(records)


def results_of(seed: int, circumstances: Any) -> tuple[JobStatus | None, set[Any], bool, Counter[Any]]:
    """Run a program; return how it ended, its results, whether it was drained, and what they should be."""
    program, expected = generated(seed)
    simulation = simulate(program(1 + seed % 4), seed, circumstances)
    with explained(simulation):
        status = simulation.run()
    values = {tuple(value) for values in simulation.results.values() for value in values}
    return status, values, simulation.driver.drained, expected


@pytest.mark.parametrize("seeds", sweeps(4, 3_000))
def test_generated_iterations_on_columns(seeds: int) -> None:
    """Rows would be lost, doubled, or in another superstep, in a shape that no other test has."""
    for seed in range(seeds):
        status, values, _, expected = results_of(seed, CALM)
        assert (status, values) == (JobStatus.FINISHED, set(expected)), seed


@pytest.mark.parametrize("seeds", sweeps(6, 3_000))
def test_generated_iterations_on_columns_survive_faults(seeds: int) -> None:
    """A snapshot would lack columns that wait at a head, or a restored subtask would have those of others."""
    finished = 0
    for seed in range(seeds):
        status, values, drained, expected = results_of(seed, drawn(seed))
        if status is JobStatus.FINISHED and not drained:
            finished += 1
            assert values == set(expected), seed
    assert finished > seeds / 5
