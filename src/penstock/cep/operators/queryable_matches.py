"""Partial matches as queryable state: a second table, in the form that users see, of patterns that have a name for it.

It is written with the first one, before a snapshot. Live queries also read the keys that changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.api.state.descriptors import WINDOW_PREFIX, ValueStateDescriptor
from penstock.cep.shown_matches import shown_matches

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.cep.partial_matches import PartialMatches
    from penstock.engine.state.backends.backend import KeyedStateBackend

STATE = "partial matches"
Live: TypeAlias = "tuple[Automaton[Any], Mapping[Any, PartialMatches]]"


class QueryableMatches:
    """The table of an operator's partial matches.

    `live`: returns the automaton of a namespace and the keys that have changed since the last snapshot, None without
    such a pattern. `namespaces`: returns those of all patterns. `namespaced`: entry keys are (key, namespace). Raises
    ProgramError if the name is in use.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        name: str,
        *,
        live: Callable[[Any], Live | None],
        namespaces: Callable[[], Sequence[Any]],
        namespaced: bool,
    ) -> None:
        descriptor = ValueStateDescriptor(STATE)
        descriptor.set_queryable(name)
        backend.state(descriptor, namespaced=namespaced)
        self._table = backend.layered(_table_name(namespaced), namespaced)
        backend.newer_values[_table_name(namespaced)] = self
        self._live = live
        self._namespaces = namespaces
        self._namespaced = namespaced

    def is_empty(self) -> bool:
        """Return whether the table has no entries."""
        return not self._table

    # ---- before a snapshot

    def put(self, place: Any, automaton: Automaton[Any], partial: PartialMatches) -> None:
        """Write the partial matches of a key."""
        self._table.put(place, shown_matches(automaton, partial))

    def discard_all(self, places: Sequence[Any]) -> None:
        """Remove keys, which have no partial matches."""
        self._table.discard_all(places)

    # ---- live queries

    def places(self, keys: Sequence[Any] | None) -> Iterator[Any]:
        for namespace in self._namespaces():
            if (live := self._live(namespace)) is not None:
                for key in live[1] if keys is None else [key for key in keys if key in live[1]]:
                    yield (key, namespace) if self._namespaced else key

    def has(self, place: Any) -> bool:
        return self._found(place) is not None

    def get(self, place: Any) -> Any:
        found = self._found(place)
        return shown_matches(*found) if found is not None and found[1] else None

    def _found(self, place: Any) -> tuple[Automaton[Any], PartialMatches] | None:
        key, namespace = place if self._namespaced else (place, None)
        live = self._live(namespace)
        partial = None if live is None else live[1].get(key)
        return None if live is None or partial is None else (live[0], partial)


def forget_queryable(backend: KeyedStateBackend) -> None:
    """Remove what a version of the program wrote that had a name for its partial matches: it would become old."""
    for namespaced in (False, True):
        if _table_name(namespaced) in backend.tables:
            table = backend.layered(_table_name(namespaced), namespaced)
            table.discard_all(list(table.keys()))


def _table_name(namespaced: bool) -> str:
    return f"{WINDOW_PREFIX}{STATE}" if namespaced else STATE
