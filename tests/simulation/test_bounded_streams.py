"""Operations on whole bounded streams, in both modes and under faults, beside plain Python."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, graph_of, script, scripted

from penstock.common import Time, WatermarkStrategy
from penstock.common.errors import UserFunctionError
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.job_status import JobStatus
from penstock.datastream import DataStream, Order, RuntimeExecutionMode
from penstock.datastream.functions import AggregateFunction, ReduceFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.execution_mode import BATCH
from penstock.engine.runtime.operators.after_broadcast import AfterBroadcastOperator
from penstock.engine.runtime.operators.map_partition import MapPartitionOperator
from penstock.engine.runtime.operators.numbering import NumberingOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.partial_aggregates import PartialAggregatesOperator
from penstock.engine.runtime.windows.partition_aggregate import PartitionAggregateOperator
from penstock.engine.runtime.windows.window_operator import WindowOperator
from penstock.engine.runtime.windows.windowing import WindowingOperator
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.hosts.simulator.batched import BatchedSimulation

pytestmark = pytest.mark.simulation

Record = tuple[str, tuple[int, ...], int, int]


def key(record: Record) -> int:
    return record[2]


def number(record: Record) -> int:
    return record[3]


class Sum(AggregateFunction[Record, list[int], tuple[int, int]]):
    shares_slices = True

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: Record, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value[3]
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, int]:
        return accumulator[0], accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Greatest(ReduceFunction[Record]):
    is_combinable = True

    def reduce(self, value1: Record, value2: Record) -> Record:
        return max(value1, value2, key=lambda record: (record[3], record[0]))


def total(values: Iterable[Record]) -> Iterator[tuple[int, int]]:
    numbers = [value[3] for value in values]
    yield len(numbers), sum(numbers)


def added(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    counts, sums = zip(*pairs, strict=True)
    return sum(counts), sum(sums)


def by_key(records: Iterable[Record]) -> dict[int, list[Record]]:
    found = defaultdict(list)
    for record in records:
        found[key(record)].append(record)
    return found


def pairs(first: list[Record], second: list[Record], outer: bool = False) -> list[Any]:
    joined: list[Any] = []
    left, right = by_key(first), by_key(second)
    for one in sorted({*left, *right}):
        lefts: list[Any] = left.get(one, []) or [None] * outer
        joined += product(lefts, right.get(one, []) or [None] * outer)
    return joined


AGGREGATES = {
    "n": "count",
    "known": ("half", "count"),
    "total": ("number", "sum"),
    "mean": ("number", "avg"),
    "least": ("half", "min"),
    "most": ("number", "max"),
}


def by_name(stream: Any) -> Any:
    """Records with names, of which odd ones lack a half."""
    return stream.map(lambda one: {"key": one[2], "number": one[3], "half": None if one[3] % 2 else one[3] // 2})


def without_times(stream: Any) -> Any:
    """Results of whole partitions have no timestamps."""
    return stream.full_window_partition().map_partition(list)


def aggregated(records: list[Record]) -> tuple[Any, ...]:
    numbers = [number(one) for one in records]
    halves = [one // 2 for one in numbers if one % 2 == 0]
    mean = sum(numbers) / len(numbers)
    return key(records[0]), len(numbers), len(halves), sum(numbers), mean, min(halves, default=None), max(numbers)


Streams = tuple[Any, Any]
Lists = tuple[list[Record], list[Record]]


def same(found: Any, wanted: Any) -> None:
    assert Counter(found) == Counter(wanted), f"missing {Counter(wanted) - Counter(found)}, found {found}"


def check_first(found: list[Any], first: list[Record], second: list[Record]) -> None:
    assert len(found) == len({*found} & {*first}) == 7


def check_indexes(found: list[Any], first: list[Record], second: list[Record]) -> None:
    same([index for index, _ in found], range(len(first)))
    same([record for _, record in found], first)


PROGRAMS: dict[str, tuple[Callable[[Any, Any], DataStream[Any]], Callable[..., None]]] = {
    "map partition": (
        lambda one, _: one.full_window_partition().map_partition(total),
        lambda found, first, _: same([added(found)], total(first)),
    ),
    "sort partition": (
        lambda one, _: one.full_window_partition().sort_partition(number, Order.DESCENDING),
        lambda found, first, _: same(found, first),
    ),
    "aggregate partition": (
        lambda one, _: one.full_window_partition().aggregate(Sum()),
        lambda found, first, _: same([added(found)], total(first)),
    ),
    "reduce partition": (
        lambda one, _: one.full_window_partition().reduce(Greatest()),
        lambda found, first, _: same([max(found, key=number)[3]], [max(first, key=number)[3]]),
    ),
    "map partition of keys": (
        lambda one, _: one.key_by(key).full_window_partition().map_partition(total),
        lambda found, first, _: same(found, [next(total(records)) for records in by_key(first).values()]),
    ),
    "sort partition of keys": (
        lambda one, _: one.key_by(key).full_window_partition().sort_partition(number),
        lambda found, first, _: same(found, first),
    ),
    "aggregate partition of keys": (
        lambda one, _: one.key_by(key).full_window_partition().aggregate(Sum()),
        lambda found, first, _: same(found, [next(total(records)) for records in by_key(first).values()]),
    ),
    "reduce partition of keys": (
        lambda one, _: one.key_by(key).full_window_partition().reduce(Greatest()),
        lambda found, first, _: same(
            found, [max(records, key=lambda record: (record[3], record[0])) for records in by_key(first).values()]
        ),
    ),
    "join": (
        lambda one, two: one.join(two).where(key).equal_to(key).apply(lambda a, b: (a, b)),
        lambda found, first, second: same(found, pairs(first, second)),
    ),
    "full outer join": (
        lambda one, two: one.full_outer_join(two).where(key).equal_to(key).apply(lambda a, b: (a, b)),
        lambda found, first, second: same(found, pairs(first, second, outer=True)),
    ),
    "left outer join": (
        lambda one, two: one.left_outer_join(two).where(key).equal_to(key).apply(lambda a, b: (a, b)),
        lambda found, first, second: same(found, [p for p in pairs(first, second, outer=True) if p[0]]),
    ),
    "right outer join": (
        lambda one, two: one.right_outer_join(two).where(key).equal_to(key).apply(lambda a, b: (a, b)),
        lambda found, first, second: same(found, [p for p in pairs(first, second, outer=True) if p[1]]),
    ),
    "semi join": (
        lambda one, two: one.semi_join(two).where(key).equal_to(key),
        lambda found, first, second: same(found, [r for r in first if key(r) in by_key(second)]),
    ),
    "anti join": (
        lambda one, two: one.anti_join(two).where(key).equal_to(key),
        lambda found, first, second: same(found, [r for r in first if key(r) not in by_key(second)]),
    ),
    "co-group": (
        lambda one, two: one.co_group(two).where(key).equal_to(key).apply(lambda a, b: [(len(a), len(b))]),
        lambda found, first, second: same(
            found,
            [
                (len(by_key(first).get(one, [])), len(by_key(second).get(one, [])))
                for one in {*by_key(first), *by_key(second)}
            ],
        ),
    ),
    "distinct": (
        lambda one, _: one.map(key).distinct(),
        lambda found, first, _: same(found, {*map(key, first)}),
    ),
    "distinct by key": (
        lambda one, _: one.distinct(key).map(key),
        lambda found, first, _: same(found, {*map(key, first)}),
    ),
    "first": (lambda one, _: one.first(7), check_first),
    "first of keys": (
        lambda one, _: one.key_by(key).first(2).map(key),
        lambda found, first, _: same(found, [k for k, records in by_key(first).items() for _ in records[:2]]),
    ),
    "cross": (
        lambda one, two: one.cross(two).apply(lambda a, b: (a, b)),
        lambda found, first, second: same(found, product(first, second)),
    ),
    "zip with index": (lambda one, _: one.zip_with_index(), check_indexes),
    "ranges": (
        lambda one, _: one.partition_by_range(number),
        lambda found, first, _: same(found, first),
    ),
}

IN_BATCH: dict[str, tuple[Callable[[Any, Any], DataStream[Any]], Callable[..., None]]] = {
    "aggregate of fields": (
        lambda one, _: by_name(one).key_by("key").aggregate(AGGREGATES).map(tuple),
        lambda found, first, _: same(found, map(aggregated, by_key(first).values())),
    ),
    "aggregate of fields without times": (
        lambda one, _: by_name(without_times(one)).key_by("key").aggregate(AGGREGATES).map(tuple),
        lambda found, first, _: same(found, map(aggregated, by_key(first).values())),
    ),
}
"""Operations that give every result so far in STREAMING."""
EVERY = {**PROGRAMS, **IN_BATCH}


def scripts(seed: int) -> tuple[list[Any], list[Any]]:
    """Return splits of two streams; some keys of each have no partner."""
    random = Random(seed)
    first = [script(split, random.randint(0, 30) or 1) for split in range(2)]
    second = [script(9, random.randint(1, 12))]
    return [_shifted(one, 0) for one in first], [_shifted(one, 3) for one in second]


def _shifted(one: Any, by: int) -> Any:
    return dataclasses.replace(
        one, records=tuple(((o, path, k + by, i * 7919 % 31), time) for (o, path, k, i), time in one.records)
    )


def graph(name: str, seed: int, parallelism: int, *, batched: bool = False, timed: bool = True) -> JobGraph:
    """Return the job of a program."""
    env = environment(parallelism)
    if batched:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    strategy = WatermarkStrategy.for_monotonous_timestamps() if timed else WatermarkStrategy.no_watermarks()
    one, two = (env.from_source(scripted(*splits), strategy, "numbers") for splits in scripts(seed))
    if not timed:
        one, two = one.map(lambda record: record), two.map(lambda record: record)
    EVERY[name][0](one, two).print()
    made = graph_of(env)
    assert (made.mode is BATCH) is batched
    return made


def check(name: str, seed: int, results: dict[Any, list[Any]]) -> None:
    """Compare results with plain Python."""
    first, second = ([record for one in splits for record, _ in one.records] for splits in scripts(seed))
    EVERY[name][1]([value for values in results.values() for value in values], first, second)


@pytest.mark.parametrize("name", EVERY)
def test_whole_streams_in_batch(name: str) -> None:
    """Records beyond memory, or of an interrupted step, would be lost, or results of a second run would differ."""
    in_batch(name)


def in_batch(name: str) -> None:
    """Run a program in BATCH, and check its results."""
    for seed in range(4):
        made = graph(name, seed, 1 + seed % 3, batched=True, timed=seed % 2 == 0)
        simulation = BatchedSimulation(made, Random(seed), Circumstances.draw(Random(seed + 1)), Trace(None))
        simulation.run()
        check(name, seed, simulation.outside.results)


@pytest.mark.parametrize(
    ("owner", "method", "mutant"),
    [
        (PartialAggregatesOperator, "finish", Operator.finish),
        (FieldAggregates, "merge", lambda _, one, other: other),
        (FieldAggregates, "merge", lambda aggregates, one, other: aggregates.add(one, other)),
    ],
    ids=["the last parts are lost", "a part replaces others", "a part is a record"],
)
def test_parts_that_are_not_added_up_are_found(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, mutant: Any
) -> None:
    """The test above would pass aggregates that lack what other senders have."""
    monkeypatch.setattr(owner, method, mutant)
    with pytest.raises((AssertionError, UserFunctionError)):
        in_batch("aggregate of fields without times")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "seeds",
    [range(1), pytest.param(range(1, 1_000), marks=pytest.mark.soak)],
)
def test_whole_streams_under_faults(name: str, seeds: range) -> None:
    """Records that wait for the end of the stream would be lost or doubled by a restart or a rescale."""
    for seed in seeds:
        simulated(name, seed)


def simulated(name: str, seed: int) -> None:
    """Run a program under faults, and check its results."""
    simulation = Simulation(
        graph(name, seed, 2),
        Random(seed),
        drawn(seed),
        Trace(None),
        exact_time=False,
        rescaled=lambda chance: graph(name, seed, chance.randint(1, 4)),
    )
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    check(name, seed, simulation.outside.results)


WAITING: dict[str, Callable[[Any, Any], DataStream[Any]]] = {
    "cross": lambda one, two: one.cross(two).apply(lambda a, b: a),
    "zip with index": lambda one, _: one.zip_with_index().map(lambda numbered: numbered[1]),
    "ranges": lambda one, _: one.partition_by_range(number),
}
"""Operations whose records wait for the end of another stream, and keep their timestamps."""


def in_windows(name: str, seed: int) -> None:
    """Count the results of an operation in windows: each has to be in its own."""
    env = environment()
    one, two = (
        env.from_source(scripted(*splits), WatermarkStrategy.for_monotonous_timestamps(), "numbers")
        for splits in scripts(seed)
    )
    behind = WAITING[name](one, two).map(lambda record: (key(record), 1)).key_by(lambda pair: pair[0])
    windows = behind.window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    windows.reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    simulation = Simulation(graph_of(env), Random(seed), Circumstances(jump_rate=0.0), Trace(None))
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    counts = [values[1] for found in simulation.outside.results.values() for values in found]
    first, second = (sum(len(one.records) for one in splits) for splits in scripts(seed))
    assert sum(counts) == first * (second if name == "cross" else 1), f"records are missing in seed {seed}"


@pytest.mark.parametrize("name", WAITING)
def test_records_that_have_waited_are_not_late(name: str) -> None:
    """Event time would pass the records that wait, and windows behind the operation would drop them."""
    for seed in range(3):
        in_windows(name, seed)


def test_event_time_that_does_not_wait_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would pass an operator whose event time goes on while records wait."""
    monkeypatch.setattr(AfterBroadcastOperator, "watermark", Operator.watermark)
    with pytest.raises(AssertionError, match="records are missing"):
        for seed in range(3):
            in_windows("cross", seed)


