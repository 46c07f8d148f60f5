"""The order of numbers by radix."""

from __future__ import annotations

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.ordering import stable_order
from penstock.engine.runtime.columns.slice_numbers import by_slice
from penstock.engine.state.arrays.row_keys import IntegerKeys


@pytest.mark.parametrize("largest", [0, 3, 65_535, 65_536, 1 << 20, (1 << 32) - 1, 1 << 32, (1 << 63) - 1])
def test_it_is_that_of_a_stable_sort(largest: int) -> None:
    """Rows of a key would be in another order, or in another key's run."""
    numbers = numpy.random.default_rng(1).integers(0, largest, 3_000, endpoint=True)
    numbers[:2] = largest, 0
    numbers = numpy.concatenate([numbers, numbers[:1_000]])
    assert stable_order(numbers).tolist() == numpy.argsort(numbers, kind="stable").tolist()
    assert stable_order(numbers[:0]).tolist() == []


def test_slices_far_apart() -> None:
    """The difference of their numbers does not fit into 64 bits."""
    times = numpy.array([-(1 << 62) - 5, 7, 1 << 62, 7, (1 << 62) + 9])
    batch = pyarrow.record_batch({"n": numpy.arange(5)})
    found = {
        number: (keys.to_list(), chunk.batch.column(0).to_pylist())
        for number, keys, chunk in by_slice(times, IntegerKeys(times), Columns(batch, times))
    }
    assert found == {
        -(1 << 62) - 5: ([-(1 << 62) - 5], [0]), 7: ([7, 7], [1, 3]), 1 << 62: ([1 << 62], [2]),
        (1 << 62) + 9: ([(1 << 62) + 9], [4]),
    }  # fmt: skip
