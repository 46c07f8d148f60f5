"""State of columns and the memory of their slot: what is refused, what goes to a table behind, and what is returned."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of

from penstock.common import Time, Types
from penstock.common.errors import MemoryBudgetError
from penstock.common.functions.field_aggregates import AVG, COUNT, SUM, FieldAggregate
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.running_aggregate import ColumnRunningAggregateOperator
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.hosts.simulator.stores import MemoryStore
from penstock.testing import OperatorHarness

READING = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])
AGGREGATES = {"n": ("n", "sum"), "count": "count", "mean": ("n", "avg")}
PARTIAL_AGGREGATES = {"n": ("n", "sum"), "count": "count"}
ARRAYS = [FieldAggregate("count", COUNT), FieldAggregate("sum", SUM, "n"), FieldAggregate("mean", AVG, "n")]
TYPES = [None, numpy.int64, numpy.int64]
MB = 1 << 20


class Rig:
    """An operator on columns in a slot with some memory. `found`: what it emits, as tuples."""

    def __init__(self, operator: Any, memory: MemoryBudget, stored: bool = False) -> None:
        self.operator = operator
        self.memory = memory
        self.found: list[Any] = []
        self.largest = 0
        info = SubtaskInfo("job", 3, "task", 1, 2, 128)
        stores = Stores(MemoryStore, cached_entries=10) if stored else None
        task = TaskContext(info, lambda: 0, Budget(lambda: 0), KeyGroups(128), stores, memory=memory)
        operator.setup(OperatorContext(task, "Sums", uid="sums", counters=OperatorCounters("Sums")), self)
        operator.open()

    def push(self, keys: Any, times: Any) -> None:
        """Process a chunk: the number of each record is its key and 1."""
        schema = self.operator.columns_received.schema
        columns = [pyarrow.array(keys, pyarrow.int64()), pyarrow.array(numpy.asarray(keys) + 1, pyarrow.int64())]
        batch = pyarrow.RecordBatch.from_arrays(columns, schema=schema)
        self.operator.process(Columns(batch, numpy.asarray(times, numpy.int64)))
        self._resume()
        self.largest = max(self.largest, self.memory.used_bytes)

    def until(self, time: int) -> None:
        """Advance event time."""
        self.operator.watermark(time)
        self._resume()

    def emit(self, chunk: Any) -> bool:
        """Note results."""
        if isinstance(chunk, Columns):
            self.found += [tuple(row.values()) for row in chunk.batch.to_pylist()]
        else:
            self.found += [tuple(row) for row in chunk.values]
        return True

    def watermark(self, timestamp: int) -> bool:
        """Ignore it."""
        return True

    def _resume(self) -> None:
        while self.operator.paused:
            self.operator.resume()


def windows_operator(windows: Any, aggregates: Any = AGGREGATES) -> Any:
    """Return an operator of windows on columns."""
    harness = OperatorHarness(
        lambda stream: stream.as_columns(READING).key_by("key").window(windows).aggregate(aggregates)
    )
    assert type(harness.operator) is ColumnWindowOperator
    return harness.operator


def running_operator() -> Any:
    """Return an operator of running aggregates on columns."""
    harness = OperatorHarness(lambda stream: stream.as_columns(READING).key_by("key").aggregate(AGGREGATES))
    assert type(harness.operator) is ColumnRunningAggregateOperator
    return harness.operator


TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(30), Time.milliseconds(10))


def chunks(seed: int, keys: int, count: int = 12, rows: int = 400) -> Iterator[tuple[Any, Any, int]]:
    """Yield keys, times, and the watermark behind the chunk."""
    random = numpy.random.default_rng(seed)
    for number in range(count):
        first = number * 5
        yield random.integers(-keys, keys, rows), random.integers(first, first + 25, rows), first


@pytest.mark.parametrize(
    "make", [lambda: windows_operator(TUMBLING), lambda: windows_operator(SLIDING), running_operator]
)
def test_state_that_exceeds_the_budget_is_refused_before_it_grows(make: Any) -> None:
    """A slot whose state grows would be killed, and nothing would tell which operator it was."""
    memory = MemoryBudget(2 * MB)
    rig = Rig(make(), memory)
    with pytest.raises(MemoryBudgetError, match=r"operator 'Sums' \(uid sums\), subtask 2 of 2: .*taskmanager.memory"):
        for first in range(0, 1 << 20, 1000):
            rig.push(numpy.arange(first, first + 1000), numpy.full(1000, 15))
    assert MB // 2 < rig.largest <= memory.used_bytes <= 2 * MB
    assert memory.used_by(3) == memory.used_bytes


@pytest.mark.parametrize("seed", first_of(2, range(4)))
@pytest.mark.parametrize("windows", [TUMBLING, SLIDING])
@pytest.mark.parametrize("stored", [False, True])
def test_windows_that_have_fired_hold_no_memory(windows: Any, stored: bool, seed: int) -> None:
    """A job would be refused memory after some hours, although its windows are small."""
    memory = MemoryBudget()
    rig = Rig(windows_operator(windows), memory, stored)
    for keys, times, watermark in chunks(seed, 500):
        rig.push(keys, times)
        rig.until(watermark)
        tables = rig.operator.keyed_tables().values()
        on_heap = [one for table in tables if isinstance(table, SlicedArrays) for one in table.slices.values()]
        if not stored:
            assert memory.used_bytes == sum(table.bytes_used for table in on_heap) > 0
    assert memory.used_bytes and rig.found
    rig.until(1 << 40)
    assert memory.used_bytes == 0


def tumbling() -> Any:
    return windows_operator(TUMBLING)


def sliding() -> Any:
    return windows_operator(SLIDING)


IN_TURN = [(tumbling, 0), (sliding, 150_000), (running_operator, 0), (tumbling, 150_000), (sliding, 0)]


@pytest.mark.parametrize(("make", "limit"), first_of(3, [*IN_TURN, (running_operator, 150_000)]))
def test_caches_that_exceed_the_budget_go_to_the_table_behind(make: Any, limit: int) -> None:
    """With state in RocksDB, a job of many keys would fail for want of memory, or give other results."""
    found, largest = [], []
    for memory in (MemoryBudget(), MemoryBudget(limit)):
        rig = Rig(make(), memory, stored=True)
        for keys, times, watermark in chunks(7, 3_000):
            rig.push(keys, times)
            rig.until(watermark)
        rig.until(1 << 40)
        found.append(rig.found)
        largest.append(rig.largest)
    # Windows whose keys come from the table fire in its order.
    assert sorted(found[0]) == sorted(found[1])
    # What a cache holds after a chunk: no window, or arrays without a key.
    assert largest[1] <= limit + 10_000 < largest[0]


@pytest.mark.parametrize("limit", [0, 60_000, None])
def test_aggregates_before_the_exchange_are_sent_when_they_exceed_the_budget(limit: int | None) -> None:
    """An operator that only saves traffic would take the memory of those that need it."""
    local, _ = windows_operator(TUMBLING, PARTIAL_AGGREGATES).local_and_global()
    assert isinstance(local, LocalWindowAggregateOperator)
    memory = MemoryBudget(limit)
    rig = Rig(local, memory)
    expected: dict[Any, int] = {}
    for keys, times, watermark in chunks(3, 2_000):
        rig.push(keys, times)
        rig.until(watermark)
        for key in keys.tolist():
            expected[key] = expected.get(key, 0) + 1
    if limit == 0:
        assert rig.largest == 0
    elif limit:
        assert 0 < rig.largest <= limit
    else:
        assert rig.largest > 60_000
    rig.operator.finish()
    sums: dict[Any, int] = {}
    for key, *_, count in rig.found:
        sums[key] = sums.get(key, 0) + count
    assert sums == expected
    assert memory.used_bytes == 0


def new_table(memory: MemoryBudget) -> ArrayTable:
    """Return an empty table with an account of its own."""
    return ArrayTable(arrays_of(ARRAYS, TYPES), memory.account("operator 'Sums', subtask 1 of 1", "keyed state"))


def fill(table: ArrayTable, keys: Any) -> None:
    """Add a record for each key."""
    column = pyarrow.array(keys)
    numbers = pyarrow.array(numpy.arange(len(column)))
    KeyedArrays(table).add(row_keys([column]), [None, numbers, numbers])


@pytest.mark.parametrize("of_text", [False, True])
def test_restored_state_counts(of_text: bool) -> None:
    """After a restart a slot would take its memory twice: once for what it has restored, once for new keys."""
    keys = [f"key {n}" for n in range(3000)] if of_text else list(range(3000))
    memories = [MemoryBudget() for _ in range(3)]
    first, second = new_table(memories[0]), new_table(memories[1])
    fill(first, keys)
    pieces = first.pieces_at(numpy.arange(3000))
    for piece in pieces:
        second.restore(*piece)
    assert memories[1].used_bytes == memories[0].used_bytes == first.bytes_used > 3000 * 60
    by_start = SlicedArrays(lambda: new_table(memories[2]))
    for _, piece in first.rows_at(numpy.arange(3000), 10):
        by_start.restore(*piece)
    assert memories[2].used_bytes == first.bytes_used
    by_start.clear()
    assert memories[2].used_bytes == 0
    refused = new_table(MemoryBudget(memories[0].used_bytes // 2))
    with pytest.raises(MemoryBudgetError, match="operator 'Sums', subtask 1 of 1: no memory for its keyed state"):
        for piece in pieces:
            refused.restore(*piece)


@pytest.mark.parametrize("of_text", [False, True])
def test_a_table_takes_no_more_than_it_has_reserved(of_text: bool) -> None:
    """A slot would be killed below its budget, because arrays, keys and copies take more than is accounted."""

    reserved = [0]

    class Watched(MemoryBudget):
        """Notes the most that was reserved, copies included."""

        def has_room_for(self, bytes_more: int, asking: Any) -> bool:
            reserved[0] = max(reserved[0], self.used_bytes + bytes_more)
            return super().has_room_for(bytes_more, asking)

    memory = Watched()
    rows = 1 << 12
    fill(new_table(MemoryBudget()), ["a"] if of_text else [1])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        table = new_table(memory)
        for first in range(0, 40 * rows, rows):
            fill(
                table,
                [f"key {n:08}" for n in range(first, first + rows)] if of_text else numpy.arange(first, first + rows),
            )
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A chunk itself takes less than a MB.
    assert peak - before <= reserved[0] + MB
    assert now - before <= memory.used_bytes + MB
    assert memory.used_bytes <= 1.6 * (now - before), "more is refused than has to be"


def test_sums_that_become_wide_are_accounted() -> None:
    """Sums of times in nanoseconds take three times as much as others."""
    memory = MemoryBudget()
    table = ArrayTable(arrays_of(ARRAYS[:2], TYPES[:2]), memory.account("operator", "keyed state"))
    keys = row_keys([pyarrow.array([1, 2, 3])])
    KeyedArrays(table).add(keys, [None, pyarrow.array([1, 2, 3])])
    narrow = memory.used_bytes
    KeyedArrays(table).add(keys, [None, pyarrow.array([1 << 62, 1 << 62, 1])])
    assert memory.used_bytes == narrow + 64 * 16 == table.bytes_used


def test_refused_keys_leave_a_table_that_can_be_read() -> None:
    """The error would be hidden by another one, of an array that is too short, when a snapshot or a query reads it."""
    random = Random(5)
    memory = MemoryBudget(40_000)
    table = new_table(memory)
    known = 0
    with pytest.raises(MemoryBudgetError):
        for _ in range(1000):
            fill(table, [random.choice([n, f"text {n}"]) for n in [random.randrange(1 << 40)]])
            known = len(table)
    assert known <= len(table) <= known + 1
    assert sum(map(len, table.pieces_at(numpy.arange(known)))) == known
    assert memory.used_bytes == table.bytes_used <= 40_000


@pytest.mark.parametrize("of_text", [False, True])
def test_keys_that_are_removed_give_their_memory_back(of_text: bool) -> None:
    """Keys that expire would count for ever, and new ones would be refused."""
    keys = [f"key {n}" for n in range(5000)] if of_text else list(range(5000))
    memory, few = MemoryBudget(), MemoryBudget()
    table = new_table(memory)
    fill(table, keys)
    table.remove(numpy.arange(1100, 5000))
    table.drop_removed()
    fill(new_table(few), keys[:1100])
    assert len(table) == 1100
    assert memory.used_bytes == table.bytes_used == few.used_bytes
    fill(table, keys)
    assert table.alive == 5000
    assert memory.used_bytes == table.bytes_used > 3 * few.used_bytes
    table.clear()
    fill(table, keys[:3])
    assert memory.used_bytes == table.bytes_used
