"""What a layer, or a snapshot, holds of a map or a list: all of it, or what has changed on top of what is older.

    dict, list                 the whole content of a place (a key, or a key and a namespace); what is older is replaced
    MapChanges, ListChanges    entries that were put or removed, elements that were added
    None                       the place was cleared

So a change of one entry costs one entry, however large its map is, in memory, in an increment and in a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from penstock.common.stored import stored_as
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys

ABSENT: Any = object()
"""In place of a value, which may be None: there is none."""


class _Gone:
    """The value of an entry that was removed."""

    def __repr__(self) -> str:
        return "GONE"


GONE: Any = _Gone()


def _present_and_gone(changes: MapChanges) -> tuple[Any, ...]:
    gone = [key for key, value in changes.items() if value is GONE]
    return ({key: value for key, value in changes.items() if value is not GONE} if gone else dict(changes)), gone


@stored_as("map-changes", fields=_present_and_gone)
class MapChanges(dict[Any, Any]):
    """Entries of a map that have changed; GONE is the value of one that was removed."""

    __slots__ = ()

    def __init__(self, entries: Iterable[Any] = (), removed: Iterable[Any] = ()) -> None:
        super().__init__(entries)
        for key in removed:
            self[key] = GONE


@stored_as("list-changes", fields=lambda changes: (list(changes),))
class ListChanges(list[Any]):
    """Elements that were added to a list."""

    __slots__ = ()


CHANGES = frozenset({MapChanges, ListChanges})
WHOLES = frozenset({dict, list})

COLLECTION_UNITS = frozenset({"entry", "element"})
"""Of tables (`TableInFile.unit`) whose values are collections, or changes of them: maps, lists."""


def with_change(before: Any, part: Any) -> Any:
    """The content of a place once `part` is applied; None: nothing is left. `before` may be changed in place."""
    kind = type(part)
    if kind is MapChanges:
        content = {} if before is None else before
        content.update(part)
        for key in [key for key, value in part.items() if value is GONE]:
            del content[key]
        return content or None
    if kind is ListChanges:
        if before is None:
            return list(part) or None
        before.extend(part)
        return before
    return part


def whole_of(parts: list[Any]) -> Any:
    """The content that parts, oldest first, amount to; None: there is none. Only the first may be a whole content.

    It is not a copy if one part is all of it.
    """
    if not parts:
        return None
    first, *changes = parts
    kind = type(first)
    if not changes and kind not in CHANGES:
        return first or None
    content = dict(first) if kind is dict else list(first) if kind is list else with_change(None, first)
    for change in changes:
        content = with_change(content, change)
    return content or None


def pieces_by_size(entry_keys: EntryKeys, values: Entries) -> Iterator[tuple[EntryKeys, Entries]]:
    """Entries of maps and lists in pieces of about PIECE_ENTRIES entries or elements; large contents are cut."""
    of_piece: EntryKeys = []
    parts: Entries = []
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
    """A part, as several if it is large: all but the first are changes."""
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
    """Entries, PIECE_ENTRIES at a time."""
    rest = iter(entries)
    while piece := list(islice(rest, PIECE_ENTRIES)):
        yield [entry_key for entry_key, _ in piece], [value for _, value in piece]


def elements_of(parts: Iterable[list[Any]]) -> Iterator[Any]:
    """The elements of parts of a list as they are now: none that is added later. Nothing is copied."""
    return chain.from_iterable([islice(part, len(part)) for part in parts])
