"""State as functions use it. Each method works on the state of the key whose record or timer is being processed.

Only methods such as `update`, `add` and `put` change state: a mutable value that was read and changed in place is not
stored. Source: Flink docs, "Working with State" and "The Broadcast State Pattern".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Base class of all states."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """A single value for each key."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the value, or None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Store a value. None removes the stored one."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the result of the added values, or None if there are no values (a list state: an empty iterable)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """State that can be merged when windows merge."""


class ReducingState(MergingState[T, T]):
    """The added values, combined by a reduce function into one of the same type."""


class AggregatingState(MergingState[IN, OUT]):
    """The result of an aggregate function over the added values. Its accumulator is stored."""


class ListState(MergingState[T, Iterable[T]]):
    """A list of values, in the order in which they were added."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """Return the values, in order; an empty iterable if there are no values."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the stored list by these values."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add these values, in order."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """Reading methods of map state and broadcast state."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of `key`, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether `key` has a value."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return all keys with their values."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return all keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return all values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no key."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V]):
    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Store the value of a key."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store all of these: a dict, or pairs of key and value."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a key. A key that does not exist is ignored."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A dict for each key of the stream. Access to one of its keys does not read or write the others.

    It supports `state[key]`, `state[key] = value`, `del`, `in` and iteration. `state[key]` is None for a key that does
    not exist, as in PyFlink.
    """


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """Broadcast state for the side that is not broadcast. Its values must not be changed."""


class BroadcastState(_WritableMap[K, V], ReadOnlyBroadcastState[K, V]):
    """A dict that every subtask holds in full.

    All subtasks must make the same changes to it, whatever the order of their other input.
    """


class KeyedStateStore(ABC):
    """Gives access to keyed state. Two calls with the same name return the same state."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return a state with a single value for each key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a state with a list for each key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a state with a dict for each key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return a state with a reduced value for each key."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return a state with an accumulator for each key."""


class OperatorStateStore(ABC):
    """Gives access to state of the subtask rather than of a key. A rescale redistributes each kind differently."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a dict that all subtasks hold alike. After a rescale each subtask has all of it."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of the subtask. A rescale distributes the elements of all lists round robin."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of the subtask. After a restore each subtask gets the elements of all lists."""
