"""Layers on the heap: compaction, and entries without tombstones. More about tables: test_tables.py."""

from __future__ import annotations

import pytest
from tests.unit.engine.state.written_state import entries

from penstock.engine.state.layers import LayeredTable


def test_an_entry_that_came_and_went_between_two_freezes_leaves_no_trace() -> None:
    """Short-lived keys would fill every snapshot."""
    table = LayeredTable()
    table.put("a", 1)
    table.remove("a")
    assert not table
    assert entries(table.freeze(full=False)) == {}


@pytest.mark.parametrize("has_older", [False, True])
def test_entries_that_are_discarded_together_leave_what_each_alone_would(has_older: bool) -> None:
    """Records that a join has freed would come back from a checkpoint, or tombstones of others fill it."""
    table = LayeredTable()
    if has_older:
        table.put("a", 1)
        table.freeze(full=False).release()
    for key in "abc":
        table.put(key, 2)
    table.discard_all(["a", "b", "missing"])
    assert dict(table.items()) == {"c": 2}
    assert table.current == ({"a": None, "c": 2} if has_older else {"c": 2})


def test_nothing_is_folded_while_a_snapshot_is_written() -> None:
    """A full snapshot reads the base: entries compacted into it meanwhile would be part of an older checkpoint."""
    table = LayeredTable()
    table.put("a", 1)
    table.freeze(full=False).release()
    assert table.compact(100) and not table.compact(100)
    table.put("a", 2)
    full = table.freeze(full=True)
    assert table.compact(100) == 0
    assert entries(full) == {"a": 2}
    full.release()
    assert table.compact(100) == 1
    assert table.get("a") == 2


def test_folding_takes_no_more_than_it_is_allowed() -> None:
    """Compacting a million entries in one step would block records for a second."""
    table = LayeredTable()
    table.put("base", 0)
    table.freeze(full=False).release()
    table.compact(1)
    for n in range(10):
        table.put(n, n)
    table.freeze(full=False).release()
    steps = 0
    while table.compact(3):
        steps += 1
        assert dict(table.items()) == {"base": 0, **{n: n for n in range(10)}}
    assert steps == 4


def test_what_is_gone_is_in_no_later_layer() -> None:
    """Entries that come and go between two snapshots would fill memory and snapshots with tombstones."""
    table = LayeredTable()
    table.put("a", 1)
    table.freeze(full=False).release()
    while table.compact(10):
        pass
    table.put("c", 0)
    under_way = table.freeze(full=False)
    table.put("b", 1)
    table.discard("b")
    assert not table.current
    table.discard("a")
    table.discard("c")
    table.freeze(full=False).release()
    under_way.release()
    while table.compact(10):
        pass
    table.put("c", 1)
    for _ in range(2):
        table.freeze(full=False).release()
        table.discard("c")
    table.freeze(full=False).release()
    while table.compact(1):
        pass
    assert entries(table.freeze(full=True)) == {}


@pytest.mark.parametrize("base", ["never filled", "empty", "filled"])
@pytest.mark.parametrize("frozen", [1, 3])
@pytest.mark.parametrize("entries_max", [1, 2, 100])
def test_a_reader_finds_what_is_compacted_while_it_is_in_use(base: str, frozen: int, entries_max: int) -> None:
    """A join, or a window that fires, would miss records if it paused just after a checkpoint was written."""
    table = LayeredTable()
    expected: dict[object, int | None] = {"missing": None}
    if base != "never filled":
        table.put("old", 0)
        table.put("kept", 0)
        table.freeze(full=False).release()
        table.compact(100)
        expected["kept"] = 0
        table.discard("old")
        if base == "empty":
            table.discard("kept")
            expected["kept"] = None
        table.freeze(full=False).release()
        while table.compact(100):
            pass
    for layer in range(frozen):
        for key in range(layer, layer + 4):
            table.put(key, 10 * layer + key)
            expected[key] = 10 * layer + key
        table.discard(("gone", layer))
        table.freeze(full=False).release()
    read = table.reader()
    while table.compact(entries_max):
        assert {key: read(key) for key in expected} == expected
    assert {key: read(key) for key in expected} == expected
