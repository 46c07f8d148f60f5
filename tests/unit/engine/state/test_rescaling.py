"""State that is restored with another parallelism: each key and each item has exactly one new owner."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import BACKENDS, GROUPS, Subtask, files_in_memory

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import Types
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.restore import assign
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.restore import KeyedChain, restore_operator
from penstock.engine.snapshots.keyed_table import check_owners
from penstock.engine.state.handles import OperatorState
from penstock.engine.state.key_groups import key_group_range, subtask_of
from penstock.engine.state.operator_state import HeapOperatorStates, NamedList
from penstock.engine.state.snapshot.files import restore_keyed, write_lists
from penstock.engine.state.snapshot.moved_keys import MovedKeys
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

COUNT = ValueStateDescriptor("count")
SPLITS, NAMES, RULES = ListStateDescriptor("splits"), ListStateDescriptor("names"), MapStateDescriptor("rules")
NUMBERS = MapStateDescriptor("numbers")
PARALLELISM = st.integers(1, 8)


def owner_of(key: int, parallelism: int) -> int:
    return subtask_of(GROUPS[key], 8, parallelism)


@pytest.mark.parametrize("kind", BACKENDS)
@settings(max_examples=40)
@given(
    before=PARALLELISM,
    after=PARALLELISM,
    rounds=st.lists(st.dictionaries(st.integers(0, 30), st.integers(0, 99) | st.none()), min_size=1, max_size=4),
)
def test_each_key_goes_to_the_owner_of_its_group(
    kind: str, before: int, after: int, rounds: list[dict[int, int | None]]
) -> None:
    """With another parallelism counts would start from zero, be those of an earlier checkpoint, or be kept twice."""
    storage = files_in_memory()
    olds = [Subtask(kind, storage) for _ in range(before)]
    for old in olds:
        old.backend.state(COUNT)
    model: dict[int, int | None] = {}
    for changes in rounds:
        for key, count in changes.items():
            backend = olds[owner_of(key, before)].backend
            backend.key = key
            backend.state(COUNT).update(count)
            model[key] = count
        for old in olds:
            old.backend.maintain(2)
            old.freeze(False)()
    found: dict[int, int] = {}
    for subtask in range(after):
        groups = key_group_range(subtask, 8, after)
        new = olds[0].restored([old.chain for old in olds], groups=groups).backend
        mine = dict(new.layered("count").items())
        assert {owner_of(key, after) for key in mine} <= {subtask}
        found.update(mine)
    assert found == {key: count for key, count in model.items() if count is not None}


@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("all_are_misplaced", [False, True])
def test_keys_in_the_wrong_subtask_are_refused(savepoint: bool, all_are_misplaced: bool) -> None:
    """Later records of a key would go to the subtask that owns it, and start from nothing."""
    storage = files_in_memory()
    old = Subtask(BACKENDS[0], storage)
    old.backend.state(COUNT)
    for key in range(30):
        if not all_are_misplaced or GROUPS[key] >= 4:
            old.backend.key = key
            old.backend.state(COUNT).update(key)
    old.freeze(True)()
    chain = old.savepoint("savepoint") if savepoint else old.chain
    tables = {"count": old.backend.restored_table("count", "")}
    owns_all, owns_half = (MovedKeys(8, tables, range(end)) for end in (8, 4))
    restore_keyed(storage, chain, range(8), tables, moved_keys=owns_all)
    with pytest.raises(CheckpointError, match=r"keys of other subtasks.*with the same parallelism"):
        restore_keyed(storage, chain, range(4), tables, moved_keys=owns_half)
    with pytest.raises(CheckpointError, match="keys of other subtasks"):
        check_owners(storage.read, chain, range(4))
    check_owners(storage.read, chain, range(8))


class StatesOnly(Operator):
    """An operator that has operator state and nothing else."""

    def __init__(self, subtask: int) -> None:
        super().__init__("an operator")
        self.states = HeapOperatorStates(subtask)

    def restore_lists(self, lists: list[NamedList]) -> None:
        self.states.restore(lists)


def written(storage: MemoryStorage, states: list[HeapOperatorStates], columns: bool) -> Manifest:
    """The manifest of a checkpoint, or savepoint, of these subtasks."""
    parts = []
    for number, one in enumerate(states):
        lists = finished(write_lists(storage, f"lists-{len(storage.files)}-{number}", one.lists(), columns))
        parts.append(SubtaskPart(number, OperatorState([], lists)))
    return Manifest("job", "a job", 1, 0, 0, 0, [OperatorPart("op", "an operator", len(states), 128, parts)], [])


def restored(storage: MemoryStorage, manifest: Manifest, parallelism: int) -> list[HeapOperatorStates]:
    vertices = [CheckpointVertex(0, "vertex", parallelism, 128, [("op", "an operator")], False)]
    assigned = assign(manifest, vertices, owns_files=True, allow_non_restored=False)
    states = []
    for subtask in range(parallelism):
        operator = StatesOnly(subtask)
        restore_operator(
            operator,
            assigned[0, subtask]["op"],
            KeyedChain(),
            groups=range(0),
            max_parallelism=128,
            storage=storage,
            in_flight=[],
        )
        states.append(operator.states)
    return states


@pytest.mark.parametrize("columns", [False, True])
@settings(max_examples=40)
@given(
    splits=st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=5),
    rules=st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(), max_size=3),
    after=st.integers(1, 6),
)
def test_items_are_split_united_or_the_same_everywhere(
    columns: bool, splits: list[list[int]], rules: dict[str, Any], after: int
) -> None:
    """A source would read a split twice or never; a subtask would lack a rule, or what all have to know."""
    storage = files_in_memory()
    olds = [HeapOperatorStates() for _ in splits]
    for state, mine in zip(olds, splits, strict=True):
        state.get_list_state(SPLITS).update(mine)
        state.get_union_list_state(NAMES).add_all(mine)
        state.get_broadcast_state(RULES).put_all(rules)
    news = restored(storage, written(storage, olds, columns), after)
    dealt = [list(state.get_list_state(SPLITS)) for state in news]
    everything = [item for mine in splits for item in mine]
    assert Counter(item for mine in dealt for item in mine) == Counter(everything)
    if after == len(splits):
        assert dealt == splits, "no item moves without need"
    else:
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1, "each subtask has its share"
    for state in news:
        assert list(state.get_union_list_state(NAMES)) == everything
        assert dict(state.get_broadcast_state(RULES).items()) == rules


def test_what_one_subtask_does_with_a_rule_is_not_seen_by_others() -> None:
    """A rule that is changed in place in one subtask would be changed in all of the same process."""
    storage = files_in_memory()
    state = HeapOperatorStates()
    state.get_broadcast_state(RULES).put("a", [1])
    state.get_union_list_state(NAMES).add(["x"])
    one, other = restored(storage, written(storage, [state], columns=False), 2)
    one.get_broadcast_state(RULES)["a"].append(2)
    next(iter(one.get_union_list_state(NAMES))).append("y")
    assert other.get_broadcast_state(RULES)["a"] == [1]
    assert list(other.get_union_list_state(NAMES)) == [["x"]]


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("form", ["increments", "full", "savepoint"])
def test_keyed_state_that_no_one_has_asked_for_since_a_restart(kind: str, form: str) -> None:
    """After two restarts with a checkpoint and without records in between, late requested state would be lost."""

    def again(subtask: Subtask, number: int = 0) -> Subtask:
        if form == "savepoint":
            chains = [[file] for file in subtask.savepoint(f"savepoint-{number}")]
        else:
            subtask.freeze(form == "full")()
            chains = [subtask.chain]
        subtask = subtask.restored(chains)
        subtask.backend.key = "k"
        return subtask

    subtask = Subtask(kind, files_in_memory())
    subtask.backend.key = "k"
    subtask.backend.state(COUNT).update(1)
    subtask.backend.state(NUMBERS).put("a", 1)
    subtask.backend.state(SPLITS).add(1)
    subtask = again(subtask)
    subtask.backend.state(NUMBERS).put("b", 2)
    subtask.backend.state(SPLITS).add(2)
    for number in range(1, 4):
        subtask = again(subtask, number)
    subtask.backend.state(NUMBERS).remove("z")
    for number in range(4, 7):
        subtask = again(subtask, number)
    with pytest.raises(CheckpointError, match="'splits' was written as list of"):
        again(subtask, 7).backend.state(ListStateDescriptor("splits", Types.STRING()))
    assert subtask.backend.state(COUNT).value() == 1
    assert dict(subtask.backend.state(NUMBERS).items()) == {"a": 1, "b": 2}
    assert list(subtask.backend.state(SPLITS)) == [1, 2]


@pytest.mark.parametrize("columns", [False, True])
def test_what_no_subtask_has_asked_for_yet_is_in_all_later_snapshots(columns: bool) -> None:
    """A function that asks for its state with the first record would lose it in a checkpoint before that."""
    storage = files_in_memory()
    states = [HeapOperatorStates(subtask) for subtask in range(2)]
    for number, state in enumerate(states):
        state.get_list_state(SPLITS).add_all([number, 10 + number])
        state.get_union_list_state(NAMES).add(number)
        state.get_broadcast_state(RULES).put("a", [1])
    for parallelism in (3, 2, 1, 4):
        states = restored(storage, written(storage, states, columns), parallelism)
    assert sorted(item for state in states for item in state.get_list_state(SPLITS)) == [0, 1, 10, 11]
    for state in states:
        assert list(state.get_union_list_state(NAMES)) == [0, 1], "each restart would multiply them"
        assert dict(state.get_broadcast_state(RULES).items()) == {"a": [1]}
        assert {one.name for one in state.lists()} == {"splits", "names", "rules"}


def test_subtasks_to_which_no_item_has_come_are_restored_too() -> None:
    """Each new subtask of a rescaled job would repeat what a function does once for a new job."""
    storage = files_in_memory()
    state = HeapOperatorStates()
    state.get_list_state(SPLITS).add(1)
    news = restored(storage, written(storage, [state], columns=False), 3)
    assert [list(new.get_list_state(SPLITS)) for new in news] == [[1], [], []]
    assert all(new.is_restored for new in news)
