"""Keyed state in both backends: a value per key, and nothing of one key under another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.engine.state.written_state import BACKENDS, backend_of

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.ttl import StateTtlConfig
from penstock.api.windows.window import Window
from penstock.common import Duration, Time, Types
from penstock.common.errors import ProgramError
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.keys import KeyTypeError

ANY = Types.PICKLED_BYTE_ARRAY()
VALUE = ValueStateDescriptor("value", ANY)
LIST = ListStateDescriptor("list", ANY)
MAP = MapStateDescriptor("map", ANY, ANY)
SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, ANY)


class Mean:
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> KeyedStateBackend:
    backend = backend_of(request.param, cached=0)
    backend.key = "a"
    return backend


def stored(backend: KeyedStateBackend) -> bool:
    return any(backend.tables.values())


def test_a_state_that_was_declared_for_nothing_may_be_declared_otherwise(backend) -> None:
    """A function that was dropped before its first call would still define the meaning of a name."""
    backend.state(VALUE).update(1)
    number_of_tables = len(backend.tables)
    for descriptor in (ListStateDescriptor("more", ANY), MapStateDescriptor("more", ANY, ANY)):
        backend.state(descriptor)
        backend.undeclare("more")
    assert len(backend.tables) == number_of_tables and "more" not in backend.schemas
    more = backend.state(ValueStateDescriptor("more", ANY))
    more.update(2)
    assert (more.value(), backend.state(VALUE).value()) == (2, 1)


def test_value_state(backend) -> None:
    """A count would restart from zero, or be that of another key."""
    state = backend.store().get_state(VALUE)
    assert state.value() is None
    state.update(1)
    backend.key = "b"
    assert state.value() is None
    state.update(0)
    assert state.value() == 0
    backend.key = "a"
    assert state.value() == 1
    state.update(None)
    backend.key = "b"
    state.clear()
    assert not stored(backend)


def test_list_state_keeps_the_order(backend) -> None:
    """Events would be replayed in another order than they came."""
    state = backend.store().get_list_state(LIST)
    assert list(state.get()) == []
    state.add(3)
    state.add_all([1, 2])
    assert list(state) == [3, 1, 2]
    read = state.get()
    state.add(4)
    assert (list(read), list(state.get())) == ([3, 1, 2], [3, 1, 2, 4]), "a loop may add to the list it goes through"
    state.update([9])
    assert list(state.get()) == [9]
    state.update([])
    assert not stored(backend)


def test_a_list_handed_to_the_state_stays_the_users_own(backend) -> None:
    """A buffer that the function clears and fills again would empty the state."""
    state = backend.store().get_list_state(LIST)
    mine = [1, 2]
    state.update(mine)
    mine.clear()
    assert list(state.get()) == [1, 2]
    state.add_all(mine)
    assert list(state.get()) == [1, 2]


def test_map_state_reads_like_a_dict(backend) -> None:
    """Programs of PyFlink use all of these."""
    state = backend.store().get_map_state(MAP)
    assert state.is_empty()
    assert (state.get("x"), state["x"], "x" in state) == (None, None, False)
    state["x"] = 1
    state.put_all({"y": 2, "z": None})
    assert sorted(state.keys()) == ["x", "y", "z"]
    assert dict(state.items()) == {"x": 1, "y": 2, "z": None}
    assert list(state.values()) == [1, 2, None]
    assert state.contains("z")
    for key in state:  # removing while going through it is what clean-up loops do
        del state[key]
    state.remove("x")
    assert state.is_empty()
    state.put_all({})
    assert not stored(backend)


@pytest.mark.parametrize("has_ttl", [False, True])
def test_map_state_takes_pairs(backend, has_ttl: bool) -> None:
    """An iterator of pairs would be used up by a check of its keys, and nothing be stored."""
    descriptor = MapStateDescriptor("pairs", Types.LONG(), Types.LONG())
    if has_ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(10)).build())
    state = backend.store().get_map_state(descriptor)
    state.put_all(zip([1, 2], [3, 4], strict=True))
    state.put_all([(5, 6)])
    assert dict(state.items()) == {1: 3, 2: 4, 5: 6}


@pytest.mark.parametrize(("descriptor", "shown"), [("v", "'v'"), (MAP, "MapStateDescriptor")])
def test_a_state_that_is_declared_as_another_kind(backend, descriptor: Any, shown: str) -> None:
    """The error would be of penstock's own lines, or come with the first record."""
    with pytest.raises(TypeError, match=rf"expected a ValueStateDescriptor\(name, type\) for this state, got {shown}"):
        backend.store().get_state(descriptor)


