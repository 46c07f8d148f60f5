"""The memory of operators that keep rows: joins, de-duplication, top N, and what a snapshot copies of arrays."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.columns.test_column_interval_join import operator_of as join_operator
from tests.unit.engine.runtime.columns.test_memory_of_columns import READING, Rig, fill, new_table

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import MemoryBudgetError
from penstock.common.functions.field_key import FieldKey
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.deduplicate import ColumnDeduplicateOperator
from penstock.engine.runtime.columns.top_n import ColumnTopNOperator
from penstock.engine.runtime.operators.deduplicate import Kept
from penstock.engine.runtime.operators.top_n import Ranking
from penstock.engine.state.memory_budget import MemoryBudget

COLUMNS = RecordColumns(READING)
MB = 1 << 20
REFUSED = r"operator 'Sums' \(uid sums\), subtask 2 of 2: no memory for its {what}, .*taskmanager.memory"


def deduplication(kept: Kept) -> Any:
    """Return an operator that keeps a row of each key."""
    return ColumnDeduplicateOperator("Sums", FieldKey(("key",)), kept, key_fields=["key"], columns=COLUMNS)


def top(limit: int, ascending: bool = True) -> Any:
    """Return an operator that keeps the rows with the least numbers."""
    return ColumnTopNOperator(
        "Sums", FieldKey(("key",)), Ranking("n", limit, ascending), key_fields=["key"], columns=COLUMNS
    )


KEEPING: dict[str, tuple[Any, str]] = {
    "first row": (lambda: deduplication(Kept(last=False)), "kept rows"),
    "last row by event time": (lambda: deduplication(Kept(last=True, by_event_time=True)), "kept rows"),
    "top rows": (lambda: top(3), "top rows"),
}


@pytest.mark.parametrize("name", KEEPING)
def test_rows_that_exceed_the_budget_are_refused_before_there_are_more(name: str) -> None:
    """A slot whose state grows would be killed, and nothing would tell which operator it was."""
    make, what = KEEPING[name]
    memory = MemoryBudget(2 * MB)
    rig = Rig(make(), memory)
    table = rig.operator.keyed_tables()[f"({what})"]
    before: Any = None
    with pytest.raises(MemoryBudgetError, match=REFUSED.format(what=what)):
        for first in range(0, 1 << 20, 1000):
            before = dict(table.first_items()) if first >= 5000 else None
            rig.push(numpy.arange(first, first + 1000), numpy.full(1000, 15))
    assert MB // 2 < rig.largest <= memory.used_bytes <= 2 * MB
    after = dict(table.first_items())
    assert before is not None and {key: after[key] for key in before} == before


@pytest.mark.parametrize("limit", [0, 150_000])
@pytest.mark.parametrize("name", KEEPING)
def test_caches_that_exceed_the_budget_are_forgotten(name: str, limit: int) -> None:
    """With state in RocksDB, a job of many keys would fail for want of memory, or give other results."""
    found = []
    for memory in (MemoryBudget(), MemoryBudget(limit)):
        rig = Rig(KEEPING[name][0](), memory, stored=True)
        random = numpy.random.default_rng(4)
        for _ in range(12):
            rig.push(random.integers(0, 3000, 400), random.integers(0, 50, 400))
        found.append(rig.found)
    assert found[0] == found[1] and found[0]
    # What a cache holds after a chunk: arrays without a key.
    assert memory.used_bytes <= limit + 10_000


def test_scores_that_exceed_the_budget_are_forgotten() -> None:
    """Scores that only save time would take the memory of state."""
    memory = MemoryBudget(300_000)
    rig = Rig(top(1), memory)
    for first in range(0, 1000, 100):
        rig.push(numpy.arange(first, first + 100), numpy.full(100, 1))
    assert len(rig.found) == 1000
    assert memory.used_bytes <= 300_000


def test_rows_that_leave_the_top_hold_no_memory() -> None:
    """A job would be refused memory after some hours, though it keeps few rows."""
    memory = MemoryBudget()
    rig = Rig(top(2, ascending=False), memory)
    used = []
    for number in range(40):
        keys = numpy.arange(10)
        batch = pyarrow.RecordBatch.from_arrays(
            [pyarrow.array(keys), pyarrow.array(keys + number)], schema=COLUMNS.schema
        )
        rig.operator.process(Columns(batch, numpy.zeros(10, numpy.int64)))
        used.append(memory.used_bytes)
    assert 0 < used[0] < used[1] == used[-1]


class Join:
    """A join in a slot with some memory."""

    def __init__(self, memory: MemoryBudget) -> None:
        self.rig = Rig(join_operator(), memory)
        self.memory = memory
        self.columns = self.rig.operator.columns_received_by(0)

    def push(self, keys: Any, times: Any) -> None:
        """Process records of the left, whose fields other than the key are None."""
        schema = self.columns.schema
        arrays = [
            pyarrow.array(list(map(str, keys)), field.type)
            if field.name == "key"
            else pyarrow.nulls(len(keys), field.type)
            for field in schema
        ]
        batch = pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
        self.rig.operator.process(Columns(batch, numpy.asarray(times, numpy.int64)))
        while self.rig.operator.paused:
            self.rig.operator.resume()


def test_records_that_wait_for_partners_are_refused() -> None:
    """A join whose watermark stands still would have its worker killed."""
    memory = MemoryBudget(4 * MB)
    join = Join(memory)
    left = join.rig.operator.keyed_tables()["(interval join) left"]
    before = 0
    with pytest.raises(MemoryBudgetError, match=REFUSED.format(what="records of the left")):
        for first in range(1, 1 << 20, 500):
            before = sum(map(len, left.spans.values()))
            join.push(range(first, first + 500), numpy.arange(first, first + 500))
    assert sum(map(len, left.spans.values())) == before > 1000
    held = sum(bucket.nbytes for bucket in left.spans.values())
    assert memory.used_bytes == held <= 4 * MB


def test_buckets_that_are_freed_hold_no_memory() -> None:
    """A join would be refused memory after some hours."""
    join = Join(MemoryBudget())
    for first in range(1, 5000, 500):
        join.push(range(first, first + 500), numpy.arange(first, first + 500))
        assert join.memory.used_bytes
    join.rig.until(1 << 40)
    assert join.memory.used_bytes == 0


def test_rows_copied_for_a_snapshot_are_accounted() -> None:
    """A checkpoint of a table that changes meanwhile would take memory twice, and the slot would be killed."""
    memory = MemoryBudget()
    table = new_table(memory)
    fill(table, range(3000))
    held = memory.used_bytes
    frozen = table.freeze(True)
    fill(table, range(1000))
    assert memory.used_bytes == held + 1000 * table.row_bytes
    fill(table, range(1000))
    assert memory.used_bytes == held + 1000 * table.row_bytes, "each is copied once"
    assert sum(len(keys) for keys, _ in frozen.pieces()) == 3000
    frozen.release()
    assert memory.used_bytes == held


def test_rows_that_cannot_be_copied_for_a_snapshot_are_not_changed() -> None:
    """The checkpoint would have values of after its barrier."""
    memory = MemoryBudget(400_000)
    table = new_table(memory)
    fill(table, range(3000))
    before = table.entries_at(numpy.arange(3000))
    other = memory.account("operator 'other', subtask 1 of 1", "keyed state")
    other.reserve(400_000 - memory.used_bytes - 100)
    frozen = table.freeze(True)
    with pytest.raises(MemoryBudgetError, match="operator 'Sums', subtask 1 of 1: no memory for its keyed state"):
        fill(table, range(1000))
    assert table.entries_at(numpy.arange(3000)) == before
    frozen.release()
