"""Tables of both backends: a freeze returns the state of its moment, whatever happens afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import BACKENDS, by_group, entries, present, table_of

from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import FrozenTable

both = pytest.mark.parametrize("kind", BACKENDS)


def spill(table: LayeredTable, entries_max: int) -> None:
    """Do a backend's maintenance of tables between records."""
    if isinstance(table, RocksDBTable):
        table.spill(entries_max)


def compact_all(table: LayeredTable) -> None:
    while table.compact(10):
        pass


@both
def test_what_was_frozen_does_not_change(kind: str) -> None:
    """A snapshot would hold a mixture of two moments."""
    table = table_of(kind)
    table.put("a", 1)
    table.put("b", 2)
    frozen = table.freeze(full=False)
    table.put("a", 10)
    table.remove("b")
    table.put("c", 3)
    spill(table, 10)
    assert entries(frozen) == {"a": 1, "b": 2}
    assert dict(table.items()) == {"a": 10, "c": 3}


@both
def test_the_next_freeze_has_what_has_changed_since(kind: str) -> None:
    """Each checkpoint would write all the state, or lack a deletion, and a restored key would come to life again."""
    table = table_of(kind)
    table.put("a", 1)
    table.put("b", 2)
    table.freeze(full=False).release()
    spill(table, 10)
    table.put("a", 5)
    table.remove("b")
    spill(table, 10)
    assert entries(table.freeze(full=False)) == {"a": 5, "b": None}
    assert entries(table.freeze(full=False)) == {}
    assert present(entries(table.freeze(full=True))) == {"a": 5}


@both
def test_what_is_read_may_be_changed_in_place(kind: str) -> None:
    """A user's list would change while it is being pickled: a torn snapshot."""
    table = table_of(kind)
    table.put("a", [1])
    frozen = table.freeze(full=False)
    read = table.get("a")
    read.append(2)
    assert table.get("a") is read, "a large list would be copied for each record"
    assert entries(frozen) == {"a": [1]}
    table.get_mutable("a").append(3)
    assert entries(frozen) == {"a": [1]}
    frozen.release()
    later = table.freeze(full=False)
    assert entries(later) == {"a": [1, 2, 3]}
    assert table.get_mutable("b") is None and "b" not in table.current


@both
def test_nothing_is_copied_while_no_snapshot_reads(kind: str) -> None:
    """Each access to a large value would cost its size from the first checkpoint on."""
    table = table_of(kind)
    value = [1]
    table.put("a", value)
    table.freeze(full=False).release()
    assert table.get("a") is value and table.get_mutable("a") is value


@both
def test_a_table_that_was_cleared_is_as_new(kind: str) -> None:
    """In batch execution the next key group would find entries of the last one, or what was deleted there."""
    table = table_of(kind)
    for turn in range(3):
        for key in "abc":
            table.put(key, turn)
            spill(table, 1)
        table.remove("a")
        table.freeze(full=False).release()
        table.put("d", turn)
        table.clear()
        assert not table and table.as_mapping() == {} and not list(table.items())
        assert [table.get(key) for key in "abcd"] == [None] * 4
    table.put("a", 1)
    compact_all(table)
    assert table.as_mapping() == {"a": 1}
    assert present(entries(table.freeze(full=True))) == {"a": 1}


@both
def test_what_was_restored_has_not_changed_since(kind: str) -> None:
    """The first checkpoint after a restart would write all state again instead of a few changes."""
    table = table_of(kind)
    table.restore(["a", "b", "c"], [1, 2, [3]])
    table.restore(["a", "b"], [10, None])
    assert table.as_mapping() == {"a": 10, "c": [3]}
    assert entries(table.freeze(full=False)) == {}
    table.remove("a")
    table.remove("never there")
    assert present(entries(table.freeze(full=False))) == {}
    assert table.as_mapping() == {"c": [3]}
    assert present(entries(table.freeze(full=True))) == {"c": [3]}


class Holder:
    layer: Any

    def use_layer(self, layer: Any) -> None:
        self.layer = layer


@both
def test_holders_have_the_current_layer(kind: str) -> None:
    """A state would continue to write into a layer that is being pickled."""
    table, holder = table_of(kind, cached=0), Holder()
    table.register(holder)
    holder.layer["a"] = 1
    table.freeze(full=False)
    assert holder.layer == {}
    holder.layer["a"] = 2
    assert table.get("a") == 2
    spill(table, 10)
    assert holder.layer is table.current and table.get("a") == 2


KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.sampled_from(["remove", "discard"]), KEYS),
        st.tuples(st.just("own"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("freeze"), st.booleans()),
        st.tuples(st.just("spill"), st.integers(1, 3)),
        st.tuples(st.just("compact"), st.integers(1, 3)),
        st.tuples(st.just("release")),
    ),
    max_size=40,
)


def content(frozen: FrozenTable) -> dict[Any, Any]:
    return by_group(frozen) if frozen.of_group is not None else entries(frozen)


@both
@given(steps=STEPS)
def test_it_is_a_dict_and_its_snapshots_give_it_back(kind: str, steps: list[tuple[Any, ...]]) -> None:
    """A restored job would have other state than the lost one, or state would change when it is moved."""
    table, model = table_of(kind), dict[str, tuple[int, ...]]()
    under_way: list[tuple[FrozenTable, dict[Any, Any]]] = []
    chain: list[dict[Any, Any]] = []
    for step in steps:
        match step:
            case ("put", key, value):
                table.put(key, [value])
                model[key] = (value,)
            case ("own", key, value) if (mine := table.get_mutable(key)) is not None:
                mine.append(value)
                model[key] += (value,)
            case ("remove", key):
                before = model.pop(key, None)
                assert table.remove(key) == (None if before is None else [*before])
            case ("discard", key):
                table.discard(key)
                model.pop(key, None)
            case ("freeze", full):
                frozen = table.freeze(full or not chain)
                if frozen.full:
                    chain = []
                    assert present(entries(frozen)) == as_lists(model)
                under_way.append((frozen, content(frozen)))
                chain.append(content(frozen))
                restored = table_of(kind)
                for held in chain:
                    restored.restore(held.keys(), held.values())
                assert dict(restored.items()) == as_lists(model)
            case ("spill", most):
                spill(table, most)
            case ("compact", most):
                table.compact(most)
            case ("release",) if under_way:
                frozen, at_first = under_way.pop(0)
                assert content(frozen) == at_first, "as it was, whatever was done since"
                frozen.release()
        assert dict(table.items()) == table.as_mapping() == as_lists(model)
        assert bool(table) == bool(model)
        assert [*map(table.reader(), "abcd")] == [*map(as_lists(model).get, "abcd")]
        assert [*map(table.get, "abcd")] == [*map(as_lists(model).get, "abcd")]


def as_lists(model: dict[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {key: [*values] for key, values in model.items()}
