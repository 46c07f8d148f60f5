"""Detects values changed in place, by comparing their pickles with earlier ones.

The state backend on the heap shares objects with the user's function. A change in place without `update`, `add` or
`put` works there, and is lost in a backend that stores bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from penstock.api.state.descriptors import StateDescriptor
from penstock.api.state.state import ListState, MapState, ReducingState, ValueState
from penstock.common.errors import PenstockError
from penstock.common.values.copies import independent_copy
from penstock.engine.runtime.task.context import shortened
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend


class ChangedValueError(PenstockError):
    """A value was changed in place after it was read from state or stored there."""


class Watch:
    """Remembers the pickles of values by entry key. `check` raises ChangedValueError if one has changed."""

    def __init__(self, operator_name: str) -> None:
        self._operator_name = operator_name
        self._seen: dict[Hashable, tuple[Any, bytes, str]] = {}

    def see(self, entry_key: Hashable, value: Any, story: str) -> None:
        """Remember the current form of `value`.

        `story` states where it was seen, and what to do instead of changing it. Immutable values, which need no copy,
        are not watched: to compare each stored value after each step costs the square of their number.
        """
        self._seen.pop(entry_key, None)
        looks = None if independent_copy(value) is value else _pickled(value)
        if looks is not None:
            self._seen[entry_key] = (value, looks, story)

    def forget(self, entry_key: Hashable) -> None:
        """Drop a value whose entry key was cleared or overwritten."""
        self._seen.pop(entry_key, None)

    def forget_below(self, *prefix: Hashable) -> None:
        """Drop the values of all entry keys with this prefix, which were cleared or overwritten."""
        for entry_key in [p for p in self._seen if isinstance(p, tuple) and p[: len(prefix)] == prefix]:
            del self._seen[entry_key]

    def check(self) -> None:
        """Raise ChangedValueError for the first value that has changed."""
        for entry_key in list(self._seen):
            self.check_entry(entry_key)

    def check_entry(self, entry_key: Hashable) -> None:
        """Raise ChangedValueError if the value of this entry key has changed."""
        seen = self._seen.get(entry_key)
        if seen is None:
            return
        value, looks, story = seen
        if _pickled(value) != looks and not _equal(value, pickle.loads(looks)):
            del self._seen[entry_key]
            changed = story.replace("{before}", shortened(pickle.loads(looks))).replace("{after}", shortened(value))
            raise ChangedValueError(f"operator '{self._operator_name}' {changed}")


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        return None


def _equal(value: Any, before: Any) -> bool:
    try:
        return bool(value == before)
    except Exception:
        return False


class WatchedBackend(HashMapKeyedStateBackend):
    """Keyed state that detects values changed in place."""

    __slots__ = ("declared", "watch")

    def __init__(self, watch: Watch, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.watch = watch
        self.declared: dict[str, StateDescriptor] = {}

    def state(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """Return the state of `descriptor`, wrapped to watch the values read and written."""
        inner = super().state(descriptor, namespaced)
        self.declared.setdefault(descriptor.get_name(), descriptor)
        for interface, watched in _WATCHED.items():
            if isinstance(inner, interface):
                return watched(inner, self, descriptor.get_name(), namespaced)
        return inner

    def read(self, descriptor: StateDescriptor, key: Any, namespace: Any, namespaced: bool) -> Any:
        """Return the stored value of a key as plain Python: None, a value, a list or a dict."""
        before = self.key, self.namespace
        self.key, self.namespace = key, namespace
        try:
            state = super().state(descriptor, namespaced)
            if isinstance(state, ValueState):
                return state.value()
            if isinstance(state, MapState):
                return dict(state.items())
            return list(state.get()) if isinstance(state, ListState) else state.get()
        finally:
            self.key, self.namespace = before


class _Watched:
    def __init__(self, inner: Any, backend: WatchedBackend, name: str, namespaced: bool) -> None:
        self._inner = inner
        self._backend = backend
        self._name = name
        self._namespaced = namespaced

    def _place(self, *inside: Hashable) -> tuple[Hashable, ...]:
        backend = self._backend
        return ("state", self._name, backend.key, backend.namespace if self._namespaced else None, *inside)

    def _see(self, value: Any, *inside: Hashable) -> None:
        entry = "".join(f"[{part!r}]" for part in inside)
        of_window = f", window {self._backend.namespace!r}" if self._namespaced else ""
        where = f"the state '{self._name}'{entry} of key {self._backend.key!r}{of_window}"
        self._backend.watch.see(
            self._place(*inside),
            value,
            f"left {{before}} in {where}, and changed it in place to {{after}}: only update(), add(), put() and their "
            "like count as a change. Call one of them after it",
        )

    def _see_read(self, value: Any, *inside: Hashable) -> None:
        """Check before remembering: the function may have changed the value already."""
        self._backend.watch.check_entry(self._place(*inside))
        self._see(value, *inside)

    def _forget(self) -> None:
        self._backend.watch.forget_below(*self._place())

    def clear(self) -> None:
        self._inner.clear()
        self._forget()


class _WatchedValueState(_Watched, ValueState[Any]):
    def value(self) -> Any:
        value = self._inner.value()
        self._see_read(value)
        return value

    def update(self, value: Any) -> None:
        self._inner.update(value)
        self._see(value)


class _WatchedReducingState(_Watched, ReducingState[Any]):
    def get(self) -> Any:
        value = self._inner.get()
        self._see_read(value)
        return value

    def add(self, value: Any) -> None:
        # The reduce function may modify the stored value and return it.
        self._forget()
        self._inner.add(value)
        self._see(self._inner.get())


class _WatchedListState(_Watched, ListState[Any]):
    def get(self) -> Iterator[Any]:
        values = list(self._inner.get())
        for index, value in enumerate(values):
            self._see_read(value, index)
        return iter(values)

    def add(self, value: Any) -> None:
        self._inner.add(value)
        self._see(value, len(list(self._inner.get())) - 1)

    def update(self, values: Iterable[Any]) -> None:
        self._forget()
        self._inner.update(values)
        self.get()

    def add_all(self, values: Iterable[Any]) -> None:
        self._inner.add_all(values)
        self.get()


class _WatchedMapState(_Watched, MapState[Any, Any]):
    def get(self, key: Any) -> Any:
        value = self._inner.get(key)
        self._see_read(value, key)
        return value

    def put(self, key: Any, value: Any) -> None:
        self._inner.put(key, value)
        self._see(value, key)

    def put_all(self, dict_value: Any) -> None:
        entries = dict(dict_value)
        self._inner.put_all(entries)
        for key, value in entries.items():
            self._see(value, key)

    def remove(self, key: Any) -> None:
        self._inner.remove(key)
        self._backend.watch.forget(self._place(key))

    def contains(self, key: Any) -> bool:
        return bool(self._inner.contains(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        entries = list(self._inner.items())
        for key, value in entries:
            self._see_read(value, key)
        return iter(entries)

    def keys(self) -> Iterator[Any]:
        return iter(list(self._inner.keys()))

    def values(self) -> Iterator[Any]:
        return iter([value for _, value in self.items()])

    def is_empty(self) -> bool:
        return bool(self._inner.is_empty())


_WATCHED: dict[Any, type[_Watched]] = {
    ValueState: _WatchedValueState,
    ReducingState: _WatchedReducingState,
    ListState: _WatchedListState,
    MapState: _WatchedMapState,
}
