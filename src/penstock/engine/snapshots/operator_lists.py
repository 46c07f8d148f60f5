"""Operator state of a snapshot: lists, union lists and broadcast state, merged over all subtasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.common.errors import StateNotFoundError
from penstock.engine.checkpoint.manifest import OperatorPart
from penstock.engine.checkpoint.storage import StateFiles
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.state.handles import ListInFile, Redistribution
from penstock.engine.state.snapshot.files import read_items

KIND_NAMES = {
    Redistribution.SPLIT: "a list state",
    Redistribution.UNION: "a union list state",
    Redistribution.BROADCAST: "broadcast state",
    Redistribution.IN_FLIGHT: "records in flight",
}


class OperatorList:
    """An operator state over all subtasks. Of broadcast state, which is identical in all, one copy is used."""

    def __init__(self, name: str, redistribution: Redistribution, parts: list[tuple[int, str, ListInFile]]) -> None:
        self.name = name
        self.redistribution = redistribution
        self._parts = parts[:1] if redistribution is Redistribution.BROADCAST else parts

    @property
    def items_count(self) -> int:
        """The number of items."""
        return sum(len(part.items) for _, _, part in self._parts)

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return sum(part.bytes for _, _, part in self._parts)

    def items(self, files: StateFiles, allow_missing_classes: bool) -> Iterator[Any]:
        """Yield all items; for broadcast state pairs (key, value)."""
        for _, path, part in self._parts:
            with classes_found(allow_missing_classes):
                items = read_items(files, path, part)
            yield from items

    def of_subtask(self, subtask: int) -> list[tuple[str, ListInFile]]:
        """Return the part of one subtask; broadcast state is complete in each."""
        whole = self.redistribution is Redistribution.BROADCAST
        return [(path, part) for owner, path, part in self._parts if whole or owner == subtask]


def lists_of(part: OperatorPart) -> dict[str, OperatorList]:
    """Return the operator states of an operator, by name."""
    found: dict[str, list[tuple[int, str, ListInFile]]] = {}
    for subtask in part.subtasks:
        lists = subtask.state.lists
        for list_ in lists.lists if lists is not None else []:
            found.setdefault(list_.name, []).append((subtask.subtask, lists.path, list_))  # type: ignore[union-attr]
    return {name: OperatorList(name, parts[0][2].redistribution, parts) for name, parts in found.items()}


def list_of(part: OperatorPart, name: str, required: Redistribution | None = None) -> OperatorList:
    """Return an operator state. Raises StateNotFoundError if there is none with this name and kind."""
    known = lists_of(part)
    found = known.get(name)
    if found is None or (required is not None and found.redistribution is not required):
        there = ", ".join(f"'{one.name}' ({KIND_NAMES[one.redistribution]})" for one in known.values())
        raise StateNotFoundError(
            f"operator '{part.state_id}' ({part.name}) has no "
            f"{'operator state' if required is None else required.value} '{name}'. It has {there or 'none'}"
        )
    return found
