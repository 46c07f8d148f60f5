"""State with a time to live: reads before and after expiry, and removal without reads."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.unit.engine.state.written_state import BACKENDS, Subtask, backend_of, files_in_memory

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.ttl import StateTtlConfig
from penstock.common.errors import CheckpointError
from penstock.common.time import Duration
from penstock.common.typeinfo import Types
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.store_files import contents_of
from penstock.engine.state.handles import store_files_of

TTL = 80


class Total:
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@dataclasses.dataclass
class Clock:
    now: int = 1_000


class Backend(HashMapKeyedStateBackend):
    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(lambda: self.clock.now)
        self.key = "k"

    __slots__ = ("clock",)


def lives(descriptor, change=lambda builder: builder):
    descriptor.enable_time_to_live(change(StateTtlConfig.new_builder(Duration.of_millis(TTL))).build())
    return descriptor


def value(change=lambda builder: builder):
    return lives(ValueStateDescriptor("v", Types.LONG()), change)


def test_a_value_lives_from_its_last_write() -> None:
    """A session would end while it is in use, or never."""
    backend = Backend()
    state = backend.state(value())
    state.update(1)
    backend.clock.now += TTL - 1
    assert state.value() == 1
    state.update(2)
    backend.clock.now += TTL - 1
    assert state.value() == 2
    backend.clock.now += 1
    assert state.value() is None


def test_reading_prolongs_a_life_where_that_is_asked_for() -> None:
    """A cache would forget what is read all the time."""
    backend = Backend()
    state = backend.state(value(lambda builder: builder.update_ttl_on_read_and_write()))
    state.update(1)
    for _ in range(5):
        backend.clock.now += TTL - 1
        assert state.value() == 1
    backend.clock.now += TTL
    assert state.value() is None


def test_what_has_expired_may_be_seen_once_more() -> None:
    """A program that prefers an expired value to none would get none."""
    backend = Backend()
    state = backend.state(value(lambda builder: builder.return_expired_if_not_cleaned_up()))
    state.update(1)
    backend.clock.now += TTL * 3
    assert state.value() == 1
    assert state.value() is None, "it was removed as it was read"


def test_elements_and_entries_expire_one_by_one() -> None:
    """A list that is constantly extended would grow forever."""
    backend = Backend()
    elements = backend.state(lives(ListStateDescriptor("l", Types.LONG())))
    entries = backend.state(lives(MapStateDescriptor("m", Types.STRING(), Types.LONG())))
    elements.add(1)
    entries.put("a", 1)
    backend.clock.now += TTL // 2
    elements.add_all([2, 3])
    entries.put_all({"b": 2})
    backend.clock.now += TTL // 2
    assert list(elements) == [2, 3]
    assert dict(entries.items()) == {"b": 2}
    assert "a" not in entries and entries["b"] == 2
    backend.clock.now += TTL // 2
    assert list(elements) == [] and entries.is_empty()
    assert not backend.tables["l"] and not backend.tables["m"]


@pytest.mark.parametrize(
    "descriptor", [ReducingStateDescriptor("s", lambda a, b: a + b), AggregatingStateDescriptor("s", Total())]
)
def test_sums_begin_anew(descriptor) -> None:
    """A count of the last hour would be a count of all time."""
    backend = Backend()
    state = backend.state(lives(descriptor))
    state.add(1)
    state.add(2)
    assert state.get() == 3
    backend.clock.now += TTL
    assert state.get() is None
    state.add(5)
    assert state.get() == 5


def test_memory_is_freed_though_nobody_reads() -> None:
    """Keys that never come again would fill the memory, which is what a time to live is to prevent."""
    backend = Backend()
    states = [
        backend.state(value()),
        backend.state(lives(ListStateDescriptor("l"))),
        backend.state(lives(MapStateDescriptor("m"))),
    ]
    for key in range(1_000):
        backend.key = key
        backend.clock.now = 1_000 + key // 100
        states[0].update(1)
        states[1].add(1)
        states[2].put("a", 1)
    backend.key = 0
    backend.clock.now += 20
    states[0].update(2)
    assert backend.maintenance_due_ms() is not None
    rounds = 0
    while (at := backend.maintenance_due_ms()) is not None:
        backend.clock.now = max(at, backend.clock.now)
        backend.maintain(50)
        rounds += 1
        assert not backend.tables["v"] or backend.clock.now < 1_000 + 30 + TTL * 2
    assert rounds > 1_000 // 50, "a little at a time"
    assert not any(backend.tables.values())


def prolonged_by_reading(builder):
    return builder.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)


@pytest.mark.parametrize("kind", BACKENDS)
def test_whether_a_map_is_empty_does_not_prolong_its_life(kind: str) -> None:
    """A map of which only `is_empty` is called would never expire."""
    clock = Clock()
    backend = backend_of(kind, lambda: clock.now)
    backend.key = "k"
    state = backend.state(lives(MapStateDescriptor("m"), prolonged_by_reading))
    assert state.is_empty()
    state.put_all({"a": 1, "b": 2})
    for _ in range(3):
        clock.now += TTL // 4
        assert not state.is_empty()
        assert state.contains("b")
    clock.now += TTL // 4
    assert "a" not in state and "b" in state
    clock.now += TTL
    assert state.is_empty() and not backend.tables["m"]


class Counted:
    """A value that counts how often one like it is read from a store."""

    read = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        Counted.read += 1


@pytest.mark.parametrize("change", [lambda builder: builder, prolonged_by_reading])
def test_only_what_is_iterated_is_read(change) -> None:
    """The first key of a map, or whether there is one, would cost as much as all of its entries, and prolong them."""
    clock = Clock()
    backend = backend_of("rocksdb", lambda: clock.now)
    backend.key = "k"
    state = backend.state(lives(MapStateDescriptor("m"), change))
    for number in range(100):
        state.put(number, Counted())
        state.put_all({number: Counted()})
    while backend.maintenance_due_ms() == 0:
        backend.maintain(1_000)
    for ask in (
        state.is_empty,
        lambda: next(iter(state.keys())),
        lambda: next(state.items()),
        lambda: next(state.values()),
    ):
        Counted.read = 0
        ask()
        assert Counted.read <= 3


@pytest.mark.parametrize("kind", BACKENDS)
def test_entries_are_used_when_an_iteration_reaches_them(kind: str) -> None:
    """A loop that stops at the first match would keep all later entries alive."""
    clock = Clock()
    backend = backend_of(kind, lambda: clock.now)
    backend.key = "k"
    state = backend.state(lives(MapStateDescriptor("m"), prolonged_by_reading))
    state.put_all({"a": 1, "b": 2, "c": 3})
    clock.now += TTL // 2
    assert [next(iter(read())) for read in (state.keys, state.values, state.items)] == ["a", 1, ("a", 1)]
    clock.now += TTL // 2
    assert list(state.items()) == [("a", 1)]


@pytest.mark.parametrize("kind", BACKENDS)
def test_what_is_changed_during_an_iteration_stays_changed(kind: str) -> None:
    """An iteration would restore an entry that the loop removed, or an old value that the loop replaced."""
    clock = Clock()
    backend = backend_of(kind, lambda: clock.now)
    backend.key = "k"
    state = backend.state(lives(MapStateDescriptor("m"), prolonged_by_reading))
    state.put_all({"a": 1, "b": 2, "c": 3, "d": 4})
    found = []
    for key, value in state.items():
        found.append((key, value))
        # The iteration continues with the entries of the key at which it began.
        backend.key = "k"
        if key == "a":
            state.remove("b")
            state.put("c", 30)
            clock.now += TTL
            state.put("d", 40)
        backend.key = "other"
    backend.key = "k"
    assert found == [("a", 1)], "the others have expired meanwhile"
    assert dict(state.items()) == {"d": 40}
    backend.key = "other"
    assert state.is_empty()


def test_no_clean_up_where_none_is_wanted() -> None:
    """A job that has switched clean-up off would pay for it."""
    backend = Backend()
    state = backend.state(value(lambda builder: builder.disable_cleanup_in_background()))
    state.update(1)
    assert backend.maintenance_due_ms() is None
    backend.clock.now += TTL
    assert state.value() is None


def test_expiry_goes_on_after_a_restore() -> None:
    """After a restart, restored state would never expire, or its time to live would start again."""
    backend = Backend()
    backend.state(value()).update(7)
    frozen = backend.tables["v"].freeze(True)
    again = Backend()
    again.clock.now += TTL // 2
    for entry_keys, values in frozen.pieces():
        again.restored_table("v", str(backend.schemas["v"])).restore(entry_keys, values)
    again.key = "k"
    state = again.state(value())
    assert state.value() == 7
    again.clock.now += TTL // 2
    while (at := again.maintenance_due_ms()) is not None and at <= again.clock.now + TTL:
        again.clock.now = max(at, again.clock.now)
        again.maintain(10)
    assert not again.tables["v"]


def test_a_time_to_live_can_not_be_given_to_state_that_has_none() -> None:
    """Earlier values would be read as times."""
    backend = Backend()
    backend.restored_table("v", "value of Long")
    with pytest.raises(CheckpointError, match="written as value of Long, the program declares it as value with a time"):
        backend.state(value())


class Decoded:
    """Counts how often a value is decoded."""

    count = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return decoded, ()


def decoded() -> Decoded:
    Decoded.count += 1
    return Decoded()


def test_nothing_is_decoded_when_a_state_in_a_store_is_opened() -> None:
    """A restart with a terabyte of state would first read all of it, into memory."""
    storage = files_in_memory()
    subtask = Subtask("rocksdb", storage)
    descriptor = MapStateDescriptor("map")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(100)).build())
    for subtask.backend.key in range(20):
        subtask.backend.state(descriptor).put("x", Decoded())
    subtask.backend.maintain(100)
    subtask.freeze(True)()
    other = backend_of("rocksdb", lambda: 0)
    assert isinstance(other, RocksDBKeyedStateBackend)
    database = store_files_of(subtask.chain)
    other.restored_table("map", subtask.chain[-1].tables[0].schema)
    other.begin_with(database[0].tables, contents_of(storage, database))
    Decoded.count = 0
    other.state(descriptor)
    assert Decoded.count == 0 and other.maintenance_due_ms() is not None
    other.key = 5
    assert isinstance(other.state(descriptor).get("x"), Decoded) and Decoded.count == 1
