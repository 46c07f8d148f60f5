"""The forms in which a layer or a snapshot holds a map or a list: the full content, or changes of older content.

    dict, list                 the full content of a place (a key, or a key and a namespace); it replaces older content
    MapChanges, ListChanges    entries that were put or removed, elements that were added
    None                       the place was cleared

So a change of one entry costs one entry in memory, in an increment and in a store, however large the map is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from penstock.common.stored import stored_as
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys

ABSENT: Any = object()
"""The result of a lookup that found no value, since a value may be None."""


class _Removed:
    """The value of a removed entry."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Any = _Removed()


def _present_and_removed(changes: MapChanges) -> tuple[Any, ...]:
    gone = [key for key, value in changes.items() if value is REMOVED]
    return ({key: value for key, value in changes.items() if value is not REMOVED} if gone else dict(changes)), gone


@stored_as("map-changes", fields=_present_and_removed)
class MapChanges(dict[Any, Any]):
    """Changed entries of a map. REMOVED is the value of a removed entry."""

    __slots__ = ()

    def __init__(self, entries: Iterable[Any] = (), removed: Iterable[Any] = ()) -> None:
        super().__init__(entries)
        for key in removed:
            self[key] = REMOVED


@stored_as("list-changes", fields=lambda changes: (list(changes),))
class ListChanges(list[Any]):
    """Elements that were added to a list."""

    __slots__ = ()


CHANGE_TYPES = frozenset({MapChanges, ListChanges})
CONTENT_TYPES = frozenset({dict, list})

COLLECTION_UNITS = frozenset({"entry", "element"})
"""Units (`TableInFile.unit`) of tables whose values are maps or lists, or changes of these."""


def with_change(before: Any, part: Any) -> Any:
    """Apply `part` and return the content of the place, or None if it is empty. May change `before` in place."""
    kind = type(part)
    if kind is MapChanges:
        content = {} if before is None else before
        content.update(part)
        for key in [key for key, value in part.items() if value is REMOVED]:
            del content[key]
        return content or None
    if kind is ListChanges:
        if before is None:
            return list(part) or None
        before.extend(part)
        return before
    return part


def merged_content(parts: list[Any]) -> Any:
    """Merge parts, oldest first, into a content; None if it is empty. Only the first may be a full content.

    The result is not a copy if there is a single part.
    """
    if not parts:
        return None
    first, *changes = parts
    kind = type(first)
    if not changes and kind not in CHANGE_TYPES:
        return first or None
    content = dict(first) if kind is dict else list(first) if kind is list else with_change(None, first)
    for change in changes:
        content = with_change(content, change)
    return content or None


def pieces_by_size(entry_keys: EntryKeys, values: Entries) -> Iterator[tuple[EntryKeys, Entries]]:
    """Yield entries of maps and lists in pieces of about PIECE_ENTRIES entries or elements; split large contents."""
    of_piece: list[Any] = []
    parts: list[Any] = []
    size = 0
    for entry_key, value in zip(entry_keys, values, strict=True):
        for part in _cut(value):
            of_piece.append(entry_key)
            parts.append(part)
            size += len(part) if part else 1
            if size >= PIECE_ENTRIES:
                yield of_piece, parts
                of_piece, parts, size = [], [], 0
    if of_piece:
        yield of_piece, parts


def _cut(part: Any) -> Iterable[Any]:
    """Split a large part: all pieces except the first are changes."""
    if part is None or len(part) <= PIECE_ENTRIES:
        return (part,)
    if isinstance(part, list):
        return _cut_list(part)
    return _cut_map(part)


def _cut_list(part: list[Any]) -> Iterator[Any]:
    yield part[:PIECE_ENTRIES] if type(part) is list else ListChanges(part[:PIECE_ENTRIES])
    for start in range(PIECE_ENTRIES, len(part), PIECE_ENTRIES):
        yield ListChanges(part[start : start + PIECE_ENTRIES])


def _cut_map(part: dict[Any, Any]) -> Iterator[Any]:
    rest = iter(part.items())
    first = islice(rest, PIECE_ENTRIES)
    yield dict(first) if type(part) is dict else MapChanges(first)
    while piece := list(islice(rest, PIECE_ENTRIES)):
        yield MapChanges(piece)


def in_pieces(entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[EntryKeys, Entries]]:
    """Yield entries, PIECE_ENTRIES at a time."""
    rest = iter(entries)
    while piece := list(islice(rest, PIECE_ENTRIES)):
        yield [entry_key for entry_key, _ in piece], [value for _, value in piece]


def elements_of(parts: Iterable[list[Any]]) -> Iterator[Any]:
    """Iterate over the current elements of parts of a list, without elements that are added later. Copies nothing."""
    return chain.from_iterable([islice(part, len(part)) for part in parts])
