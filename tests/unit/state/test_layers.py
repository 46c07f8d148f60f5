"""Layered tables: a freeze returns the state of its moment, whatever happens afterwards, without a copy."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from penstock.state.layers import LayeredTable
from penstock.state.sliced import SlicedTable
from penstock.state.tables import PIECE_ENTRIES, FrozenTable, Table


def entries(frozen: FrozenTable) -> dict:
    """Of the table as it was: a later entry replaces an earlier one, None removes it."""
    found: dict = {}
    for entry_keys, values in frozen.pieces():
        assert len(entry_keys) == len(values) <= PIECE_ENTRIES
        found.update(zip(entry_keys, values, strict=True))
    return found


def present(found: dict) -> dict:
    return {entry_key: value for entry_key, value in found.items() if value is not None}


def test_what_was_frozen_does_not_change() -> None:
    """A snapshot would hold a mixture of two moments."""
    table = LayeredTable()
    table.put("a", 1)
    table.put("b", 2)
    frozen = table.freeze(full=False)
    table.put("a", 10)
    table.remove("b")
    table.put("c", 3)
    assert entries(frozen) == {"a": 1, "b": 2}
    assert dict(table.items()) == {"a": 10, "c": 3}


def test_the_next_freeze_has_what_has_changed_since() -> None:
    """Each checkpoint would write all the state, or lack a deletion, and a restored key would come to life again."""
    table = LayeredTable()
    table.put("a", 1)
    table.put("b", 2)
    table.freeze(full=False).release()
    table.put("a", 5)
    table.remove("b")
    assert entries(table.freeze(full=False)) == {"a": 5, "b": None}
    assert entries(table.freeze(full=False)) == {}
    assert present(entries(table.freeze(full=True))) == {"a": 5}


def test_an_entry_that_came_and_went_between_two_freezes_leaves_no_trace() -> None:
    """Short-lived keys would fill every snapshot."""
    table = LayeredTable()
    table.put("a", 1)
    table.remove("a")
    assert not table
    assert entries(table.freeze(full=False)) == {}


def test_what_is_read_from_a_frozen_layer_may_be_changed_in_place() -> None:
    """A user's list would change while it is being pickled: a torn snapshot."""
    table = LayeredTable()
    table.put("a", [1])
    frozen = table.freeze(full=False)
    table.get("a").append(2)
    assert table.get("a") == [1], "not stored: only put and own count"
    table.own("a").append(3)
    assert table.get("a") == [1, 3]
    assert entries(frozen) == {"a": [1]}
    assert entries(table.freeze(full=False)) == {"a": [1, 3]}


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


def test_folding_takes_no_more_than_it_is_told() -> None:
    """Compacting a million entries at once would be a second without records."""
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


class Holder:
    layer: dict

    def use_layer(self, layer: dict) -> None:
        self.layer = layer


def test_holders_are_told_of_the_current_layer() -> None:
    """A state would go on writing into a layer that is being pickled."""
    table, holder = LayeredTable(), Holder()
    table.hold(holder)
    holder.layer["a"] = 1
    table.freeze(full=False)
    assert holder.layer == {}
    holder.layer["a"] = 2
    assert table.get("a") == 2


KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("remove"), KEYS),
        st.tuples(st.just("freeze"), st.booleans()),
        st.tuples(st.just("compact"), st.integers(1, 3)),
        st.tuples(st.just("release")),
    ),
    max_size=40,
)


@given(STEPS)
def test_a_chain_of_snapshots_gives_the_table_back(steps) -> None:
    """A restored job would have other state than the one that was lost."""
    table, model = LayeredTable(), {}
    under_way: list = []
    chain: list[FrozenTable] = []
    for step in steps:
        match step:
            case ("put", key, value):
                table.put(key, value)
                model[key] = value
            case ("remove", key):
                assert table.remove(key) == model.pop(key, None)
            case ("freeze", full):
                frozen = table.freeze(full or not chain)
                chain = [frozen] if full or not chain else [*chain, frozen]
                under_way.append((frozen, entries(frozen)))
                restored = LayeredTable()
                for part in chain:
                    for entry_keys, values in part.pieces():
                        restored.restore(entry_keys, values)
                assert dict(restored.items()) == model
            case ("compact", most):
                table.compact(most)
            case ("release",) if under_way:
                frozen, at_first = under_way.pop(0)
                assert entries(frozen) == at_first
                frozen.release()
                if frozen in chain:
                    # From here on its layers may be folded: in a job they are in a file by now.
                    chain = []
        assert dict(table.items()) == model
        assert bool(table) == bool(model)
        assert table.whole() == model
        assert [*map(table.reader(), "abcd")] == [*map(model.get, "abcd")]


def moved(source: Table, target: Table, *, full: bool = True) -> FrozenTable:
    frozen = source.freeze(full)
    for entry_keys, values in frozen.pieces():
        target.restore(entry_keys, values)
    return frozen


def test_a_slice_that_is_dropped_is_gone_after_a_restore() -> None:
    """A window that has fired would fire again."""
    table, restored = SlicedTable(), SlicedTable()
    table.at(0).put("a", 1)
    table.at(10).put("a", 2)
    moved(table, restored).release()
    table.drop(0)
    table.at(10).put("b", 3)
    table.at(20).put("c", 4)
    table.drop(20)
    frozen = moved(table, restored, full=False)
    assert entries(frozen) == {("a", 0): None, ("b", 10): 3}, "slice 20 was in no snapshot: nothing is said of it"
    assert not restored.at(0)
    assert dict(restored.at(10).items()) == {"a": 2, "b": 3}


def test_a_slice_that_was_taken_is_none_after_a_restore() -> None:
    """A window with no keys in it would be waiting, and fire."""
    table, restored = SlicedTable(), SlicedTable()
    table.at(5).put("a", True)
    table.at(7).put("a", True)
    moved(table, restored).release()
    table.at(5).put("b", True)
    assert table.take(5) == {"a": True, "b": True}
    moved(table, restored, full=False)
    assert set(restored.slices) == {7}


def test_slices_that_are_over_are_restored_quickly() -> None:
    """A restart would take minutes because a window with many keys fired before it."""
    table = SlicedTable()
    entry_keys = [(key, 0) for key in range(100_000)]
    table.restore(entry_keys, [True] * len(entry_keys))
    started = time.perf_counter()
    table.restore(entry_keys, [None] * len(entry_keys))
    assert time.perf_counter() - started < 2
    assert not table.slices


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


def test_what_is_read_of_a_slice_is_its_newest() -> None:
    """A window would fire with what it held at the last checkpoint."""
    table = SlicedTable()
    assert table.reader(0) is None
    table.at(0).put("a", 1)
    table.at(0).put("b", 1)
    table.freeze(full=False).release()
    table.at(0).put("a", 2)
    table.freeze(full=False)
    table.at(0).put("c", 3)
    read = table.reader(0)
    assert read is not None
    assert [read(key) for key in "abcd"] == [2, 1, 3, None]
