"""Split enumerators: which split is assigned to which subtask, and when.

FixedSplitEnumerator    split k belongs to subtask k mod parallelism: for ranges created per subtask
SharedSplitEnumerator   the next split goes to the next subtask that requests one: for splits of unequal size, or
                        splits that are still being discovered
OwnedSplitEnumerator    a split goes to its owner as soon as the owner has sent its first request: for splits that
                        are read side by side
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.api.source import EnumeratorContext, SplitEnumerator


class FixedSplitEnumerator(SplitEnumerator):
    """Assign numbered splits, each to the subtask given by its `index`. Splits need an attribute `index: int`."""

    def __init__(self, context: EnumeratorContext, splits: Iterable[Any]) -> None:
        self._context = context
        self._pending = {split.split_id: split for split in splits}

    def handle_split_request(self, subtask: int) -> None:
        """Assign the lowest-numbered split of `subtask`, or signal that there are no further splits."""
        owned = [s for s in self._pending.values() if s.index % self._context.parallelism == subtask]
        if not owned:
            self._context.signal_no_more_splits(subtask)
            return
        split = min(owned, key=lambda s: s.index)
        del self._pending[split.split_id]
        self._context.assign_split(split, subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Retain the splits until `subtask` requests one again."""
        self._pending.update((split.split_id, split) for split in splits)

    def snapshot_state(self) -> list[Any]:
        """Return the splits not yet assigned."""
        return list(self._pending.values())


class SharedSplitEnumerator(SplitEnumerator):
    """Assign splits in order, one per request; keep a request that cannot be answered yet.

    Readers request ahead, and tasks start at different times. To keep the first task from taking all of the few splits,
    each subtask of a new job has one split reserved until its first request.
    """

    def __init__(self, context: EnumeratorContext, *, more_to_come: bool, restored: bool = False) -> None:
        """`more_to_come`: splits may still be added, so `no more splits` is never signaled."""
        self._context = context
        self._more_to_come = more_to_come
        self._pending: deque[Any] = deque()
        self._waiting: dict[int, None] = {}
        self._reserved_for: set[int] = set() if restored else set(range(context.parallelism))

    def handle_split_request(self, subtask: int) -> None:
        """Assign the next split, or keep the request of `subtask` until there is one."""
        self._waiting.setdefault(subtask)
        self._serve()

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Put the splits first in the queue, and drop a request of the failed reader: its successor sends its own."""
        self._waiting.pop(subtask, None)
        self._pending.extendleft(reversed(splits))
        self._serve()

    def add_splits(self, splits: Iterable[Any]) -> None:
        """Append new splits to the queue."""
        self._pending.extend(splits)
        self._serve()

    def pending(self) -> list[Any]:
        """Return the splits not yet assigned, in order."""
        return list(self._pending)

    def _serve(self) -> None:
        # Subtasks with a reserved split come first: once they are served, the others may take what remains.
        for subtask in [*filter(self._reserved_for.__contains__, self._waiting), *self._waiting]:
            if subtask not in self._waiting:
                continue
            reserved = 0 if subtask in self._reserved_for else len(self._reserved_for)
            if len(self._pending) > reserved:
                self._remove_request(subtask)
                self._context.assign_split(self._pending.popleft(), subtask)
            elif not self._pending and not self._more_to_come:
                self._remove_request(subtask)
                self._context.signal_no_more_splits(subtask)

    def _remove_request(self, subtask: int) -> None:
        self._reserved_for.discard(subtask)
        del self._waiting[subtask]


class OwnedSplitEnumerator(SplitEnumerator):
    """Assign each split to the subtask that `owner_of` names. Subclasses add splits, and implement the snapshot."""

    def __init__(self, context: EnumeratorContext, pending: Iterable[Any]) -> None:
        self._context = context
        self._pending = list(pending)
        self._readers: set[int] = set()

    @abstractmethod
    def owner_of(self, split: Any) -> int:
        """Return the subtask that reads a split: always the same one at the same parallelism."""

    @abstractmethod
    def more_to_come(self) -> bool:
        """Return whether splits may still be added."""

    def handle_split_request(self, subtask: int) -> None:
        """Assign the splits of this subtask; splits that are added later follow without another request."""
        self._readers.add(subtask)
        self.add_splits(())
        if not self.more_to_come():
            self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Keep the splits until the subtask requests splits again."""
        self._readers.discard(subtask)
        self._pending.extend(splits)

    def add_splits(self, splits: Iterable[Any]) -> None:
        """Assign these splits and the waiting ones to owners that have sent a request."""
        waiting, self._pending = [*self._pending, *splits], []
        for split in waiting:
            subtask = self.owner_of(split)
            if subtask in self._readers:
                self._context.assign_split(split, subtask)
            else:
                self._pending.append(split)

    def pending(self) -> list[Any]:
        """Return the splits not yet assigned."""
        return list(self._pending)

    def signal_no_more_splits(self) -> None:
        """Notify all subtasks with a request that no further split will be added."""
        for subtask in self._readers:
            self._context.signal_no_more_splits(subtask)


class DividingEnumerator(SharedSplitEnumerator):
    """Compute the splits on the server at the start; any subtask gets the next one. `divide` waits for the server."""

    def __init__(
        self,
        context: EnumeratorContext,
        divide: Callable[[], Sequence[Any]],
        pending: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(context, more_to_come=False, restored=pending is not None)
        self._calls = context.call_async
        self._divide = divide
        self._is_divided = pending is not None
        self.add_splits(pending or ())

    def start(self) -> None:
        if not self._is_divided:
            self._calls(self._divide, self._divided)

    def snapshot_state(self) -> list[Any] | None:
        # None: the splits are not computed yet.
        return self.pending() if self._is_divided else None

    def _divided(self, splits: Sequence[Any] | None, error: Exception | None) -> None:
        if splits is None:
            assert error is not None
            raise error
        self._is_divided = True
        self.add_splits(splits)
