"""Rows of keys: what snapshots have of them, and what is restored."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of

from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.arrays.row_keys import keys_of_values
from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import FrozenTable
from penstock.table.operators.table_columns import TableColumns

SCHEMA = pyarrow.schema([("number", pyarrow.int64()), ("text", pyarrow.string())])
COLUMNS = TableColumns(SCHEMA)
GROUPS = 8
Row = tuple[Any, int, str | None, int]
"""Key, number, text, count."""
Stored = list[tuple[int, tuple[Any, ...]]]
"""Key groups, with what a snapshot stores of each."""


def add(rows: KeyedRows, found: list[tuple[Any, int, str | None]], *, count: int = 0, time_ms: int = 0) -> None:
    """Append rows of keys."""
    keys, numbers, texts = (list(one) for one in zip(*found, strict=True))
    batch = pyarrow.record_batch(
        [pyarrow.array(numbers, pyarrow.int64()), pyarrow.array(texts, pyarrow.string())], SCHEMA
    )
    rows.append(rows.keys.slots_of(keys_of_values(keys)), batch, numpy.full(len(keys), count), time_ms)


def content(rows: KeyedRows) -> list[Row]:
    """Return all rows in their order."""
    numbers = rows.living()
    keys, batch = rows.keys.keys(rows.slots[numbers]), rows.rows(numbers)
    return list(
        zip(keys, *(column.to_pylist() for column in batch.columns), rows.counts[numbers].tolist(), strict=True)
    )


def stored(frozen: FrozenTable) -> Stored:
    """Return what a snapshot stores of a table."""
    for _ in frozen.prepare(KeyGroups(GROUPS)):
        pass
    assert frozen.of_group is not None
    found = [
        (group, pickle.loads(pickle.dumps(packed)))
        for group in range(GROUPS)
        for keys, values in frozen.of_group(group)
        for packed in frozen.pack(keys, values)
    ]
    frozen.release()
    return found


def restored(snapshots: list[Stored], groups: range = range(GROUPS), *, has_times: bool = False) -> KeyedRows:
    """Return the rows of these key groups from snapshots, the first of which is complete."""
    rows = KeyedRows(COLUMNS, has_times=has_times)
    for snapshot in snapshots:
        for group, (piece,) in snapshot:
            if group in groups:
                rows.restore(*unpacked(piece))
    rows.load(77)
    return rows


def entries(snapshot: Stored) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a snapshot."""
    for _, (piece,) in snapshot:
        yield from zip(*unpacked(piece), strict=True)


def test_a_snapshot_has_what_changed_since_the_last_one() -> None:
    """A key with a million rows would be written as a whole for each row that comes."""
    rows = KeyedRows(COLUMNS, has_times=False)
    add(rows, [("a", number, "x") for number in range(1000)])
    first = stored(rows.freeze(full=False))
    assert len(list(entries(first))) == 1000
    add(rows, [("a", 1000, None), ("a", 1001, "y")])
    rows.take_away(numpy.array([3, 1001]))
    rows.counts[7] = 5
    rows.note_changed(numpy.array([7]))
    second = stored(rows.freeze(full=False))
    assert sorted(entries(second), key=str) == [
        (("a", 1000), (0, (1000, None))),
        (("a", 3), None),
        (("a", 7), (5, (7, "x"))),
    ]
    assert stored(rows.freeze(full=False)) == []
    assert content(restored([first, second])) == content(rows)


def test_a_snapshot_is_of_its_moment() -> None:
    """Another thread writes it, while rows come, change, go, and get other numbers."""
    rows = KeyedRows(COLUMNS, has_times=False)
    add(rows, [(key, key, "x") for key in range(3000)])
    before = content(rows)
    frozen = rows.freeze(full=True)
    rows.counts[:3000] = 1
    rows.note_changed(numpy.arange(3000))
    rows.take_away(numpy.arange(10, 3000))
    assert rows.forget_gone()
    add(rows, [(-key, key, "y") for key in range(3000)])
    assert content(restored([stored(frozen)])) == before


