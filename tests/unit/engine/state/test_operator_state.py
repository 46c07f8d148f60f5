"""Operator state: lists and dicts of a subtask, as snapshots hold them and as a restart redistributes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.typeinfo import Types
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import HeapOperatorStates, NamedList
from penstock.engine.state.schema import restored_schema, schema_of

LIST, DICT = ListStateDescriptor("list"), MapStateDescriptor("dict")


def test_what_was_kept_comes_back() -> None:
    """Offsets, buffers and rules that a function keeps would be lost with its worker."""
    states = HeapOperatorStates()
    states.get_list_state(LIST).add_all([1, [2]])
    states.get_union_list_state(ListStateDescriptor("all")).add("a")
    rules = states.get_broadcast_state(DICT)
    rules.put("x", 1)
    rules["y"] = 2
    frozen = {name: (how, items) for name, how, items, _ in states.lists()}
    assert frozen == {
        "list": (Redistribution.SPLIT, [1, [2]]),
        "all": (Redistribution.UNION, ["a"]),
        "dict": (Redistribution.BROADCAST, [("x", 1), ("y", 2)]),
    }
    again = HeapOperatorStates()
    assert not again.is_restored
    again.restore(states.lists())
    assert again.is_restored
    assert list(again.get_list_state(LIST)) == [1, [2]]
    assert dict(again.get_broadcast_state(DICT).items()) == {"x": 1, "y": 2}
    assert again.get_broadcast_state(DICT) is again.get_broadcast_state(DICT)


def test_a_snapshot_does_not_see_what_is_done_later() -> None:
    """A checkpoint would hold records of the one after it: they would be counted twice."""
    states = HeapOperatorStates()
    kept = states.get_list_state(LIST)
    inner = [1]
    kept.add(inner)
    ((_, _, frozen, _),) = states.lists()
    inner.append(2)
    kept.add([3])
    assert frozen == [[1]]
    kept.update([])
    assert states.lists() == [NamedList("list", Redistribution.SPLIT, [], schema_of(LIST))]


def test_one_name_for_two_kinds() -> None:
    """A rescale would split state that was meant to be complete in every subtask."""
    states = HeapOperatorStates()
    states.get_list_state(LIST)
    with pytest.raises(ProgramError, match="requested as union, but was requested as split before"):
        states.get_union_list_state(LIST)


def test_what_was_written_as_something_else() -> None:
    """A function would read offsets as names, and fail elsewhere."""
    states = HeapOperatorStates()
    states.restore([NamedList("list", Redistribution.SPLIT, [1], restored_schema("list of ListTypeInfo<Long>"))])
    with pytest.raises(CheckpointError, match="was written as list of List"):
        states.get_list_state(ListStateDescriptor("list", Types.STRING()))
    assert list(states.get_list_state(ListStateDescriptor("list", Types.LONG()))) == [1]


def test_what_was_restored_is_kept_until_it_is_asked_for() -> None:
    """A function that asks for its state late would find it empty if a checkpoint, and a failure, came before."""
    states = HeapOperatorStates()
    kept = [1, [2]]
    states.get_list_state(ListStateDescriptor("list", Types.LONG())).update(kept)
    states.get_broadcast_state(DICT).put("x", 1)
    before = states.lists()
    for _ in range(2):
        again = HeapOperatorStates(subtask=1)
        again.restore(states.lists())
        assert [(*one[:3], str(one.schema)) for one in again.lists()] == [(*one[:3], str(one.schema)) for one in before]
        states = again
    assert states.lists()[0].items[1] is not states.lists()[0].items[1], "the function may change it meanwhile"
    with pytest.raises(CheckpointError, match="was written as list of List"):
        states.get_list_state(ListStateDescriptor("list", Types.STRING()))
    assert list(states.get_list_state(ListStateDescriptor("list", Types.LONG()))) == [1, [2]]
    assert sorted(one.name for one in states.lists()) == ["dict", "list"], "each once"


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.none() | st.integers(0, 9)),
        st.tuples(st.just("put_all"), st.dictionaries(st.sampled_from("abc"), st.integers(0, 9))),
        st.tuples(st.just("remove"), st.sampled_from("abc")),
        st.tuples(st.just("add"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["add_all", "update"]), st.lists(st.integers(0, 9), max_size=3)),
        st.tuples(st.sampled_from(["clear list", "clear dict", "restart"])),
    ),
    max_size=25,
)


@given(ACTS)
def test_lists_are_lists_and_broadcast_state_is_a_dict(acts: list[tuple[Any, ...]]) -> None:
    """Rules would be lost or come back, and offsets would change their order, between two restarts."""
    states = HeapOperatorStates()
    model: dict[str, Any] = {}
    items: list[int] = []
    for act in acts:
        kept, rules = states.get_list_state(LIST), states.get_broadcast_state(DICT)
        match act:
            case ("put", key, value):
                rules.put(key, value)
                model[key] = value
            case ("put_all", added):
                rules.put_all(added)
                model.update(added)
            case ("remove", key):
                rules.remove(key)
                model.pop(key, None)
            case ("add", value):
                kept.add(value)
                items.append(value)
            case ("add_all", values):
                kept.add_all(values)
                items += values
            case ("update", values):
                kept.update(values)
                items = [*values]
            case ("clear list",):
                kept.clear()
                items = []
            case ("clear dict",):
                rules.clear()
                model = {}
            case ("restart",):
                lists = states.lists()
                states = HeapOperatorStates()
                states.restore(lists)
        kept, rules = states.get_list_state(LIST), states.get_broadcast_state(DICT)
        assert list(kept) == items
        assert [*rules.items()] == [*model.items()]
        assert ([*rules.keys()], [*rules.values()], rules.is_empty()) == ([*model], [*model.values()], not model)
        assert [(rules.get(key), rules.contains(key), key in rules) for key in "abcd"] == [
            (model.get(key), key in model, key in model) for key in "abcd"
        ]


def test_what_is_gone_through_may_be_changed_meanwhile() -> None:
    """A loop that removes outdated rules would fail after the first."""
    states = HeapOperatorStates()
    kept, rules = states.get_list_state(LIST), states.get_broadcast_state(DICT)
    rules.put_all({"a": 1, "b": 2, "c": 3})
    for key, value in rules.items():
        if value != 2:
            rules.remove(key)
    assert dict(rules.items()) == {"b": 2}
    kept.add_all([1, 2])
    for value in kept.get():
        kept.add(value * 10)
    assert list(kept) == [1, 2, 10, 20]
    mine = [5]
    kept.update(mine)
    mine.append(6)
    assert list(kept) == [5]


@pytest.mark.parametrize("first", ["list", "union", "broadcast"])
def test_each_pair_of_kinds_of_one_name_is_refused(first: str) -> None:
    """A list would be read as rules, and the function would fail somewhere else, or not at all."""
    states = HeapOperatorStates()
    requests = {
        "list": lambda: states.get_list_state(ListStateDescriptor("x")),
        "union": lambda: states.get_union_list_state(ListStateDescriptor("x")),
        "broadcast": lambda: states.get_broadcast_state(MapStateDescriptor("x")),
    }
    state = requests.pop(first)()
    for again in requests.values():
        with pytest.raises(ProgramError, match=r"'x' is requested as .* use different names"):
            again()
    (one,) = states.lists()
    assert one.items == [] and state is not None
