"""The reader of a hybrid source: runs the reader of the current source, and creates the next one at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.api.metrics import MetricGroup
from penstock.api.source import (
    END_OF_INPUT,
    EndOfInput,
    Nothing,
    ReaderContext,
    Records,
    Source,
    SourceReader,
)
from penstock.connectors.hybrid.split import HybridSplit

T = TypeVar("T")


class HybridReader(SourceReader[T]):
    """Read the splits of one source after the other. The first split shows which source is current."""

    def __init__(self, context: ReaderContext, sources: Sequence[Source[T] | None]) -> None:
        """`sources`: those of the chain, None for a source that a factory creates."""
        self._context = context
        self._sources = sources
        self._index = -1
        self._source: Source[T] | None = None
        """The current source, if a factory created it."""
        self._current: SourceReader[T] | None = None
        self._later: deque[HybridSplit] = deque()
        """Splits of later sources, and ends of sources."""
        self._started = False
        self._has_requested = False
        self._requests_itself = False
        """Whether the current reader requests splits itself."""
        self._no_more = False

    def start(self) -> None:
        """Start the reader of the restored splits, or request the current source."""
        self._started = True
        if self._current is None:
            self._continue()
        else:
            self._current.start()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        """Read from the current source, and continue with the next one at its end."""
        while self._current is not None:
            step = self._current.poll(max_records)
            if isinstance(step, Records):
                return Records(f"{self._index}-{step.split_id}", step.values, step.timestamps, step.split_finished)
            if isinstance(step, Nothing):
                if step.retry_at_ms is None or not self._requests_itself:
                    # A reader that does not request splits learns its end from the answer.
                    self._request()
                return step
            self._release()
            self._continue()
        return END_OF_INPUT if self._no_more else Nothing()

    def add_splits(self, splits: Sequence[HybridSplit]) -> None:
        """Pass splits of the current source to its reader, and store those of later sources."""
        if any(split.answers for split in splits):
            self._has_requested = False
        self._later.extend(splits)
        self._distribute()

    def no_more_splits(self) -> None:
        """End after the last source."""
        self._no_more = True
        self._has_requested = False
        self._distribute()

    def interleaves(self, split: HybridSplit) -> bool:
        """Return the answer of the current source's reader."""
        if split.split is None or split.index != self._index or self._current is None:
            return False
        return self._current.interleaves(split.split)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Notify the current reader."""
        if self._current is not None:
            self._current.prepare_snapshot(checkpoint_id)

    def snapshot_state(self) -> list[HybridSplit]:
        """Return the splits to read. The enumerator signals ends again after a restart."""
        splits = [] if self._current is None else self._current.snapshot_state()
        current = [HybridSplit(self._index, split, self._source) for split in splits]
        return current + [
            HybridSplit(later.index, later.split, later.source) for later in self._later if later.split is not None
        ]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the current reader."""
        if self._current is not None:
            self._current.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the current reader."""
        if self._current is not None:
            self._current.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the current reader."""
        self._release()

    def _continue(self) -> None:
        """Start with the waiting splits, or request one: there is no current reader."""
        self._distribute()
        if self._current is None and not self._no_more:
            self._request()

    def _distribute(self) -> None:
        """Pass waiting splits to the current reader; create one if there is none."""
        while self._later:
            split = self._later[0]
            if split.split is None:
                if self._current is None:
                    self._later.popleft()
                    if self._started:
                        self._request()
                    continue
                if split.index == self._index:
                    self._later.popleft()
                    self._current.no_more_splits()
                return
            if self._current is None:
                self._create(split)
            elif split.index != self._index:
                return
            else:
                self._later.popleft()
                self._current.add_splits([split.split])
        if self._no_more and self._current is not None:
            self._current.no_more_splits()

    def _create(self, first: HybridSplit) -> None:
        source = first.source or self._sources[first.index]
        assert source is not None, "splits contain the source that a factory created"
        self._index, self._source = first.index, first.source
        self._requests_itself = False
        current: list[Any] = []
        later: deque[HybridSplit] = deque()
        for split in self._later:
            if split.split is not None and split.index == first.index:
                current.append(split.split)
            else:
                later.append(split)
        self._later = later
        self._current = source.create_reader(_CurrentReaderContext(self._context, self._request_for_current))
        self._current.add_splits(current)
        if self._started:
            self._current.start()

    def _request(self) -> None:
        if not self._has_requested and not self._no_more:
            self._has_requested = True
            self._context.request_split()

    def _request_for_current(self) -> None:
        self._requests_itself = True
        self._request()

    def _release(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()


class _CurrentReaderContext:
    """The ReaderContext of the reader of one source."""

    def __init__(self, context: ReaderContext, request: Callable[[], None]) -> None:
        self._context = context
        self.request_split = request

    @property
    def subtask(self) -> int:
        return self._context.subtask

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def checkpointing(self) -> bool:
        return self._context.checkpointing

    @property
    def batched(self) -> bool:
        return self._context.batched

    @property
    def metric_group(self) -> MetricGroup:
        return self._context.metric_group

    def now_ms(self) -> int:
        return self._context.now_ms()

    def notify_available(self) -> None:
        self._context.notify_available()