def test_reducing_and_aggregating_state(backend) -> None:
    """Sums would lose their first value, or hold what cannot be reduced yet."""
    store = backend.store()
    total, mean = (
        store.get_reducing_state(SUM),
        store.get_aggregating_state(AggregatingStateDescriptor("m", Mean(), ANY)),
    )
    assert (total.get(), mean.get()) == (None, None)
    for value in (0, 4, 5):
        total.add(value)
        mean.add(value)
    assert (total.get(), mean.get()) == (9, 3.0)
    backend.key = "b"
    assert (total.get(), mean.get()) == (None, None)
    backend.key = "a"
    total.clear()
    mean.clear()
    assert not stored(backend)


def test_keys_that_are_equal_share_their_state(backend) -> None:
    """1 and 1.0 are one key of the stream; with two states each record would see half of it."""
    state = backend.store().get_state(VALUE)
    backend.key = 1
    state.update("x")
    backend.key = 1.0
    assert state.value() == "x"


@pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP, SUM])
def test_state_of_a_window_is_its_own(backend, descriptor) -> None:
    """Two windows of one key would count together, or with the key's own state of that name."""
    of_key, of_window = backend.state(descriptor), backend.state(descriptor, namespaced=True)

    def write(state, value):
        (state.put(0, value) if descriptor is MAP else state.update(value) if descriptor is VALUE else state.add(value))

    def read(state):
        return state.get(0) if descriptor is MAP else state.value() if descriptor is VALUE else state.get()

    write(of_key, 1)
    for window in ("w1", "w2"):
        backend.namespace = window
        write(of_window, window)
    for state, window, expected in ((of_key, "w1", 1), (of_window, "w1", "w1"), (of_window, "w2", "w2")):
        backend.namespace = window
        assert (list(read(state)) == [expected]) if descriptor is LIST else read(state) == expected
    backend.namespace = "w1"
    of_window.clear()
    assert not read(of_window) or list(read(of_window)) == []
    backend.clear()
    assert not stored(backend)


def test_one_name_is_one_state(backend) -> None:
    """A function and its timers would work on different values."""
    store = backend.store()
    store.get_state(VALUE).update(5)
    assert store.get_state(ValueStateDescriptor("value", ANY)).value() == 5
    for other, get in (
        (ListStateDescriptor("value", ANY), store.get_list_state),
        (ValueStateDescriptor("value", Types.INT()), store.get_state),
    ):
        with pytest.raises(
            ProgramError, match=r"'value' is declared as value of .* and as (list|value) of .*: use different names"
        ):
            get(other)


@dataclass(unsafe_hash=True)
class Edge:
    source: str
    target: str


@dataclass(frozen=True)
class FrozenEdge:
    source: str
    target: str


TTL_MAP = MapStateDescriptor("map that expires", ANY, ANY)
TTL_MAP.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())