def test_a_row_that_has_expired_before_times_were_written_gets_one() -> None:
    """A program with a time to live is started from a savepoint of one without."""
    rows = KeyedRows(COLUMNS, has_times=False)
    add(rows, [(1, 1, "x")])
    later = restored([stored(rows.freeze(full=True))], has_times=True)
    assert later.times_ms[:1].tolist() == [77]
    later.times_ms[0] = 99
    later.note_changed(numpy.array([0]))
    assert list(later.take_changes()) == [((1, 0), (0, (1, "x"), 99))]


@pytest.mark.parametrize("in_store", [False, True])
def test_a_time_to_live_that_begins_or_ends_between_two_runs(in_store: bool) -> None:
    """Old entries have no time, and new ones have: a restart would fail, or old rows begin their life with each one."""
    behind, snapshots = LayeredTable(namespaced=True), list[Stored]()
    for run, has_times in enumerate([False, True, True, False, False]):
        now_ms, rows = 100 * run, KeyedRows(COLUMNS, has_times=has_times)
        for snapshot in [] if in_store else snapshots:
            for _, (piece,) in snapshot:
                rows.restore(*unpacked(piece))
        found = list(behind.items())
        rows.restore([place for place, _ in found], [value for _, value in found])
        rows.load(now_ms)
        assert [number for _, number, *_ in content(rows)] == list(range(run))
        if has_times:
            assert rows.times_ms[:run].tolist() == [100, 101][:run]
        add(rows, [("a", run, "x")], time_ms=now_ms + 1)
        if in_store:
            for place, value in rows.take_changes():
                behind.put(place, value)
        else:
            snapshots.append(stored(rows.freeze(full=False)))


def steps(random: Random, rows: KeyedRows, key_of: Callable[[int], Any]) -> None:
    """Change rows at random."""
    for _ in range(random.randrange(4)):
        number = random.randrange(1 << 40)
        add(rows, [(key_of(random.randrange(9)), number + more, random.choice(["", "ü", None])) for more in range(700)])
        living = rows.living()
        chosen = living[numpy.array([random.random() < 0.6 for _ in living], numpy.bool_)]
        rows.counts[chosen] += 1
        rows.note_changed(chosen)
        living = rows.living()
        rows.take_away(living[numpy.array([random.random() < 0.7 for _ in living], numpy.bool_)])
        rows.forget_gone()


@pytest.mark.parametrize("seed", first_of(4, range(200)))
def test_rows_are_restored_by_any_program_of_changes(seed: int) -> None:
    """From a complete snapshot and changes, by halves of the key groups, from a table of a store, and once more."""
    random = Random(seed)
    key_of = random.choice([lambda key: key, lambda key: f"k{key}", lambda key: (key, "t"), lambda key: key or None])
    rows, behind = KeyedRows(COLUMNS, has_times=False), LayeredTable(namespaced=True)
    other = KeyedRows(COLUMNS, has_times=False)
    for _ in range(3):
        # A restored table goes on like the one that was stored.
        snapshots = []
        state = random.getstate()
        for number in range(4):
            steps(random, rows, key_of)
            snapshots.append(stored(rows.freeze(full=number == 0)))
        random.setstate(state)
        for _ in range(4):
            steps(random, other, key_of)
            for place, value in other.take_changes():
                behind.discard(place) if value is None else behind.put(place, value)
        wanted = content(rows)
        assert content(other) == wanted
        whole = restored(snapshots)
        assert content(whole) == wanted
        halves = [restored(snapshots, groups) for groups in (range(3), range(3, GROUPS))]
        assert sorted(content(halves[0]) + content(halves[1]), key=str) == sorted(wanted, key=str)
        by_key: Callable[[Row], str] = lambda row: str(row[0])  # noqa: E731
        assert sorted(content(halves[1]), key=by_key) == [
            row for row in sorted(wanted, key=by_key) if KeyGroups(GROUPS)[row[0]] >= 3
        ], "rows of a key have another order"
        read = KeyedRows(COLUMNS, has_times=False)
        found = list(behind.items())
        read.restore([place for place, _ in found], [value for _, value in found])
        read.load(0)
        assert content(read) == wanted
        rows, other = whole, read