ROUNDS = 4


def behind_a_loop(seed: int, circumstances: Circumstances) -> None:
    """Sum what goes round in a loop by key: each record comes in several rounds, also behind the end of event time."""
    env = environment()
    splits, _ = scripts(seed)
    source = env.from_source(scripted(*splits), WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    head = source.map(lambda record: (key(record), number(record), 1)).iterate()
    again = head.map(lambda value: (value[0], value[1], value[2] + 1)).filter(lambda value: value[2] <= ROUNDS)
    head.close_with(again.rebalance())
    sums = head.key_by(lambda value: value[0]).full_window_partition()
    sums.reduce(lambda one, other: (one[0], one[1] + other[1], 0)).print()
    simulation = Simulation(graph_of(env), Random(seed), circumstances, Trace(None), exact_time=False)
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    found = {value[0]: value[1] for values in simulation.outside.results.values() for value in values}
    records = by_key(record for one in splits for record, _ in one.records)
    assert found == {one: ROUNDS * sum(map(number, same_key)) for one, same_key in records.items()}, (
        "rounds are missing"
    )


def drawn(seed: int) -> Circumstances:
    """Return circumstances with faults, in which a job still ends with all of its results."""
    return dataclasses.replace(
        Circumstances.draw(Random(seed + 1)),
        exactly_once=True,
        damage_rate=0.0,
        cancel_at_step=None,
        drain_rate=0.0,
        slots_change_at_steps=(),
    )


@pytest.mark.parametrize(
    "seeds",
    [range(2, 5), pytest.param(range(1_000), marks=pytest.mark.soak)],
)
def test_a_whole_stream_behind_a_loop_has_all_rounds(seeds: range) -> None:
    """Windows of the whole stream would fire at the end of event time, which is that of the loop's input."""
    for seed in seeds:
        behind_a_loop(seed, drawn(seed))


def test_a_window_that_does_not_wait_for_the_loop_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would pass with windows that fire at the end of event time."""
    monkeypatch.setattr(WindowOperator, "watermark", WindowingOperator.watermark)
    with pytest.raises(AssertionError, match="rounds are missing"):
        for seed in range(3):
            behind_a_loop(seed, Circumstances(jump_rate=0.0))


def test_pairs_of_a_cross_share_no_value() -> None:
    """What a function does to its arguments would be seen by the next pairs, and be in snapshots."""

    def lengths(one: list[int], other: list[int]) -> tuple[int, int]:
        one.append(0)
        other.append(0)
        return len(one), len(other)

    env = environment(1)
    env.from_collection([[1], [2]]).cross(env.from_collection([[3], [4]])).apply(lengths).print()
    simulation = Simulation(graph_of(env), Random(0), Circumstances(jump_rate=0.0), Trace(None))
    assert simulation.run() is JobStatus.FINISHED, simulation.error
    assert [*simulation.outside.results.values()] == [[(2, 2)] * 4]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (MapPartitionOperator, "map partition"),
        (PartitionAggregateOperator, "aggregate partition"),
        (AfterBroadcastOperator, "cross"),
        (NumberingOperator, "zip with index"),
    ],
)
@pytest.mark.thorough
def test_state_that_is_not_in_snapshots_is_missed(
    kind: type[Operator], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above would pass an operator that forgets what it holds."""
    monkeypatch.setattr(kind, "lists", lambda self: [])
    with pytest.raises(AssertionError):
        for seed in range(20):
            simulated(name, seed)
