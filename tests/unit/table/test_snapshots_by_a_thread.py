"""Arrays of tables that a thread writes to a snapshot while the task changes them: each key keeps its own value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig
from tests.unit.table.plain_loops import Given
from tests.unit.table.test_windows_in_a_store import CALLS

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import IntegerKeys
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.aggregates.objects import Collect
from penstock.table.operators.keyed.value_counts import ValueCounts
from penstock.table.operators.ordering import append_top
from penstock.table.operators.ordering.append_top import AppendTopOperator
from penstock.table.operators.ordering.kept_rows import KeptRows
from penstock.table.operators.ordering.ranked_rows import RankedRows
from penstock.table.operators.ordering.ranking import APPEND, Ranking
from penstock.table.operators.ordering.sort_keys import keys_of_rows
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.sessions import Sessions

KEYS = 2000
CHANGING = numpy.arange(0, KEYS, 2)
"""Every second key changes all the time, the others never."""
COLUMNS = TableColumns(pyarrow.schema([("k", pyarrow.int64()), ("n", pyarrow.int64())]))
ORDER = (SortColumn(1, ascending=True, nulls_last=True),)
Put = Callable[[Any, int], None]
"""Gives keys a value, which depends on the key and a number."""


def batch_of(slots: Any, number: int) -> pyarrow.RecordBatch:
    """Return a row of each key."""
    return pyarrow.record_batch([pyarrow.array(slots), pyarrow.array(slots * 10 + number)], schema=COLUMNS.schema)


def kept_rows() -> tuple[StateArray, Put]:
    """A row of each key."""
    array = KeptRows(COLUMNS)
    return array, lambda slots, number: array.put(slots, batch_of(slots, number))


def ranked_rows() -> tuple[StateArray, Put]:
    """The rows of each key, of which it has one."""
    array = RankedRows(COLUMNS, ORDER)

    def put(slots: Any, number: int) -> None:
        rows, first = batch_of(slots, number), array.used
        array.append(rows)
        for place, (slot, key) in enumerate(zip(slots.tolist(), keys_of_rows(rows, ORDER), strict=True), first):
            array.keys[slot], array.numbers[slot] = [key], [place]

    return array, put


def value_counts() -> tuple[StateArray, Put]:
    """A value of each key, which comes once."""
    array = ValueCounts([pyarrow.int64()])

    def put(slots: Any, number: int) -> None:
        array.clear(slots)
        entries = array.entries_of(slots, [pyarrow.array(slots * 10 + number)])
        array.add(entries, numpy.ones(len(slots), numpy.int64))

    return array, put


def sessions() -> tuple[StateArray, Put]:
    """A session of each key."""
    array = Sessions(CALLS, CALLS.aggregates(), 1)

    def put(slots: Any, number: int) -> None:
        array.clear(slots)
        array.add(slots, slots * 10 + number, [pyarrow.array(slots)], numpy.ones(len(slots), numpy.int64))

    return array, put


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("make", [kept_rows, ranked_rows, value_counts, sessions])
def test_a_snapshot_has_the_values_of_the_moment(make: Any, hurried: None) -> None:
    """Rows that move while they are read would be taken for those of other keys: in silence, until a restore."""
    array, put = make()
    table = ArrayTable([array])
    slots = table.slots_of(IntegerKeys(numpy.arange(KEYS)))
    table.change(slots)
    put(slots, 0)
    for round in range(1, 13):
        expected = dict(table.entries_at(slots))
        frozen = table.freeze(True)
        found: dict[Any, Any] = {}
        failures: list[Exception] = []

        def write(frozen: Any = frozen, found: Any = found, failures: Any = failures) -> None:
            try:
                for keys, values in frozen.pieces():
                    found.update(zip(keys, values, strict=True))
            except Exception as error:
                failures.append(error)

        writer = Thread(target=write)
        writer.start()
        number = 0
        while writer.is_alive() and number < 1000:
            number += 1
            table.change(CHANGING)
            put(CHANGING, round * 7 + number % 7)
            table.compact_arrays()
        writer.join()
        assert not failures
        for keys, values in frozen.pieces():
            found.update(zip(keys, values, strict=True))
        frozen.release()
        table.compact_arrays()
        assert {key: repr(value) for key, value in found.items()} == {
            key: repr(value) for key, value in expected.items()
        }


class Counting(KeptRows):
    """Counts the calls of `compact`."""

    calls = 0

    def compact(self) -> None:
        self.calls += 1


def test_nothing_moves_while_a_snapshot_reads() -> None:
    """The thread that writes it does not wait for the task."""
    array = Counting(COLUMNS)
    table = ArrayTable([array])
    frozen = [table.freeze(True), table.freeze(False)]
    table.compact_arrays()
    frozen[0].release()
    table.compact_arrays()
    assert array.calls == 0
    frozen[1].release()
    table.compact_arrays()
    assert array.calls == 1


def test_blocks_are_taken_while_others_are_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """While blocks are joined, which lets other threads run, their rows would be nowhere."""
    blocks, seen, concat = RowBlocks(), [], pyarrow.concat_batches

    def taking(batches: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(pyarrow, "concat_batches", concat)
            seen.append(blocks.take(numpy.arange(known)).column(0).to_pylist())
        return concat(batches)

    known = 0
    for count in (8, 4, 2, 1):
        blocks.append(pyarrow.record_batch({"n": list(range(known, known + count))}))
        known += count
    monkeypatch.setattr(pyarrow, "concat_batches", taking)
    blocks.append(pyarrow.record_batch({"n": [known]}))
    assert seen == [list(range(known))] * 4


def test_rows_of_a_top_n_are_there_before_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot failed that a thread wrote meanwhile: it found numbers of rows that had not been appended."""
    append = RankedRows.append

    def checked(self: RankedRows, rows: pyarrow.RecordBatch) -> None:
        assert all(number < self.used for of_slot in self.numbers if of_slot for number in of_slot)
        append(self, rows)

    monkeypatch.setattr(RankedRows, "append", checked)
    ranking = Ranking(ORDER, 1, 2, APPEND, with_number=False, update_before=True)
    operator = AppendTopOperator("Top", ["k"], ranking, received=COLUMNS, given=COLUMNS)
    rig = Given(operator)
    for number in range(3):
        rig.operator.process(Columns(batch_of(numpy.arange(5), -number)))
    assert sum(map(len, rig.take())) > 5


