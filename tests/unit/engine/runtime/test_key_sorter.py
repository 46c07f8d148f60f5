"""Sorting by key and timestamp: the same order whatever was spilled, in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.batch.key_sorter import (
    KEY_BYTES,
    OBJECT_BYTES_PER_BYTE,
    RUNS_MAX,
    UNTIMED,
    KeySorter,
    Piece,
    SortedRun,
    merged,
)
from penstock.engine.state.keys import KeyTypeError, encode_key
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.hosts.simulator.stores import MemorySpill


class Disk:
    """Where a sorter spills to."""

    def __init__(self) -> None:
        self.files: list[MemorySpill] = []

    def open(self) -> MemorySpill:
        self.files.append(MemorySpill())
        return self.files[-1]

    @property
    def in_use(self) -> int:
        return sum(not file.is_closed for file in self.files)


def drained(sorter: KeySorter) -> list[tuple[bytes, Any, int]]:
    """What comes out, record by record."""
    records = []
    for key, values, timestamps in sorter.drain():
        assert timestamps is None or len(timestamps) == len(values) > 0
        records += [(key, v, t) for v, t in zip(values, timestamps or [UNTIMED] * len(values), strict=True)]
    return records


def plainly(chunks: list[list[tuple[Any, int | None]]]) -> list[tuple[bytes, Any, int]]:
    """The same by a stable sort of a list."""
    records = [
        (encode_key(key), (key, n, at), UNTIMED if at is None else at)
        for n, chunk in enumerate(chunks)
        for key, at in chunk
    ]
    return sorted(records, key=lambda record: (record[0], record[2]))


def added(sorter: KeySorter, chunks: list[list[tuple[Any, int | None]]], record_bytes: int = 10) -> KeySorter:
    for n, chunk in enumerate(chunks):
        keys = [key for key, _ in chunk]
        timestamps = None if chunk and chunk[0][1] is None else [at for _, at in chunk]
        sorter.add(keys, [(key, n, at) for key, at in chunk], timestamps, record_bytes * len(chunk))
    return sorter


KEYS = st.sampled_from([0, 1, True, 1.0, "a", "b", ("a", 1), None])
TIMED = st.lists(st.tuples(KEYS, st.integers(0, 5)), max_size=6)
UNTIMED_ONES = st.lists(st.tuples(KEYS, st.none()), max_size=6)


@settings(max_examples=150)
@given(
    chunks=st.lists(st.one_of(TIMED, UNTIMED_ONES), max_size=12),
    memory_bytes=st.sampled_from([0, 500, 2_000, 1 << 20]),
)
def test_records_come_by_key_then_time_then_arrival(chunks, memory_bytes) -> None:
    """A function would see a key twice, or its records in another order each time the task runs."""
    disk = Disk()
    sorter = KeySorter(memory_bytes, disk.open)
    assert drained(added(sorter, chunks)) == plainly(chunks)
    assert disk.in_use == 0
    assert drained(sorter) == [], "what was taken once must not come again"
    assert drained(added(sorter, chunks)) == plainly(chunks)


def test_one_key_larger_than_memory_is_read_piece_by_piece() -> None:
    """The most frequent key of a batch would not fit into memory."""
    disk = Disk()
    sorter = KeySorter(500 * 10_000 * OBJECT_BYTES_PER_BYTE + KEY_BYTES, disk.open)
    chunks = [[("hot", (n * 37 + i * 11) % 1000) for i in range(50)] for n in range(100)]
    added(sorter, chunks, record_bytes=10_000)
    assert disk.in_use == 9
    largest = 0
    seen = []
    for piece in sorter.drain():
        largest = max(largest, len(piece.values))
        seen += [(encode_key("hot"), v, t) for v, t in zip(piece.values, piece.timestamps, strict=True)]
    assert seen == plainly(chunks)
    assert largest < 500, "a run is that long, and there are 5,000 records"


def test_many_keys_of_few_records_are_spilled_too() -> None:
    """Ten million customers with an order each would take the memory of a hundred million orders."""
    disk = Disk()
    sorter = KeySorter(1000 * KEY_BYTES, disk.open)
    chunks = [[(n * 100 + i, None) for i in range(100)] for n in range(25)]
    added(sorter, chunks, record_bytes=1)
    assert disk.in_use == 2
    assert drained(sorter) == plainly(chunks)


@pytest.mark.parametrize("timestamp", [None, 7])
def test_one_key_without_an_order_of_time_is_read_piece_by_piece(timestamp) -> None:
    """Records of equal timestamps would gather in memory until the last of them."""
    sorter = KeySorter(0, Disk().open)
    chunks = [[("hot", timestamp)] * 3 for _ in range(50)]
    added(sorter, chunks)
    pieces = list(sorter.drain())
    assert max(len(piece.values) for piece in pieces) <= 3
    assert [value for piece in pieces for value in piece.values] == [
        ("hot", n, timestamp) for n in range(50) for _ in "abc"
    ]


def test_many_runs_are_merged_on_the_way() -> None:
    """A batch of a terabyte would open more files than a process may."""
    disk = Disk()
    sorter = KeySorter(0, disk.open)
    chunks = [[(n % 7, n % 3), (n % 5, n % 4)] for n in range(3 * RUNS_MAX)]
    for n, chunk in enumerate(chunks):
        sorter.add([key for key, _ in chunk], [(key, n, at) for key, at in chunk], [at for _, at in chunk], 10)
        assert disk.in_use <= RUNS_MAX + 1
    assert drained(sorter) == plainly(chunks)
    assert disk.in_use == 0


def test_blocks_hold_as_many_records_as_fit() -> None:
    """Large records would make the merge take the memory that the runs have saved."""
    disk = Disk()
    values = [bytes(100_000) for _ in range(10)]
    sorter = KeySorter(0, disk.open)
    sorter.add([1] * 10, values, None, 1_000_000)
    assert [len(piece.values) for piece in sorter.drain()] == [1] * 10


def test_closing_frees_the_disk() -> None:
    """Cancelled jobs would fill it."""
    disk = Disk()
    sorter = KeySorter(0, disk.open)
    added(sorter, [[("a", 1)], [("b", 2)]])
    assert disk.in_use == 2
    sorter.close()
    assert disk.in_use == 0
    assert drained(sorter) == []


def test_what_cannot_be_a_key_is_refused() -> None:
    """It would be found out only by records that are missing."""
    sorter = KeySorter(1 << 20, None)
    sorter.add([float("nan")], ["x"], None, 10)
    with pytest.raises(KeyTypeError):
        drained(sorter)


@settings(max_examples=100)
@given(
    runs=st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), max_size=8), max_size=4),
    block=st.integers(1, 4),
)
def test_merging_is_stable_however_runs_are_cut(runs, block) -> None:
    """Records of one timestamp would change places with the size of the memory."""
    everything = []
    sorted_runs = []
    for number, run in enumerate(runs):
        by_key = defaultdict(list)
        for at, (key, timestamp) in enumerate(run):
            by_key[key].append((timestamp, (number, at)))
        pieces = []
        for key in sorted(by_key):
            records = sorted(by_key[key], key=lambda record: record[0])
            everything += [(key.encode(), timestamp, value) for timestamp, value in records]
            pieces.append(Piece(key.encode(), [value for _, value in records], [timestamp for timestamp, _ in records]))
        sorted_runs.append(SortedRun(MemorySpill(), pieces, block))
    out = [
        (piece.encoded_key, timestamp, value)
        for piece in merged(sorted_runs)
        for timestamp, value in zip(piece.timestamps, piece.values, strict=True)
    ]
    assert out == sorted(everything, key=lambda record: record[:2])
    assert MIN_TIMESTAMP > UNTIMED


def with_memory(disk: Disk, budget: MemoryBudget) -> KeySorter:
    return KeySorter(1 << 40, disk.open, lambda spill: budget.account("operator", "sorted input", spill=spill))


def test_two_sorters_share_the_memory_of_their_slot() -> None:
    """Each operator of a slot would take all of its memory, and the slot would be killed."""
    disk, budget = Disk(), MemoryBudget(8 << 20)
    sorters = [with_memory(disk, budget) for _ in range(2)]
    chunks = [[((n * 7 + i) % 97, n) for i in range(50)] for n in range(60)]
    for chunk in chunks:
        for sorter in sorters:
            added(sorter, [chunk], record_bytes=1000)
            assert budget.used_bytes <= 8 << 20
    assert disk.in_use > 2
    for sorter in sorters:
        in_order = drained(sorter)
        assert [(key, value[0], at) for key, value, at in in_order] == [
            (key, value[0], at) for key, value, at in plainly(chunks)
        ]
    assert (budget.used_bytes, disk.in_use) == (0, 0)


def test_what_is_drained_is_neither_spilled_nor_forgotten() -> None:
    """Records would come twice, or memory that is in use would be given to another operator."""
    disk, budget = Disk(), MemoryBudget(3 << 20)
    first, second = (with_memory(disk, budget) for _ in range(2))
    chunks = [[(i, n) for i in range(50)] for n in range(5)]
    added(first, chunks, record_bytes=1000)
    held = budget.used_bytes
    assert held >= 2 << 20
    draining = first.drain()
    some = [next(draining) for _ in range(3)]
    added(second, chunks, record_bytes=1000)
    assert disk.in_use, "the second one spills its own"
    assert budget.used_bytes >= held
    assert sum(len(piece.values) for piece in [*some, *draining]) == 250
    assert len(drained(second)) == 250
    assert budget.used_bytes == 0
