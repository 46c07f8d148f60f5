"""The rows of a table of arrays at one moment, while the table changes.

Nothing is copied when a table is frozen. A row is copied by the thread that writes the snapshot, or before that by the
task, which hands the row over when it is about to change it. So each row leaves once, and only rows that change in the
meantime take memory twice.

The two do not wait for each other. The task hands a row over, marks it as done, and then changes it. The writer copies
rows and looks at the marks afterwards: a row without a mark has not been changed when it was copied. A row may leave
twice if both copy it at the same moment, with the same value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy

from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.stored_columns import Piece
from penstock.engine.state.memory_budget import MemoryAccount

BLOCK_ROWS = 1 << 15
"""Rows that are looked at in one step, which takes less than a millisecond."""
_NO_GROUP = numpy.iinfo(numpy.uint16).max
Copied = tuple[Any, Piece]
"""The key groups of entries, and these; None in place of groups that are not known."""


class Rows(Protocol):
    """The table whose rows are frozen."""

    @property
    def row_bytes(self) -> int:
        """About the size of a copied entry, in bytes."""

    def rows_at(self, slots: Integers, start: int | None) -> list[tuple[Integers, Piece]]:
        """Return copies of the entries at these slots: those that exist, and those that are removed, with the slots."""

    def keys_at(self, slots: Integers) -> Integers | list[Any]:
        """Return the keys of these slots."""

    def release_rows(self, rows: FrozenRows) -> None:
        """Forget rows that are no longer read."""


class FrozenRows:
    """The first `used` rows of a table, or those of them that are `wanted`: then rows that are removed are among them.

    `start`: of its slice of time (ms), if it is one. `memory`: of the rows that the task copies.
    """

    def __init__(
        self,
        table: Rows,
        used: int,
        wanted: Mask | None,
        start: int | None = None,
        *,
        memory: MemoryAccount | None = None,
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._start = start
        self._full = wanted is None
        self._done: Mask = numpy.zeros(used, numpy.bool_)
        self._handed_over: deque[tuple[Integers, Piece]] = deque()
        self._memory = memory
        self._copied_bytes = 0
        self._groups: Any = None
        self.keeps = False
        """Whether rows may be taken several times. Then each is copied before it is changed, taken or not."""

    def __len__(self) -> int:
        return len(self._done)

    @property
    def wanted(self) -> int:
        """The number of rows that leave."""
        return len(self) if self._wanted is None else int(numpy.count_nonzero(self._wanted[: len(self)]))

    def hand_over(self, slots: Integers) -> None:
        """Copy rows that have not left yet. Called by the task before it changes them.

        Raises MemoryBudgetError, with nothing copied, if the slot has no memory for them.
        """
        inside = slots[slots < len(self._done)]
        if self._wanted is not None:
            inside = inside[self._wanted[inside]]
        waiting = inside[~self._done[inside]]
        if len(waiting):
            rows = numpy.unique(waiting)
            self._reserve(len(rows) * self._table.row_bytes)
            self._handed_over.extend(self._pieces_at(rows))
            self._done[rows] = True

    def release(self) -> None:
        """End the snapshot. Called in the task's thread."""
        self._table.release_rows(self)
        self._handed_over.clear()
        if self._memory is not None:
            # Not before: the thread that writes must not change accounts.
            self._memory.release(self._copied_bytes)
            self._copied_bytes = 0

    def _reserve(self, copied_bytes: int) -> None:
        if self._memory is not None:
            self._memory.reserve(copied_bytes)
            self._copied_bytes += copied_bytes

    def steps(self) -> range:
        """Return the beginnings of the blocks of rows."""
        return range(0, len(self._done), BLOCK_ROWS)

    def find_groups(self, block: int, groups_of: Callable[[Integers | list[Any]], Any]) -> None:
        """Note the key groups of a block's rows, to find those of a few groups quickly."""
        if self._groups is None:
            self._groups = numpy.full(len(self._done), _NO_GROUP, numpy.uint16)
        slots = self._waiting_in(block)
        if len(slots):
            self._groups[slots] = groups_of(self._table.keys_at(slots))

    def take_block(self, block: int, groups: range | None = None) -> Iterator[Copied]:
        """Yield the rows of a block that have not left yet; `groups`: only those of these key groups."""
        slots = self._waiting_in(block)
        if groups is not None:
            of_rows = self._groups[slots]
            slots = slots[(of_rows >= groups.start) & (of_rows < groups.stop)]
        if not len(slots):
            return
        found = self._pieces_at(slots)
        unchanged = ~self._done[slots]
        if not unchanged.all():
            # The task has handed some over while they were copied.
            slots = slots[unchanged]
            found = self._pieces_at(slots) if len(slots) else []
            if self._done[slots].any():
                yield from self._one_by_one(slots)
                return
        if not self.keeps:
            self._done[slots] = True
        yield from map(self._with_groups, found)

    def take_handed_over(self) -> list[Copied]:
        """Return what the task has handed over since the last call."""
        found = []
        while self._handed_over:
            found.append(self._with_groups(self._handed_over.popleft()))
        return found

    def _with_groups(self, copied: tuple[Integers, Piece]) -> Copied:
        slots, piece = copied
        groups = None if self._groups is None else self._groups[slots]
        # Of rows that were handed over before, the groups are not known.
        return None if groups is None or (groups == _NO_GROUP).any() else groups, piece

    def _one_by_one(self, slots: Integers) -> Iterator[Copied]:
        """Yield rows that change all the time: each is copied, and kept if it was not changed until then."""
        for slot in slots.tolist():
            one = numpy.array([slot])
            found = self._pieces_at(one)
            if not self._done[slot]:
                if not self.keeps:
                    self._done[slot] = True
                yield from map(self._with_groups, found)

    def _waiting_in(self, block: int) -> Integers:
        stop = min(block + BLOCK_ROWS, len(self._done))
        waiting = ~self._done[block:stop]
        if self._wanted is not None:
            waiting &= self._wanted[block:stop]
        slots: Integers = numpy.flatnonzero(waiting) + block
        return slots

    def _pieces_at(self, slots: Integers) -> list[tuple[Integers, Piece]]:
        found = self._table.rows_at(slots, self._start)
        return [one for one in found if one[1].values.columns is not None] if self._full else found
