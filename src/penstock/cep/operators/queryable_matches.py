"""Partial matches as queryable state: a second table, in the form that users see, of patterns that have a name for it.

It is written with the first one, before a snapshot. Live queries also read the keys that changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.state.descriptors import WINDOW_PREFIX, ValueStateDescriptor
from penstock.cep.shown_matches import shown_matches

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.cep.operators.key_matching import KeyMatching
    from penstock.cep.partial_matches import PartialMatches
    from penstock.engine.state.backends.backend import KeyedStateBackend

STATE = "partial matches"


class QueryableMatches:
    """The table of an operator's partial matches. `matching_of`: returns the pattern of a namespace.

    `namespaced`: entry keys are (key, id of the rule). Raises ProgramError if the name is in use.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        name: str,
        matching_of: Callable[[Any], KeyMatching | None],
        matchings: Callable[[], Sequence[KeyMatching]],
        *,
        namespaced: bool,
    ) -> None:
        descriptor = ValueStateDescriptor(STATE)
        descriptor.set_queryable(name)
        backend.state(descriptor, namespaced=namespaced)
        self._table = backend.layered(_table_name(namespaced), namespaced)
        backend.newer_values[_table_name(namespaced)] = self
        self._matching_of = matching_of
        self._matchings = matchings
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
        for matching in self._matchings():
            live = matching.states.live
            for key in live if keys is None else [key for key in keys if key in live]:
                yield (key, matching.id) if self._namespaced else key

    def has(self, place: Any) -> bool:
        return self._live(place) is not None

    def get(self, place: Any) -> Any:
        matching, partial = self._matching(place), self._live(place)
        return None if not partial or matching is None else shown_matches(matching.automaton, partial)

    def _matching(self, place: Any) -> KeyMatching | None:
        return self._matching_of(place[1] if self._namespaced else None)

    def _live(self, place: Any) -> PartialMatches | None:
        matching = self._matching(place)
        return None if matching is None else matching.states.live.get(place[0] if self._namespaced else place)


def forget_queryable(backend: KeyedStateBackend) -> None:
    """Remove what a version of the program wrote that had a name for its partial matches: it would become old."""
    for namespaced in (False, True):
        if _table_name(namespaced) in backend.tables:
            table = backend.layered(_table_name(namespaced), namespaced)
            table.discard_all(list(table.keys()))


def _table_name(namespaced: bool) -> str:
    return f"{WINDOW_PREFIX}{STATE}" if namespaced else STATE