class Changing:
    """A value that changes a dict while it is copied, as another thread may."""

    def __init__(self, state: dict[Any, int]) -> None:
        self.state = state

    def __deepcopy__(self, memo: Any) -> Changing:
        self.state["b"] = 1
        return self


def test_multisets_are_copied_in_one_step() -> None:
    """A snapshot failed, because a dictionary had another size while it was copied."""
    one = Collect(pyarrow.null())
    state = one.create()
    state[Changing(state)] = state["a"] = 1
    one.objects.values[0] = state
    (copy,) = one.objects.stored(numpy.zeros(1, numpy.int64)).parts[0]
    state["c"] = 1
    assert [*copy] == [*state][:2]


def test_the_first_rows_of_keys_are_read_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that writes a snapshot would end with an error: the number of a row was known before the row."""
    ranking = Ranking(ORDER, 1, 2, APPEND, with_number=False, update_before=True)
    one = AppendTopOperator("top", ["k"], ranking, received=COLUMNS, given=COLUMNS)
    emitted = SimpleNamespace(emit=lambda chunk: True)
    Rig(one).operator.output = emitted
    reads: list[int] = []
    place_of = append_top.bisect_right

    def read_meanwhile(keys: Any, key: Any) -> int:
        (array,) = one.state.arrays
        reads.append(len(array.stored(numpy.arange(2)).values()))
        return place_of(keys, key)

    monkeypatch.setattr(append_top, "bisect_right", read_meanwhile)
    for number in range(3):
        keys = numpy.array([1, 2, 1, 2])
        assert one.process(Columns(batch_of(keys, -number)))
    assert len(reads) > 6
