"""Chunks of few rows, which are computed in other ways than long ones: with the same results."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.common.columns.to_values import python_values, values_reader
from penstock.common.functions.field_aggregates import FieldAggregate, FieldAggregates
from penstock.engine.runtime.columns.accumulator import ColumnAccumulator
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.routing import divide
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_keys import IntegerKeys

KINDS = ("count", "sum", "avg", "min", "max", "first", "last")
SLOTS = {
    "none twice": [5, 0, 63, 7],
    "one": [9],
    "one twice": [5, 0, 5, 7],
    "all the same": [3, 3, 3],
    "as many as are few": [*range(64, 0, -1)],
    "more than few": [*range(65, 0, -1)],
}


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_runs_are_the_rows_of_a_key(slots: list[int]) -> None:
    """A row would be counted for another key, or in another order."""
    runs = Runs(numpy.array(slots))
    rows = [runs.order[start : end + 1].tolist() for start, end in zip(runs.starts, runs.ends, strict=True)]
    assert sorted(rows) == sorted([i for i, one in enumerate(slots) if one == slot] for slot in set(slots))
    assert [slots[first] for first, *_ in rows] == runs.slots.tolist()
    assert runs.lengths.tolist() == [len(run) for run in rows] and len(runs) == len(slots)
    seen = [slots[: i + 1].count(slot) for i, slot in enumerate(slots)]
    assert runs.by_row(runs.counts()).tolist() == seen
    values = numpy.arange(len(slots)) * 10
    sums = [sum(10 * j for j in range(i + 1) if slots[j] == slots[i]) for i in range(len(slots))]
    assert runs.by_row(runs.sums(values[runs.order])).tolist() == sums
    assert runs.of_runs(runs.slots).tolist() == [slots[row] for row in runs.order.tolist()]
    assert runs.order[runs.places()].tolist() == list(range(len(slots)))


def is_same(found: Any, expected: Any) -> bool:
    """Return whether two values are the same, of the same type, with the same sign."""
    if isinstance(found, float) and isinstance(expected, float):
        return found.hex() == expected.hex()
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize("of_floats", [False, True], ids=["integers", "floats"])
@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize("keys", [3, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_running_aggregates_are_those_of_rows(of_floats: bool, nulls: float, keys: int, seed: int) -> None:
    """A program would have other results at a short buffer timeout than at a long one."""
    rng = random.Random(seed)
    aggregates = (FieldAggregate("n", "count"), *(FieldAggregate(kind, kind, "x") for kind in KINDS))
    of_rows = FieldAggregates(aggregates)
    kind = numpy.float64 if of_floats else numpy.int64
    arrays = KeyedArrays(ArrayTable(arrays_of(aggregates, [None, *[kind] * len(KINDS)])))
    accumulators: dict[int, Any] = {}

    def value() -> Any:
        if rng.random() < nulls:
            return None
        if of_floats:
            return rng.choice([rng.uniform(-9, 9), -0.0, 0.0, math.inf, math.nan])
        # Sums exceed 64 bits in the course of one run in three, but each result fits.
        return rng.choice([rng.randrange(-99, 99), 1 << 61, -(1 << 61)]) if seed == 2 else rng.randrange(-99, 99)

    for _ in range(60):
        size = rng.choice([1, 2, 5, 20, 64, 65, 130])
        of_keys = [rng.randrange(keys) for _ in range(size)]
        values = [value() for _ in range(size)]
        column = pyarrow.array(values, pyarrow.float64() if of_floats else pyarrow.int64())
        expected = []
        for key, one in zip(of_keys, values, strict=True):
            before = accumulators.get(key, of_rows.create_accumulator())
            accumulators[key] = of_rows.add({"x": one}, before)
            expected.append(of_rows.get_result(accumulators[key]))
        if any(isinstance(result[2], int) and not -(1 << 63) <= result[2] < 1 << 63 for result in expected):
            return
        found = arrays.add_running(IntegerKeys(numpy.array(of_keys)), [None, *[column] * len(KINDS)])
        for name, of_kind, expected_of_kind in zip(aggregates, found, zip(*expected, strict=True), strict=True):
            pairs = zip(of_kind.to_pylist(), expected_of_kind, strict=True)
            assert all(is_same(*pair) for pair in pairs), (name, of_keys, values)
    entries = arrays.entries()
    assert entries.keys() == accumulators.keys()


def test_a_chunk_may_be_read_after_it_was_added() -> None:
    """A branch of the stream would read values that the aggregate has changed."""
    column = pyarrow.array([4, 5, 6])
    aggregates = tuple(FieldAggregate(kind, kind, "x") for kind in KINDS)
    arrays = KeyedArrays(ArrayTable(arrays_of(aggregates, [numpy.int64] * len(KINDS))))
    keys = IntegerKeys(numpy.array([1, 2, 3]))
    first = arrays.add_running(keys, [column] * len(KINDS))
    before = [each.to_pylist() for each in first]
    arrays.add_running(keys, [pyarrow.array([7, 8, 9])] * len(KINDS))
    assert column.to_pylist() == [4, 5, 6]
    assert [each.to_pylist() for each in first] == before, "results change with the state"


@pytest.mark.parametrize("receivers", [[], [1], [1, 1, 1], [0, 0], [2, 0, 2, 1, 0], [2, 2, 0]])
def test_each_row_comes_to_its_receiver_in_order(receivers: list[int]) -> None:
    """Records would be lost, or processed where their key has no state."""
    channels = [ColumnAccumulator(target) for target in range(3)]
    rows = numpy.arange(len(receivers))
    chunk = Columns(pyarrow.record_batch({"n": rows}), rows * 2)
    divide(chunk, numpy.array(receivers, numpy.int64), channels)
    for target, channel in enumerate(channels):
        expected = [row for row, receiver in enumerate(receivers) if receiver == target]
        assert channel.waiting == len(expected) and bool(channel.parts) == bool(expected)
        if expected:
            got = channel.take()
            assert got.batch.column("n").to_pylist() == expected
            assert got.timestamps is not None and got.timestamps.tolist() == [2 * row for row in expected]


COLUMNS = {
    "integers": pyarrow.array([1, None, -3]),
    "unsigned": pyarrow.array([1, 1 << 63], pyarrow.uint64()),
    "floats": pyarrow.array([0.5, math.inf, None]),
    "halves": pyarrow.array(numpy.array([0.5, 1], numpy.float16)),
    "booleans": pyarrow.array([True, False, None]),
    "texts": pyarrow.array(["a", None, "ü"]),
    "large texts": pyarrow.array(["a", "b"], pyarrow.large_string()),
    "bytes": pyarrow.array([b"a", None]),
    "times": pyarrow.array([1, None], pyarrow.timestamp("us")),
    "lists": pyarrow.array([[1], None]),
    "dictionary": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_reader_that_knows_the_type_reads_the_same(name: str) -> None:
    """Records of a stream would depend on whether their type is declared."""
    column = COLUMNS[name]
    for part in (column, column.slice(1), column.slice(0, 0)):
        found = values_reader(column.type)(part)
        assert found == python_values(part) == part.to_pylist()
        assert list(map(type, found)) == list(map(type, part.to_pylist()))


def test_a_text_that_is_not_utf_8_is_named() -> None:
    """The error would not say which byte."""
    broken = pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, pyarrow.py_buffer(numpy.array([0, 1], numpy.int32)), pyarrow.py_buffer(b"\xff")]
    )
    with pytest.raises(UnicodeDecodeError):
        values_reader(broken.type)(broken)
