"""Enumerators for sources whose splits are known, or found one by one: who gets which split, and when.

`FixedSplitEnumerator`   split k belongs to subtask k mod parallelism: for ranges cut to measure
`SharedSplitEnumerator`  whoever asks gets the next one, in order: for splits of unequal size or still to come
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.api.source import EnumeratorContext, SplitEnumerator


class FixedSplitEnumerator(SplitEnumerator):
    """Hands out numbered splits, each to the subtask that its `index` names. Splits need `index: int`."""

    def __init__(self, context: EnumeratorContext, splits: Iterable[Any]) -> None:
        self._context = context
        self._pending = {split.split_id: split for split in splits}

    def handle_split_request(self, subtask: int) -> None:
        """Assign the lowest-numbered split that belongs to `subtask`, or say that there are no more."""
        mine = [s for s in self._pending.values() if s.index % self._context.parallelism == subtask]
        if not mine:
            self._context.signal_no_more_splits(subtask)
            return
        split = min(mine, key=lambda s: s.index)
        del self._pending[split.split_id]
        self._context.assign_split(split, subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Keep them until `subtask` asks again."""
        self._pending.update((split.split_id, split) for split in splits)

    def snapshot_state(self) -> list[Any]:
        """The splits not yet assigned."""
        return list(self._pending.values())


class SharedSplitEnumerator(SplitEnumerator):
    """Hands out splits in order to whoever asks; a request that can't be answered yet is remembered.

    Readers ask ahead, and tasks start at different times. So that the first task does not take two of two splits, each
    subtask of a fresh job has one split reserved until it has asked for the first time.
    """

    def __init__(self, context: EnumeratorContext, *, more_to_come: bool, restored: bool = False) -> None:
        """`more_to_come`: splits may still be added, so nobody is told that there are no more."""
        self._context = context
        self._more_to_come = more_to_come
        self._pending: deque[Any] = deque()
        self._waiting: dict[int, None] = {}
        self._newcomers: set[int] = set() if restored else set(range(context.parallelism))

    def handle_split_request(self, subtask: int) -> None:
        """Assign the next split, or note that `subtask` waits for one."""
        self._waiting.setdefault(subtask)
        self._serve()

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Put them first in line. A request of the failed reader is forgotten: its successor asks for itself."""
        self._waiting.pop(subtask, None)
        self._pending.extendleft(reversed(splits))
        self._serve()

    def add_splits(self, splits: Iterable[Any]) -> None:
        """New splits, handed out after those already here."""
        self._pending.extend(splits)
        self._serve()

    def pending(self) -> list[Any]:
        """The splits not yet assigned, in order."""
        return list(self._pending)

    def _serve(self) -> None:
        # Newcomers first: each takes the one split that was kept for it, so the others may then have what is left.
        for subtask in [*filter(self._newcomers.__contains__, self._waiting), *self._waiting]:
            if subtask not in self._waiting:
                continue
            reserved = 0 if subtask in self._newcomers else len(self._newcomers)
            if len(self._pending) > reserved:
                self._answered(subtask)
                self._context.assign_split(self._pending.popleft(), subtask)
            elif not self._pending and not self._more_to_come:
                self._answered(subtask)
                self._context.signal_no_more_splits(subtask)

    def _answered(self, subtask: int) -> None:
        self._newcomers.discard(subtask)
        del self._waiting[subtask]
