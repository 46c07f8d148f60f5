"""Each keyed state behaves as a plain dict would, in both backends, through spills, snapshots and failures."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import BACKENDS, Subtask, files_in_memory

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.windows.window import TimeWindow
from penstock.common.typeinfo import Types
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.key_groups import key_group_range


class Mean:
    """Its accumulator is a list that is changed in place, as users' accumulators often are."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


DESCRIPTORS: dict[str, StateDescriptor] = {
    "value": ValueStateDescriptor("value", Types.LONG()),
    "list": ListStateDescriptor("list"),
    "map": MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    "sum": ReducingStateDescriptor("sum", lambda a, b: a + b),
    "mean": AggregatingStateDescriptor("mean", Mean()),
}
MODEL: dict[tuple[str, str], Callable[..., Any]] = {
    ("value", "update"): lambda before, value: value,
    ("list", "add"): lambda before, value: [*(before or ()), value],
    ("list", "add_all"): lambda before, values: [*(before or ()), *values],
    ("list", "update"): lambda before, values: values,
    ("map", "put"): lambda before, key, value: {**(before or {}), key: value},
    ("map", "put_all"): lambda before, added: {**(before or {}), **added},
    ("map", "remove"): lambda before, key: {k: v for k, v in (before or {}).items() if k != key},
    ("sum", "add"): lambda before, value: value if before is None else before + value,
    ("mean", "add"): lambda before, value: [*(before or ()), value],
    **{(kind, "clear"): lambda before: None for kind in DESCRIPTORS},
}
READ: dict[str, Callable[[Any], Any]] = {
    "value": lambda state: state.value(),
    "list": lambda state: list(state.get()) or None,
    "map": lambda state: dict(state.items()) or None,
    "sum": lambda state: state.get(),
    "mean": lambda state: state.get(),
}
KEYS = ["a", 7, (1, "x"), None]
NAMESPACES = [None, TimeWindow(0, 10), TimeWindow(10, 20)]
"""None: the state of the key; else that of a window."""

NUMBERS = st.integers(-3, 3)
FIELDS = st.sampled_from("xy")
ACTS = st.one_of(
    st.tuples(st.just("value"), st.just("update"), NUMBERS | st.none()),
    st.tuples(st.just("list"), st.just("add"), NUMBERS | st.none()),
    st.tuples(st.just("list"), st.sampled_from(["add_all", "update"]), st.lists(NUMBERS, max_size=3)),
    st.tuples(st.just("map"), st.just("put"), FIELDS, NUMBERS | st.none()),
    st.tuples(st.just("map"), st.just("put_all"), st.dictionaries(FIELDS, NUMBERS)),
    st.tuples(st.just("map"), st.just("remove"), FIELDS),
    st.tuples(st.sampled_from(["sum", "mean"]), st.just("add"), NUMBERS),
    st.tuples(st.sampled_from([*DESCRIPTORS]), st.just("clear")),
)
CHANGES = st.tuples(st.just("change"), st.sampled_from(KEYS), st.sampled_from(NAMESPACES), ACTS)
STEPS = st.lists(
    CHANGES
    | CHANGES
    | CHANGES
    | st.tuples(st.just("maintain"), st.integers(1, 3))
    | st.tuples(st.just("compact"), st.integers(1, 3))
    | st.tuples(st.just("freeze"), st.booleans())
    | st.tuples(st.sampled_from(["write", "fail"])),
    max_size=50,
)
Contents = dict[tuple[str, Any, Any], Any]
"""kind of state, key, namespace -> content; what is empty is not there."""


def change(backend: KeyedStateBackend, model: Contents, key: Any, namespace: Any, act: tuple[Any, ...]) -> None:
    kind, method, *values = act
    backend.key, backend.namespace = key, namespace
    getattr(backend.state(DESCRIPTORS[kind], namespace is not None), method)(*values)
    place = kind, key, namespace
    content = MODEL[kind, method](model.get(place), *values)
    if content is None or content in ([], {}):
        model.pop(place, None)
    else:
        model[place] = content


def held(backend: KeyedStateBackend, keys: list[Any] = KEYS) -> Contents:
    """Return everything that can be read from a backend."""
    found: Contents = {}
    for kind, descriptor in DESCRIPTORS.items():
        for backend.key in keys:
            for backend.namespace in NAMESPACES:
                content = READ[kind](backend.state(descriptor, backend.namespace is not None))
                if content is not None:
                    found[kind, backend.key, backend.namespace] = content
    return found


def as_read(model: Contents) -> Contents:
    return {place: sum(has) / len(has) if place[0] == "mean" else has for place, has in model.items()}


