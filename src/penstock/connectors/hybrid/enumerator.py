"""The enumerator of a hybrid source: runs that of the current source, and switches when all readers have ended it.

A reader has one request under way at most. That it has read a source to its end it says by a request, too: the first
one after it was told that the source has no more splits for it. So that this request can't be taken for an earlier one
that is still on its way, the end is told only in answer to a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.api.source import EnumeratorContext, Source, SplitEnumerator
from penstock.connectors.hybrid.split import HybridSplit, HybridState

R = TypeVar("R")
SourceAt = Callable[[int, SplitEnumerator | None], tuple[Source[Any], bool]]
"""From an index and the enumerator of the source before: the source, and whether it was made just now."""
_LOOK_MS = 1_000
"""How often the job asks whether a switch has brought a source that discovers splits."""
_NOW = 0


class HybridEnumerator(SplitEnumerator):
    """Assigns the splits of one source after the other."""

    def __init__(
        self, context: EnumeratorContext, count: int, source_at: SourceAt, state: HybridState | None = None
    ) -> None:
        self._context = context
        self._count = count
        self._source_at = source_at
        self._asked: set[int] = set()
        """Subtasks whose request has not been answered."""
        self._ended: set[int] = set()
        """Subtasks for which the current source has no more splits."""
        self._told: set[int] = set()
        """Subtasks that know the current source."""
        self._finished: set[int] = set()
        """Subtasks that have read the whole source, and wait for the next one."""
        self._discover_at_ms: int | None = _NOW
        self._state_at_switch: HybridState | None = None
        """The state that is stored until the next source has started."""
        self._index = 0
        self._made: Source[Any] | None = None
        if state is None:
            source, _ = source_at(0, None)
            self._context_of_one = _ContextOfOne(self, context)
            self._current = source.create_enumerator(self._context_of_one)
        else:
            self._index, self._made = state.index, state.source
            source = state.source or source_at(state.index, None)[0]
            self._context_of_one = _ContextOfOne(self, context)
            self._current = source.restore_enumerator(self._context_of_one, state.state)

    def start(self) -> None:
        """Start the enumerator of the current source."""
        self._current.start()

    def handle_split_request(self, subtask: int) -> None:
        """Pass the request on, or note that the subtask has read the current source to its end."""
        if subtask in self._told:
            self._finished.add(subtask)
            if len(self._finished) == self._context.parallelism:
                self._switch()
            return
        self._asked.add(subtask)
        if subtask in self._ended:
            self._tell_end(subtask)
        elif self._state_at_switch is None:
            self._current.handle_split_request(subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Return them to the enumerator of the current source."""
        for held in (self._asked, self._ended, self._told, self._finished):
            held.discard(subtask)
        self._current.add_splits_back([split.split for split in splits if split.split is not None], subtask)

    def discover(self) -> int | None:
        """Have the current source look for splits when it is due. Returns when that, or a switch, is to be seen."""
        now_ms = self._context.now_ms()
        due_ms = self._discover_at_ms
        if self._state_at_switch is None and due_ms is not None and due_ms <= now_ms:
            due_ms = self._discover_at_ms = self._current.discover()
        if self._is_last and self._state_at_switch is None:
            return due_ms
        return now_ms + _LOOK_MS if due_ms is None else min(now_ms + _LOOK_MS, max(due_ms, now_ms + 1))

    def snapshot_state(self) -> HybridState:
        """Return the position in the chain, and the state of the current enumerator."""
        return self._state_at_switch or HybridState(self._index, self._made, self._current.snapshot_state())

    def close(self) -> None:
        """Close the current enumerator."""
        self._context_of_one.is_current = False
        self._current.close()

    def assign(self, split: Any, subtask: int) -> None:
        """Assign a split of the current source."""
        answers = subtask in self._asked
        self._asked.discard(subtask)
        self._context.assign_split(
            HybridSplit(index=self._index, split=split, source=self._made, answers=answers, subtask=subtask), subtask
        )

    def end(self, subtask: int) -> None:
        """Note that the current source has no more splits for this subtask."""
        if self._is_last:
            self._context.signal_no_more_splits(subtask)
            return
        self._ended.add(subtask)
        if subtask in self._asked:
            self._tell_end(subtask)

    @property
    def _is_last(self) -> bool:
        return self._index == self._count - 1

    def _tell_end(self, subtask: int) -> None:
        self._told.add(subtask)
        self.assign(None, subtask)

    def _switch(self) -> None:
        state, previous = self.snapshot_state(), self._current
        source, made = self._source_at(self._index + 1, previous)
        self.close()
        self._state_at_switch = state
        self._index += 1
        self._made = source if made else None
        self._discover_at_ms = _NOW
        self._asked = set(self._finished)
        for held in (self._ended, self._told, self._finished):
            held.clear()
        self._context_of_one = context = _ContextOfOne(self, self._context)
        self._current = source.create_enumerator(context)
        context.is_starting = True
        self._current.start()
        context.is_starting = False
        self.calls_ended()

    def calls_ended(self) -> None:
        """If all that the current source called in its `start` has ended: it serves the requests that wait for it."""
        if self._state_at_switch is None or self._context_of_one.is_starting or self._context_of_one.first_calls:
            return
        self._state_at_switch = None
        self.discover()
        for subtask in sorted(self._asked):
            self._current.handle_split_request(subtask)


class _ContextOfOne:
    """The EnumeratorContext of one source of the chain. What its calls bring after the switch is dropped."""

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
                self._owner.calls_ended()

        self._context.call_async(call, ended)
