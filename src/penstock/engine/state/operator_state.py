"""Operator state on the heap: lists and dicts that belong to a subtask, not to a key. It is small and written whole.

Source: Flink docs, "Working with State", Operator State; "The Broadcast State Pattern".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from penstock.api.state.state import BroadcastState, ListState, OperatorStateStore
from penstock.common.errors import ProgramError
from penstock.common.values.copies import independent_copy
from penstock.engine.state.container_keys import stored_map_key
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.schema import TableSchema, check_schema, schema_of


class NamedList(NamedTuple):
    """An operator state in the form of a snapshot. Items of broadcast state are (key, value)."""

    name: str
    redistribution: Redistribution
    items: list[Any]
    schema: TableSchema | None = None
    """Kind and type, if a user's function has named it."""


class HeapOperatorStates(OperatorStateStore):
    """All operator state of one operator in one subtask."""

    def __init__(self, subtask: int = 0) -> None:
        self._subtask = subtask
        self._states: dict[str, tuple[Redistribution, _OperatorList | _Broadcast]] = {}
        self._schemas: dict[str, TableSchema] = {}
        self._restored: dict[str, NamedList] = {}
        self.is_restored = False
        """Whether the operator was restored from a snapshot, even if this subtask received no list."""

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, Redistribution.SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, Redistribution.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        name = state_descriptor.get_name()
        if name not in self._states:
            self._check(state_descriptor)
            self._states[name] = Redistribution.BROADCAST, _Broadcast(dict(self._take_restored(name)))
        state = self._known(name, Redistribution.BROADCAST)
        assert isinstance(state, _Broadcast)
        return state

    def lists(self) -> list[NamedList]:
        """Return copies of all states for a snapshot, so that it does not contain later changes."""
        requested = [
            NamedList(name, redistribution, [independent_copy(item) for item in state.content()], self._schemas[name])
            for name, (redistribution, state) in self._states.items()
        ]
        # Restored states that no function has requested stay unchanged. Each subtask has all of a union list: only one
        # subtask writes it, or it would grow by the parallelism with every restart.
        waiting = [
            one._replace(items=[independent_copy(item) for item in one.items])
            for one in self._restored.values()
            if one.redistribution is not Redistribution.UNION or self._subtask == 0
        ]
        return requested + waiting

    def restore(self, lists: Iterable[NamedList]) -> None:
        """Restore lists. A state receives its list when it is first requested; `_check` refuses another schema.

        Lists that are never requested are in all later snapshots. Source: Flink, DefaultOperatorStateBackend.
        """
        self._restored = {one.name: one for one in lists}
        self.is_restored = True

    def _take_restored(self, name: str) -> list[Any]:
        restored = self._restored.pop(name, None)
        return restored.items if restored is not None else []

    def _list(self, descriptor: ListStateDescriptor, redistribution: Redistribution) -> ListState[Any]:
        name = descriptor.get_name()
        if name not in self._states:
            self._check(descriptor)
            self._states[name] = redistribution, _OperatorList(self._take_restored(name))
        state = self._known(name, redistribution)
        assert isinstance(state, _OperatorList)
        return state

    def _check(self, descriptor: StateDescriptor) -> None:
        """Raise CheckpointError if the restored state has another kind or type."""
        name = descriptor.get_name()
        schema = self._schemas[name] = schema_of(descriptor)
        restored = self._restored.get(name)
        check_schema(name, str((restored and restored.schema) or ""), schema)

    def _known(self, name: str, requested: Redistribution) -> _OperatorList | _Broadcast:
        redistribution, state = self._states[name]
        if redistribution is not requested:
            raise ProgramError(
                f"the operator state '{name}' is requested as {requested.value}, but was requested as "
                f"{redistribution.value} before: use different names"
            )
        return state


class _OperatorList(ListState[Any]):
    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def content(self) -> list[Any]:
        return self._items

    def get(self) -> Iterable[Any]:
        return iter(list(self._items))

    def add(self, value: Any) -> None:
        self._items.append(value)

    def update(self, values: Iterable[Any]) -> None:
        self._items = list(values)

    def add_all(self, values: Iterable[Any]) -> None:
        self._items.extend(values)

    def clear(self) -> None:
        self._items = []


class _Broadcast(BroadcastState[Any, Any]):
    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def content(self) -> list[Any]:
        return list(self._entries.items())

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._entries

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(list(self._entries.items()))

    def keys(self) -> Iterator[Any]:
        return iter(list(self._entries))

    def values(self) -> Iterator[Any]:
        return iter(list(self._entries.values()))

    def is_empty(self) -> bool:
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        self._entries[stored_map_key(key)] = value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._entries.update({stored_map_key(key): value for key, value in dict(dict_value).items()})

    def remove(self, key: Any) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
