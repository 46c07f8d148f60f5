"""Slots of keys: both indexes find what a dict would, whatever comes in which order."""

from __future__ import annotations

import tracemalloc

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.runtime.columns.keys import row_keys, tuple_keys
from penstock.engine.state.arrays.key_index import HashIndex, KeyIndex, SortedIndex, has_hash_table
from penstock.engine.state.arrays.key_slots import KeySlots

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)


def test_pandas_has_its_table() -> None:
    """Each job with many keys would run at a tenth of its speed, and nobody would know."""
    assert has_hash_table()


@pytest.mark.parametrize("kind", [HashIndex, SortedIndex])
@given(chunks=st.lists(st.lists(INTEGERS, min_size=1, max_size=20), max_size=8))
def test_an_index_is_a_dict(kind: type[HashIndex | SortedIndex], chunks: list[list[int]]) -> None:
    """A key would have the state of another."""
    index: KeyIndex = kind()
    expected: dict[int, int] = {}
    for chunk in chunks:
        keys = numpy.array(chunk, numpy.int64)
        assert index.numbers_of(keys).tolist() == [expected.get(key, -1) for key in chunk]
        new = [key for key in dict.fromkeys(chunk) if key not in expected]
        if new:
            index.put(numpy.array(new, numpy.int64), len(expected))
            expected.update(zip(new, range(len(expected), len(expected) + len(new)), strict=True))
        assert index.numbers_of(keys).tolist() == [expected[key] for key in chunk]


@given(chunks=st.lists(st.lists(st.none() | INTEGERS, min_size=1, max_size=20), max_size=8))
def test_integers_have_one_slot_with_and_without_a_null_in_their_batch(chunks: list[list[int | None]]) -> None:
    """A batch with a null has Python objects as keys: the same key would have two states."""
    slots, expected = KeySlots(), {}
    for chunk in chunks:
        found = slots.slots_of(row_keys([pyarrow.array(chunk, pyarrow.int64())])).tolist()
        assert found == [expected.setdefault(key, len(expected)) for key in chunk]
    assert slots.keys(slice(len(slots))) == list(expected) and len(slots) == len(expected)
    last = numpy.arange(len(slots))[-3:]
    assert slots.keys(last) == list(expected)[-3:]


def test_keys_beyond_64_bits_and_of_other_types() -> None:
    """An unsigned key would be another, or fail."""
    slots = KeySlots()
    unsigned = pyarrow.array([(1 << 64) - 1, 1, (1 << 64) - 1], pyarrow.uint64())
    assert slots.slots_of(row_keys([unsigned])).tolist() == [0, 1, 0]
    assert slots.slots_of(row_keys([pyarrow.array([1])])).tolist() == [1]
    assert slots.keys(slice(2)) == [(1 << 64) - 1, 1]


@pytest.mark.parametrize(
    "columns",
    [
        [pyarrow.array([str(number) for number in range(30_000)])],
        [pyarrow.array(range(30_000)), pyarrow.array([str(number) for number in range(30_000)])],
    ],
    ids=["texts", "pairs"],
)
def test_few_keys_are_read_without_a_look_at_all(columns: list[pyarrow.Array]) -> None:
    """A snapshot reads keys in blocks: with all keys looked at for each, its work would grow with their square."""
    slots = KeySlots()
    slots.slots_of(tuple_keys(columns) if columns[1:] else row_keys(columns))
    few = numpy.array([7, 29_999])
    tracemalloc.start()
    try:
        found = slots.keys(few)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == slots.keys(slice(None))[7::29_992]
    assert most < 30_000
