"""Restoring with any other parallelism: each key group, item and list goes to its owner."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import manifest_of, state_of

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, packed
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.restore import assign, enumerator_states
from penstock.engine.state.handles import (
    ListInFile,
    ListsFile,
    OperatorState,
    Redistribution,
    RestoredOperator,
    Section,
)
from penstock.engine.state.key_groups import subtask_of


class Scale(NamedTuple):
    was: int
    now: int
    groups: int


SCALES = st.builds(Scale, st.integers(1, 12), st.integers(1, 12), st.integers(12, 200))


def operator(scale: Scale, mode: Redistribution = Redistribution.SPLIT, items: int = 0) -> Manifest:
    """An operator of which each subtask has a file, and a list with some items: item k of subtask s is at 100 s + k."""
    parts = []
    for subtask in range(scale.was):
        sections = [Section(0, 100 * subtask + item, 1, 0) for item in range(items)]
        lists = ListsFile(f"lists-{subtask}", items, [ListInFile("list", mode, sections)])
        parts.append(SubtaskPart(subtask, OperatorState(state_of([f"keyed-{subtask}"]).keyed, lists)))
    return Manifest("job", "a job", 4, 0, 0, 0, [OperatorPart("op", "an operator", scale.was, scale.groups, parts)], [])


def vertices(scale: Scale) -> list[CheckpointVertex]:
    return [CheckpointVertex(5, "vertex", scale.now, scale.groups, [("op", "an operator")], False)]


def restored(scale: Scale, manifest: Manifest, own: bool = True) -> list[RestoredOperator]:
    given_ = assign(manifest, vertices(scale), owns_files=own, allow_non_restored=False)
    return [given_[5, subtask]["op"] for subtask in range(scale.now)]


def items_of(one: RestoredOperator) -> list[int]:
    return [section.offset for _, part in one.lists for section in part.items]


@given(SCALES)
def test_each_key_group_is_restored_by_its_owner(scale: Scale) -> None:
    """A key would start without its state after a job is rescaled."""
    operators = restored(scale, operator(scale))
    needed: dict[int, set[str]] = {subtask: set() for subtask in range(scale.now)}
    for group in range(scale.groups):
        old, new = (subtask_of(group, scale.groups, parallelism) for parallelism in (scale.was, scale.now))
        needed[new].add(f"keyed-{old}")
    found = {subtask: [chain[0].path for chain in one.chains] for subtask, one in enumerate(operators)}
    assert {subtask: set(paths) for subtask, paths in found.items()} == needed, (
        "and no subtask reads more than it needs"
    )
    assert all(len(paths) == len(set(paths)) for paths in found.values()), "no file is read twice"


@given(SCALES, st.integers(0, 20))
def test_each_item_goes_to_one_subtask(scale: Scale, items: int) -> None:
    """A partition would be read twice or not at all, or one subtask would read all."""
    dealt = [items_of(one) for one in restored(scale, operator(scale, items=items))]
    assert Counter(item for part in dealt for item in part) == Counter(
        100 * subtask + item for subtask in range(scale.was) for item in range(items)
    )
    if scale.was == scale.now:
        assert dealt == [[100 * subtask + item for item in range(items)] for subtask in range(scale.was)]
    else:
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@given(SCALES, st.integers(1, 5))
def test_union_and_broadcast_lists_go_to_each_subtask(scale: Scale, items: int) -> None:
    """A broadcast rule would exist only in some subtasks, or once per former subtask."""
    all_items = [100 * subtask + item for subtask in range(scale.was) for item in range(items)]
    for one in restored(scale, operator(scale, Redistribution.UNION, items)):
        assert items_of(one) == all_items
    # One copy each: its own, if the parallelism is the same. Source: Flink, RoundRobinOperatorStateRepartitioner.
    for subtask, one in enumerate(restored(scale, operator(scale, Redistribution.BROADCAST, items))):
        assert items_of(one) == [100 * (subtask % scale.was) + item for item in range(items)]


@given(SCALES, st.booleans())
def test_increments_are_added_to_the_same_subtasks_own_files_only(scale: Scale, own: bool) -> None:
    """A chain would be built on files that hold keys of another subtask, or that another job may delete."""
    extends_files = {one.extends_files for one in restored(scale, operator(scale), own)}
    assert extends_files == {own and scale.was == scale.now}


def test_a_chain_is_restored_as_a_whole_and_in_order() -> None:
    """An increment replaces entries of earlier files: without it, or in another order, old values would come back."""
    chain = ["full", "increment-1", "increment-2"]
    scale = Scale(1, 3, 128)
    for one in restored(scale, manifest_of(4, chain)):
        assert [[file.path for file in files] for files in one.chains] == [chain]


def test_several_lists_are_dealt_out_as_one() -> None:
    """The first subtask would receive the first item of each list: most of the work, if lists are short."""
    one_item = [ListInFile(name, Redistribution.SPLIT, [Section(0, at, 1, 0)]) for at, name in enumerate("abcd")]
    part = SubtaskPart(0, OperatorState([], ListsFile("lists", 4, one_item)))
    manifest = Manifest("job", "a job", 4, 0, 0, 0, [OperatorPart("op", "an operator", 1, 128, [part])], [])
    assert [items_of(one) for one in restored(Scale(1, 2, 128), manifest)] == [[0, 2], [1, 3]]


def test_two_broadcast_states_are_kept_apart() -> None:
    """Of two broadcast states of an operator the second one would be lost."""
    lists = [ListInFile(name, Redistribution.BROADCAST, [Section(0, at, 1, 0)]) for at, name in enumerate("ab")]
    parts = [SubtaskPart(subtask, OperatorState([], ListsFile("lists", 2, lists))) for subtask in range(2)]
    manifest = Manifest("job", "a job", 4, 0, 0, 0, [OperatorPart("op", "an operator", 2, 128, parts)], [])
    for one in restored(Scale(2, 3, 128), manifest):
        assert [part.name for _, part in one.lists] == ["a", "b"]


@pytest.mark.parametrize(("keyed", "refused"), [(True, True), (False, False)])
def test_key_groups_may_change_where_there_are_no_keys(keyed: bool, refused: bool) -> None:
    """A source could never change its maximum parallelism, or keys would be searched in wrong key groups."""
    scale = Scale(2, 2, 128)
    manifest = operator(scale, items=1)
    if not keyed:
        (part,) = manifest.operators
        without = [
            msgspec.structs.replace(one, state=msgspec.structs.replace(one.state, keyed=[])) for one in part.subtasks
        ]
        manifest = msgspec.structs.replace(manifest, operators=[msgspec.structs.replace(part, subtasks=without)])
    other = scale._replace(groups=256)
    if refused:
        with pytest.raises(CheckpointError, match=r"'an operator' has a maximum parallelism of 256.*with 128"):
            restored(other, manifest)
    else:
        assert [items_of(one) for one in restored(other, manifest)] == [[0], [100]]
        assert [one.chains for one in restored(other, manifest)] == [[], []], "nothing is read where there is nothing"


def test_an_operator_that_is_new_starts_without_state() -> None:
    """An operator could not be added to a program that is restored."""
    scale = Scale(1, 2, 128)
    both = [CheckpointVertex(5, "v", 2, 128, [("op", "an operator"), ("new", "a new one")], False)]
    given_ = assign(operator(scale), both, owns_files=True, allow_non_restored=False)
    assert [sorted(given_[5, subtask]) for subtask in range(2)] == [["op"], ["op"]]


def test_enumerators_are_found_by_the_id_of_their_source() -> None:
    """Two sources of a program would exchange their positions when one of them is moved."""
    states = {"a": packed(["split"]), "b": packed({"seen": 3})}
    assert enumerator_states(manifest_of(1, enumerators=states)) == {"a": ["split"], "b": {"seen": 3}}
    assert enumerator_states(manifest_of(1)) == {}
