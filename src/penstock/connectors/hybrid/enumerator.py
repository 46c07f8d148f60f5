"""The enumerator of a hybrid source: runs that of the current source, and switches when all readers have finished it.

A reader has at most one open request. It also reports the end of a source by a request: its first one after it learned
that the source has no more splits for it. The end is signaled only in answer to a request, so that this request cannot
be confused with an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.api.source import EnumeratorContext, Source, SplitEnumerator
from penstock.connectors.hybrid.split import HybridSplit, HybridState

R = TypeVar("R")
SourceAt = Callable[[int, SplitEnumerator | None], tuple[Source[Any], bool]]
"""Maps an index and the enumerator of the previous source to the source, and whether it was created now."""
_CHECK_MS = 1_000
"""How often the job checks whether a switch has started a source that discovers splits."""
_NOW = 0


class HybridEnumerator(SplitEnumerator):
    """Assign the splits of one source after the other."""

    def __init__(
        self, context: EnumeratorContext, count: int, source_at: SourceAt, state: HybridState | None = None
    ) -> None:
        self._context = context
        self._count = count
        self._source_at = source_at
        self._requesting: set[int] = set()
        """Subtasks with an open request."""
        self._ended: set[int] = set()
        """Subtasks for which the current source has no more splits."""
        self._notified: set[int] = set()
        """Subtasks that received the end of the current source."""
        self._finished: set[int] = set()
        """Subtasks that have finished the current source, and wait for the next one."""
        self._discover_at_ms: int | None = _NOW
        self._state_at_switch: HybridState | None = None
        """The state to store until the next source has started."""
        self._index = 0
        self._created: Source[Any] | None = None
        if state is None:
            source, _ = source_at(0, None)
            self._source_context = _SourceContext(self, context)
            self._current = source.create_enumerator(self._source_context)
        else:
            self._index, self._created = state.index, state.source
            source = state.source or source_at(state.index, None)[0]
            self._source_context = _SourceContext(self, context)
            self._current = source.restore_enumerator(self._source_context, state.state)

    def start(self) -> None:
        """Start the enumerator of the current source."""
        self._current.start()

    def handle_split_request(self, subtask: int) -> None:
        """Forward the request, or record that the subtask has finished the current source."""
        if subtask in self._notified:
            self._finished.add(subtask)
            if len(self._finished) == self._context.parallelism:
                self._switch()
            return
        self._requesting.add(subtask)
        if subtask in self._ended:
            self._notify_end(subtask)
        elif self._state_at_switch is None:
            self._current.handle_split_request(subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Return the splits to the enumerator of the current source."""
        for subtasks in (self._requesting, self._ended, self._notified, self._finished):
            subtasks.discard(subtask)
        self._current.add_splits_back([split.split for split in splits if split.split is not None], subtask)

    def discover(self) -> int | None:
        """Let the current source discover splits when that is due. Return when to call this again."""
        now_ms = self._context.now_ms()
        due_ms = self._discover_at_ms
        if self._state_at_switch is None and due_ms is not None and due_ms <= now_ms:
            due_ms = self._discover_at_ms = self._current.discover()
        if self._is_last and self._state_at_switch is None:
            return due_ms
        return now_ms + _CHECK_MS if due_ms is None else min(now_ms + _CHECK_MS, max(due_ms, now_ms + 1))

    def snapshot_state(self) -> HybridState:
        """Return the position in the chain, and the state of the current enumerator."""
        return self._state_at_switch or HybridState(self._index, self._created, self._current.snapshot_state())

    def close(self) -> None:
        """Close the current enumerator."""
        self._source_context.is_current = False
        self._current.close()

    def assign(self, split: Any, subtask: int) -> None:
        """Assign a split of the current source."""
        answers = subtask in self._requesting
        self._requesting.discard(subtask)
        self._context.assign_split(
            HybridSplit(index=self._index, split=split, source=self._created, answers=answers, subtask=subtask), subtask
        )

    def end(self, subtask: int) -> None:
        """Record that the current source has no more splits for this subtask."""
        if self._is_last:
            self._context.signal_no_more_splits(subtask)
            return
        self._ended.add(subtask)
        if subtask in self._requesting:
            self._notify_end(subtask)

    @property
    def _is_last(self) -> bool:
        return self._index == self._count - 1

    def _notify_end(self, subtask: int) -> None:
        self._notified.add(subtask)
        self.assign(None, subtask)

    def _switch(self) -> None:
        state, previous = self.snapshot_state(), self._current
        source, is_created = self._source_at(self._index + 1, previous)
        self.close()
        self._state_at_switch = state
        self._index += 1
        self._created = source if is_created else None
        self._discover_at_ms = _NOW
        self._requesting = set(self._finished)
        for subtasks in (self._ended, self._notified, self._finished):
            subtasks.clear()
        self._source_context = context = _SourceContext(self, self._context)
        self._current = source.create_enumerator(context)
        context.is_starting = True
        self._current.start()
        context.is_starting = False
        self.on_calls_ended()

    def on_calls_ended(self) -> None:
        """Serve waiting requests, once all calls that the current source made in its `start` have ended."""
        if self._state_at_switch is None or self._source_context.is_starting or self._source_context.first_calls:
            return
        self._state_at_switch = None
        self.discover()
        for subtask in sorted(self._requesting):
            self._current.handle_split_request(subtask)


class _SourceContext:
    """The EnumeratorContext of one source. After a switch, results of its calls are dropped."""

    def __init__(self, owner: HybridEnumerator, context: EnumeratorContext) -> None:
        self._owner = owner
        self._context = context
        self.is_current = True
        self.is_starting = False
        self.first_calls = 0
        """Calls made by `start` that have not ended."""

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    def now_ms(self) -> int:
        return self._context.now_ms()

    def assign_split(self, split: Any, subtask: int) -> None:
        self._owner.assign(split, subtask)

    def signal_no_more_splits(self, subtask: int) -> None:
        self._owner.end(subtask)

    def call_async(self, call: Callable[[], R], handler: Callable[[R | None, Exception | None], None]) -> None:
        first = self.is_starting
        self.first_calls += first

        def ended(value: R | None, error: Exception | None) -> None:
            if not self.is_current:
                return
            handler(value, error)
            if first:
                self.first_calls -= 1
                self._owner.on_calls_ended()

        self._context.call_async(call, ended)