@pytest.mark.parametrize("descriptor", [MAP, TTL_MAP], ids=["plain", "with a time to live"])
@pytest.mark.parametrize(
    "use",
    [
        lambda state, key: state.put(key, 1),
        lambda state, key: state.put_all({key: 1}),
        lambda state, key: state.get(key),
        lambda state, key: state.contains(key),
        lambda state, key: state.remove(key),
    ],
    ids=["put", "put_all", "get", "contains", "remove"],
)
def test_a_key_of_a_map_is_refused_as_one_of_a_stream_is(
    backend: KeyedStateBackend, descriptor: MapStateDescriptor, use: Callable[[Any, Any], Any]
) -> None:
    """Equal keys could have different bytes: in RocksDB they were two entries."""
    backend.key = "JFK"
    state = backend.state(descriptor)
    for key, why in (
        (Edge("a", "b"), "frozen=True"),
        (("JFK", Edge("a", "b")), "frozen=True"),
        (object(), "__penstock_key__"),
        (float("nan"), "does not equal itself"),
    ):
        with pytest.raises(KeyTypeError, match=why):
            use(state, key)
    assert state.is_empty()


def test_equal_keys_of_a_map_are_one_entry(backend: KeyedStateBackend) -> None:
    """Keys of a dict: of two equal keys, either finds the value of the other."""
    backend.key = "JFK"
    state = backend.state(MAP)
    for key, other in (
        (FrozenEdge("ab", "ab"), FrozenEdge("ab", "".join("ab"))),
        ((1, "x"), (1.0, "x")),
    ):
        state.put(key, "first")
        for filler in range(9):
            state.put(filler + 100, filler)
            backend.maintain(100)
        state.put(other, "second")
        assert state.get(key) == state.get(other) == "second"
        assert [one for one in state if one == key] == [key]


class Season(Window):
    """A key class with attributes and without an encoding."""

    def __init__(self, year: int, name: str, label: str) -> None:
        self.year = year
        self.name = name
        self.label = label

    def max_timestamp(self) -> int:
        return self.year

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Season) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)


def test_equal_windows_have_one_state(backend: KeyedStateBackend) -> None:
    """Whether two attributes are one object is not what windows are compared by: in RocksDB they had two states."""
    state = backend.state(VALUE, namespaced=True)
    backend.key = "JFK"
    spring, same = "spring", "".join(["spr", "ing"])
    for name, label in ((spring, spring), (spring, same)):
        backend.namespace = Season(2024, name, label)
        state.update((state.value() or 0) + 1)
        for filler in range(9):
            backend.namespace = Season(filler, name, label)
            state.update(filler + 1)
            backend.maintain(100)
    backend.namespace = Season(2024, same, spring)
    assert state.value() == 2


class Copied:
    """A value that counts how often it is copied, or read from a store."""

    count = 0

    def __setstate__(self, state: Any) -> None:
        Copied.count += 1

    def __deepcopy__(self, memo: Any) -> Copied:
        Copied.count += 1
        return self


@pytest.mark.parametrize("descriptor", [VALUE, MAP, LIST])
def test_all_keys_of_a_state(backend, descriptor) -> None:
    """A rule that is applied to all keys would miss some, be applied twice, or give a state to keys that have none."""
    state = backend.state(descriptor)
    table = backend.tables[descriptor.get_name()]

    def put(key: str) -> None:
        backend.key = key
        if descriptor is VALUE:
            state.update(Copied())
        elif descriptor is MAP:
            state.put("x", Copied())
        else:
            state.add(Copied())

    def clear(key: str) -> None:
        backend.key = key
        state.clear()

    for key in "abcd":
        put(key)
    for _ in range(3):
        backend.maintain(100)
    table.freeze(False).release()
    while table.compact(100):
        pass
    clear("a")
    put("b")
    table.freeze(False).release()
    put("e")
    clear("c")
    if descriptor is MAP:
        backend.key = "d"
        state.remove("x")
    under_way = table.freeze(True)
    put("f")
    put("g")
    clear("g")
    expected = ["b", "e", "f"] if descriptor is MAP else ["b", "d", "e", "f"]
    Copied.count = 0
    assert sorted(backend.keys(descriptor)) == expected
    assert Copied.count <= 4 * isinstance(backend, RocksDBKeyedStateBackend), "no value is read, but with its key"
    under_way.release()
    while table.compact(1):
        assert sorted(backend.keys(descriptor)) == expected
    clear("f")
    assert sorted(backend.keys(descriptor)) == expected[:-1]
