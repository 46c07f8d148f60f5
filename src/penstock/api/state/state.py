"""What functions see of state. Each method works on the state of the key whose record or timer is being processed.

Only `update`, `add`, `put` and their like count as a change: a mutable value that was read and then changed in place is
not stored. Source: Flink docs, "Working with State" and "The Broadcast State Pattern".
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
    """Base of all states."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is stored for the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T | None:
        """The value, or None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Store a value; None removes what is stored."""


class AppendingState(State, Generic[IN, OUT]):
    """Something that values are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What the values added amount to; None if there were none (a list state: an empty iterable)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """A state whose contents of several windows can be merged into one."""


class ReducingState(MergingState[T, T]):
    """The values added, combined by a reduce function into one of the same type."""


class AggregatingState(MergingState[IN, OUT]):
    """The values added, combined by an aggregate function; what is stored is its accumulator."""


class ListState(MergingState[T, Iterable[T]]):
    """A list of values, in the order in which they were added."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """The values, in order; nothing if there are none."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace what is stored by these values."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add these values, in order."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """What map state and broadcast state have in common."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of `key`, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether `key` has a value."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All keys with their values."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no key."""

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
        """Remove a key; nothing happens if it does not exist."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A dict. Reading or writing one of its keys does not touch the others. Reads like a dict: `state[key] = value`.

    Unlike a dict, `state[key]` is None for a key that does not exist, as in PyFlink.
    """


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """Broadcast state as the side that is not broadcast sees it. Its values must not be changed."""


class BroadcastState(_WritableMap[K, V], ReadOnlyBroadcastState[K, V]):
    """A dict that every subtask holds in full.

    Each subtask must make the same changes to it, whatever the order of its other input.
    """


class KeyedStateStore(ABC):
    """Gives functions on keyed streams their states. Two calls with one name give the same state."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value a key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """One list a key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """One dict a key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One reduced value a key."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """One accumulator a key."""


class OperatorStateStore(ABC):
    """Gives functions states that belong to the subtask, not to a key. They differ in what a rescale does."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A dict that all subtasks hold alike; after a rescale each holds all of it."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of the subtask; a rescale distributes the elements of all lists round robin."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of the subtask; after a restore each subtask gets the elements of all lists."""
