"""Splits of the micro-batches in which Spark computes a streaming DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.api.source import EnumeratorContext
from penstock.common.stored import stored_as
from penstock.connectors.base.split_enumerator import SharedSplitEnumerator
from penstock.hosts.spark.frames.batch_files import BatchFile
from penstock.hosts.spark.frames.frame_query import FrameQuery


@stored_as("frame-batches")
class FrameBatchesState(msgspec.Struct, frozen=True):
    """The folder of the batches, the first batch that no split is of, and the splits not yet assigned."""

    folder: str
    next_batch: int
    pending: list[BatchFile]


class StreamingFrameEnumerator(SharedSplitEnumerator):
    """Starts the query, and assigns the files of its batches in their order."""

    def __init__(self, context: EnumeratorContext, query: FrameQuery, state: FrameBatchesState | None = None) -> None:
        super().__init__(context, more_to_come=True, restored=state is not None)
        self._query = query
        self._next_batch = 0
        if state is not None:
            self._next_batch = state.next_batch
            self.add_splits(state.pending)
            query.read_until(self._first_unread)

    def start(self) -> None:
        """Start the query, on another thread. Raises SourceError from there if the frame can't be computed."""
        next_batch, unread = self._next_batch, [file.path for file in self.pending()]
        self._context.call_async(lambda: self._query.start(next_batch, unread), self._started)

    def handle_split_request(self, subtask: int) -> None:
        """Assign the next file, and let the query go on if it waits for that."""
        super().handle_split_request(subtask)
        self._query.read_until(self._first_unread)

    def add_splits_back(self, splits: Sequence[BatchFile], subtask: int) -> None:
        """Put files first in the queue."""
        super().add_splits_back(splits, subtask)
        self._query.read_until(self._first_unread)

    def snapshot_state(self) -> FrameBatchesState:
        """Return what is needed to go on with the batches that readers do not have yet."""
        return FrameBatchesState(self._query.folder, self._next_batch, self.pending())

    def close(self) -> None:
        """Stop the query."""
        self._query.stop()

    @property
    def _first_unread(self) -> int:
        return min((file.batch for file in self.pending()), default=self._next_batch)

    def _started(self, _: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._wait_for_next()

    def _wait_for_next(self) -> None:
        batch = self._next_batch
        self._context.call_async(lambda: self._query.files_of(batch), self._arrived)

    def _arrived(self, files: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if files is None:
            return
        self._next_batch += 1
        self.add_splits(BatchFile(path, self._next_batch - 1) for path in files)
        self._query.read_until(self._first_unread)
        self._wait_for_next()