@pytest.mark.parametrize("kind", BACKENDS)
@settings(max_examples=60)
@given(steps=STEPS)
def test_states_are_dicts_whatever_happens(kind: str, steps: list[tuple[Any, ...]]) -> None:
    """Spilling, compacting, a checkpoint or a restart from one would change what a function has kept."""
    subtask = Subtask(kind, files_in_memory())
    model: Contents = {}
    checkpointed: Contents = {}
    under_way: list[tuple[Callable[[], None], Contents]] = []
    for step in steps:
        match step:
            case ("change", key, namespace, act):
                change(subtask.backend, model, key, namespace, act)
            case ("maintain", most):
                subtask.backend.maintain(most)
            case ("compact", most):
                subtask.backend.compact(most)
            case ("freeze", full) if not under_way:
                under_way.append((subtask.freeze(full), copy.deepcopy(model)))
            case ("write",) if under_way:
                write, checkpointed = under_way.pop()
                write()
            case ("fail",):
                under_way.clear()
                subtask = subtask.restored([subtask.chain] if subtask.chain else [])
                model = copy.deepcopy(checkpointed)
        assert held(subtask.backend) == as_read(model)
    assert {name for name, table in subtask.backend.tables.items() if table} == {
        name if namespace is None else f"window/{name}" for name, _, namespace in model
    }, "an empty state takes no room"


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("other", BACKENDS)
@settings(max_examples=30)
@given(
    changes=st.lists(st.tuples(st.integers(0, 20), st.sampled_from(NAMESPACES), ACTS), max_size=40),
    before=st.integers(1, 3),
    after=st.integers(1, 8),
)
def test_a_savepoint_moves_to_another_backend_and_parallelism(
    kind: str, other: str, changes: list[tuple[Any, ...]], before: int, after: int
) -> None:
    """A job that has outgrown its memory or its machines could not take its state along, or would mix up keys."""
    keys = list(range(21))
    owners = [key_group_range(subtask, 8, after) for subtask in range(after)]
    storage = files_in_memory()
    olds = [Subtask(kind, storage) for _ in range(before)]
    model: Contents = {}
    for number, (key, namespace, act) in enumerate(changes):
        change(olds[key % before].backend, model, key, namespace, act)
        olds[key % before].backend.maintain(number % 3)
    chains = [old.savepoint(f"savepoint-{number}") for number, old in enumerate(olds)]
    found: Contents = {}
    for groups in owners:
        mine = held(olds[0].restored(chains, other, groups).backend, keys)
        assert not mine.keys() & found.keys(), "a key is with one subtask"
        found.update(mine)
    assert found == as_read(model)


@pytest.mark.parametrize("kind", BACKENDS)
def test_an_increment_holds_only_what_has_changed(kind: str) -> None:
    """Each checkpoint of a large state would write all of it again."""
    subtask = Subtask(kind, files_in_memory())
    state = subtask.backend.state(DESCRIPTORS["value"])
    for subtask.backend.key in range(2_000):
        state.update(1)
    subtask.freeze(True)()
    subtask.backend.key = 5
    state.update(2)
    subtask.freeze(False)()
    full, increment = sum(file.bytes for file in subtask.chain[:-1]), subtask.chain[-1].bytes
    assert increment < full / 100
    assert len(subtask.chain[-1].sections) == 1
    again = subtask.restored([subtask.chain]).backend
    read = again.state(DESCRIPTORS["value"])
    assert [read.value() for again.key in (4, 5, 6)] == [1, 2, 1]


@pytest.mark.parametrize("kind", BACKENDS)
def test_what_is_read_may_be_changed_while_it_is_written(kind: str) -> None:
    """A checkpoint would hold what a function did to a list after the barrier: it would be done twice."""
    subtask = Subtask(kind, files_in_memory())
    backend = subtask.backend
    backend.key = "a"
    lists, mean = backend.state(DESCRIPTORS["list"]), backend.state(DESCRIPTORS["mean"])
    lists.add([1])
    mean.add(1)
    write = subtask.freeze(False)
    next(iter(lists.get())).append(2)
    mean.add(5)
    lists.add([3])
    write()
    again = subtask.restored([subtask.chain]).backend
    again.key = "a"
    assert list(again.state(DESCRIPTORS["list"])) == [[1]]
    assert again.state(DESCRIPTORS["mean"]).get() == 1
    assert mean.get() == 3


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_cleared_backend_has_nothing(kind: str) -> None:
    """In batch execution a key would begin with what the key before it has left."""
    subtask = Subtask(kind, files_in_memory())
    model: Contents = {}
    for key in KEYS:
        for act in (("value", "update", 1), ("list", "add", 1), ("map", "put", "x", 1), ("mean", "add", 1)):
            change(subtask.backend, model, key, TimeWindow(0, 10), act)
    subtask.backend.maintain(2)
    subtask.freeze(True)()
    subtask.backend.clear()
    assert held(subtask.backend) == {}
    assert not any(subtask.backend.tables.values())
    change(subtask.backend, model, "a", None, ("value", "update", 5))
    assert held(subtask.backend) == {("value", "a", None): 5}
    subtask.backend.close()
