"""State with a time to live against a naive model: a dict that reads the clock, in both backends."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import BACKENDS, Subtask, backend_of, files_in_memory

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.ttl import StateTtlConfig
from penstock.common.time import Duration

TTL = 40


@dataclasses.dataclass
class Clock:
    now: int = 1_000

    def __call__(self) -> int:
        return self.now


class Total:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def descriptors(reading_counts: bool = False, shows_expired: bool = False) -> dict[str, Any]:
    builder = StateTtlConfig.new_builder(Duration.of_millis(TTL))
    if reading_counts:
        builder.update_ttl_on_read_and_write()
    if shows_expired:
        builder.return_expired_if_not_cleaned_up()
    found: dict[str, StateDescriptor] = {
        "value": ValueStateDescriptor("value"),
        "list": ListStateDescriptor("list"),
        "map": MapStateDescriptor("map"),
        "sum": ReducingStateDescriptor("sum", lambda a, b: a + b),
        "total": AggregatingStateDescriptor("total", Total()),
    }
    for descriptor in found.values():
        descriptor.enable_time_to_live(builder.build())
    return found


class Model:
    """The content of a key in each state: (field, time of last use, value). Fields of a list are numbered."""

    def __init__(self, clock: Clock, reading_counts: bool) -> None:
        self._clock = clock
        self._reading_counts = reading_counts
        self._fields: dict[tuple[str, Any], dict[Any, tuple[int, Any]]] = {}

    def alive(self, place: tuple[str, Any]) -> dict[Any, tuple[int, Any]]:
        fields = {field: item for field, item in self._fields.get(place, {}).items() if item[0] + TTL > self._clock.now}
        self._fields[place] = fields
        return fields

    def read(self, place: tuple[str, Any], field: Any = ...) -> dict[Any, Any]:
        """All fields, or one. What is read may live longer."""
        fields = self.alive(place)
        wanted = [one for one in fields if field is ... or one == field]
        if self._reading_counts:
            fields.update({one: (self._clock.now, fields[one][1]) for one in wanted})
        return {one: fields[one][1] for one in wanted}

    def write(self, place: tuple[str, Any], method: str, *args: Any) -> None:
        kind, fields, now = place[0], self.alive(place), self._clock.now
        match kind, method, args:
            case (_, "clear", _):
                fields.clear()
            case ("value", "update", [value]):
                fields[""] = now, value
            case ("list", "add", [value]):
                fields[max(fields, default=0) + 1] = now, value
            case ("list", "update", [values]):
                fields.clear()
                fields.update({number: (now, value) for number, value in enumerate(values)})
            case ("map", "put", [field, value]):
                fields[field] = now, value
            case ("map", "remove", [field]):
                fields.pop(field, None)
            case (_, "add", [value]):
                fields[""] = now, value + (fields[""][1] if fields else 0)


def read(state: Any, kind: str) -> Any:
    match kind:
        case "value":
            return state.value()
        case "list":
            return list(state.get())
        case "map":
            return dict(state.items())
        case _:
            return state.get()


def as_read(kind: str, fields: dict[Any, Any]) -> Any:
    match kind:
        case "list":
            return list(fields.values())
        case "map":
            return fields
        case _:
            return fields.get("")


KEYS = st.sampled_from("ab")
KINDS = st.sampled_from([*descriptors()])
NUMBERS = st.integers(0, 9)
FIELDS = st.sampled_from("xy")
WRITES = st.one_of(
    st.tuples(st.just("value"), st.just("update"), NUMBERS),
    st.tuples(st.just("list"), st.just("add"), NUMBERS),
    st.tuples(st.just("list"), st.just("update"), st.lists(NUMBERS, max_size=2)),
    st.tuples(st.just("map"), st.just("put"), FIELDS, NUMBERS | st.none()),
    st.tuples(st.just("map"), st.just("remove"), FIELDS),
    st.tuples(st.sampled_from(["sum", "total"]), st.just("add"), NUMBERS),
    st.tuples(KINDS, st.just("clear")),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), KEYS, WRITES),
        st.tuples(st.just("read"), KEYS, KINDS),
        st.tuples(st.sampled_from(["get", "contains"]), KEYS, FIELDS),
        st.tuples(st.just("wait"), st.sampled_from([1, 5, TTL // 2, TTL - 1, TTL])),
        st.tuples(st.just("maintain"), st.integers(1, 5)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=40,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reading_counts", [False, True])
@settings(max_examples=60)
@given(steps=STEPS, namespaced=st.booleans())
def test_it_is_a_dict_that_looks_at_the_clock(
    backend: str, reading_counts: bool, steps: list[tuple[Any, ...]], namespaced: bool
) -> None:
    """State would vanish early or be seen too late, after clean-up, a spill or a restart; or never be removed."""
    clock = Clock()
    subtask = Subtask(backend, files_in_memory(), clock)
    declared, model = descriptors(reading_counts), Model(clock, reading_counts)

    def state(kind: str, key: str) -> Any:
        subtask.backend.key, subtask.backend.namespace = key, "window"
        return subtask.backend.state(declared[kind], namespaced)

    for step in steps:
        match step:
            case ("write", key, (kind, method, *values)):
                getattr(state(kind, key), method)(*values)
                if kind in ("sum", "total") and method == "add":
                    model.read((kind, key))
                model.write((kind, key), method, *values)
            case ("read", key, kind):
                assert read(state(kind, key), kind) == as_read(kind, model.read((kind, key)))
            case ("get", key, field):
                assert state("map", key).get(field) == model.read(("map", key), field).get(field)
            case ("contains", key, field):
                assert state("map", key).contains(field) == bool(model.read(("map", key), field))
            case ("wait", ms):
                clock.now += ms
            case ("maintain", most):
                subtask.backend.maintain(most)
            case ("restart", full):
                subtask.freeze(full)()
                subtask = subtask.restored([subtask.chain])
    for kind in declared:
        for key in "ab":
            assert read(state(kind, key), kind) == as_read(kind, model.read((kind, key)))
    while (at := subtask.backend.maintenance_due_ms()) is not None:
        clock.now = max(clock.now, at)
        subtask.backend.maintain(3)
    assert clock.now <= 1_000 + sum(step[1] for step in steps if step[0] == "wait") + 2 * TTL
    assert not any(subtask.backend.tables.values()), "no access is needed for the removal"


@pytest.mark.parametrize("backend", BACKENDS)
def test_expired_state_is_shown_once_where_that_is_asked_for(backend: str) -> None:
    """A program that accepts expired values would get none, or would get them forever."""
    clock = Clock()
    states = backend_of(backend, clock)
    declared = descriptors(shows_expired=True)
    states.key = "a"
    value, elements, fields = (states.state(declared[kind]) for kind in ("value", "list", "map"))
    value.update(1)
    elements.add_all([1, 2])
    fields.put_all({"x": 1, "y": 2, "z": 3})
    clock.now += TTL
    assert (value.value(), value.value()) == (1, None)
    assert (list(elements), list(elements)) == ([1, 2], [])
    assert fields.contains("z") and not fields.contains("z")
    assert (fields.get("x"), fields.get("x")) == (1, None)
    assert (dict(fields.items()), fields.is_empty()) == ({"y": 2}, True)
    assert not any(states.tables.values())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_map_is_read_in_all_ways(backend: str) -> None:
    """A program that goes through the keys or the values of a map would see entries that have expired."""
    clock = Clock()
    states = backend_of(backend, clock)
    states.key = "a"
    fields = states.state(descriptors()["map"])
    fields.put_all({})
    assert fields.is_empty() and not states.tables["map"]
    fields["x"] = 1
    clock.now += TTL // 2
    fields.put_all({"y": 2, "none": None})
    assert (sorted(fields.keys()), "none" in fields) == (["none", "x", "y"], True)
    clock.now += TTL // 2
    assert (list(fields.keys()), list(fields.values()), list(fields)) == (["y", "none"], [2, None], ["y", "none"])
    del fields["y"]
    fields.remove("none")
    fields.remove("never there")
    assert not states.tables["map"], "a map without entries takes no room"


def test_nothing_is_left_to_do_once_all_is_cleared() -> None:
    """In batch execution the clean-up would look for the state of keys that are done, key after key."""
    states = backend_of("hashmap", Clock())
    state = states.state(descriptors()["value"])
    for states.key in range(10):
        state.update(1)
    assert states.maintenance_due_ms() is not None
    states.clear()
    assert states.maintenance_due_ms() is None
    states.key = 5
    state.update(2)
    assert state.value() == 2 and states.maintenance_due_ms() is not None
    state.update(None)
    assert not states.tables["value"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_of_a_list_or_a_map_are_removed_without_being_read(backend: str) -> None:
    """A list of recent events would grow as long as there are events, if no function reads it."""
    clock = Clock()
    states = backend_of(backend, clock)
    states.key = "a"
    declared = descriptors()
    elements, fields = states.state(declared["list"]), states.state(declared["map"])
    for number in range(10):
        elements.add(number)
        fields.put(number, number)
        for wait_ms in (TTL // 2 - TTL // 4, TTL // 4):
            clock.now += wait_ms
            while (at := states.maintenance_due_ms()) is not None and at <= clock.now:
                states.maintain(10)
    # What has expired goes an eighth of the time to live later, at most.
    clock.now += TTL // 4
    states.maintain(10)
    held = [len(states.layered(name).get("a")) for name in ("list", "map")]
    assert held == [1, 1], "the others are older than their time to live"
