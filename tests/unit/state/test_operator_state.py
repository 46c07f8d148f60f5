"""Operator state: lists and dicts of a subtask, as snapshots hold them and as a restart redistributes them."""

from __future__ import annotations

import pytest

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.typeinfo import Types
from penstock.state.handles import Redistribution
from penstock.state.operator_state import HeapOperatorStates, NamedList
from penstock.state.schema import schema_of

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
    again.restore({name: items for name, (_, items) in frozen.items()}, {})
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
    with pytest.raises(ProgramError, match="requested as union and as split"):
        states.get_union_list_state(LIST)


def test_what_was_written_as_something_else() -> None:
    """A function would take offsets for names, and fail somewhere else."""
    states = HeapOperatorStates()
    states.restore({"list": [1]}, {"list": "list of ListTypeInfo<Long>"})
    with pytest.raises(CheckpointError, match="was written as list of List"):
        states.get_list_state(ListStateDescriptor("list", Types.STRING()))
    assert list(states.get_list_state(ListStateDescriptor("list", Types.LONG()))) == [1]
