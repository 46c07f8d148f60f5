"""Whole bounded streams on Spark, in both modes, beside plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from tests.spark.jobs import BATCH, batched, collect, environment, failure_of, pipelined

from penstock.common import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import Order, RuntimeExecutionMode, StreamExecutionEnvironment

pytestmark = pytest.mark.spark
COUNT = 20_000
LITTLE = {"execution.sorted-inputs.memory": "100 kb"}
"""So that records are spilled."""


def numbers(env: StreamExecutionEnvironment, count: int = COUNT) -> Any:
    return env.from_source(NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers")


@pipelined
def test_sorted_ranges_are_sorted_as_a_whole(mode: RuntimeExecutionMode) -> None:
    """A sort of more than fits into memory would lose records, or ranges would overlap."""
    env = environment(mode, settings=LITTLE)
    scattered = numbers(env).map(lambda number: number * 7919 % COUNT)
    parts = scattered.partition_by_range(lambda number: number).full_window_partition()
    ends = parts.sort_partition(lambda number: number, Order.DESCENDING).full_window_partition().map_partition(listed)
    one, other = sorted(collect(ends))
    assert one == sorted(one, reverse=True)
    assert other == sorted(other, reverse=True)
    assert [*other, *one] == list(range(COUNT - 1, -1, -1)), "a record of one range is in the other"
    assert abs(len(one) - len(other)) < COUNT // 5


def listed(values: Any) -> Iterator[list[int]]:
    yield list(values)


@batched
def test_numbers_sample_pairs_and_first_records(mode: RuntimeExecutionMode) -> None:
    """Subtasks would give the same index twice, or a pair or a record would be missing."""
    env = environment(mode, settings=LITTLE)
    small = numbers(env, 20)
    results = collect(
        numbers(env).zip_with_index().map(lambda pair: ("index", *pair)).union(
            small.cross(numbers(env, 30)).apply().map(lambda pair: ("cross", *pair)),
            numbers(env).first(5).map(lambda number: ("first", number)),
            numbers(env).sample(0.25, seed=7).map(lambda number: ("sample", number)),
            numbers(env).map(lambda number: number % 50).distinct().map(lambda number: ("distinct", number)),
            numbers(env).key_by(lambda number: number % 3).first(2).map(lambda number: ("of key", number % 3)),
        )
    )  # fmt: skip
    of: dict[str, list[Any]] = {}
    for name, *values in results:
        of.setdefault(name, []).append(tuple(values))
    assert sorted(index for index, _ in of["index"]) == list(range(COUNT))
    assert sorted(number for _, number in of["index"]) == list(range(COUNT))
    assert Counter(of["cross"]) == Counter(product(range(20), range(30)))
    assert len(set(of["first"])) == len(of["first"]) == 5
    assert len(set(of["sample"])) == len(of["sample"])
    assert abs(len(of["sample"]) - COUNT / 4) < COUNT / 40
    assert sorted(of["distinct"]) == [(number,) for number in range(50)]
    assert sorted(of["of key"]) == [(0,), (0,), (1,), (1,), (2,), (2,)]


@pipelined
def test_joins_of_whole_streams(mode: RuntimeExecutionMode) -> None:
    """A join of bounded streams would need windows, and would lose records without a partner."""
    env = environment(mode, settings=LITTLE)
    left = numbers(env, 3_000).map(lambda number: (number % 1_000, number))
    right = numbers(env, 500).map(lambda number: (number * 3, "other"))

    def pair(one: Any, other: Any) -> tuple[Any, Any]:
        return one and one[1], other and other[0]

    joined = left.full_outer_join(right).where(first).equal_to(first).apply(pair)
    anti = left.anti_join(right).where(first).equal_to(first).map(lambda record: ("anti", record[1]))
    results = Counter(collect(joined.union(anti)))
    keys = range(0, 1_500, 3)
    unmatched = [number for number in range(3_000) if number % 1_000 not in keys]
    expected = Counter((number, number % 1_000) for number in range(3_000) if number % 1_000 in keys)
    expected.update((number, None) for number in unmatched)
    expected.update((None, key) for key in keys if key >= 1_000)
    expected.update(("anti", number) for number in unmatched)
    assert results == expected


def first(record: tuple[int, Any]) -> int:
    return record[0]


def test_keys_that_do_not_compare_name_the_operator() -> None:
    """The error of a sort would name neither operator nor function."""
    mixed = numbers(environment(BATCH), 10).map(lambda number: number if number % 2 else str(number))
    text = failure_of(lambda: collect(mixed.full_window_partition().sort_partition(lambda value: value)))
    assert "Sort Partition" in text
    assert "'<' not supported" in text
