"""Hands on what the fetcher's thread has received, and knows the position behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.api.source import Nothing, ReaderContext
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.postgres.changes.fetcher import Fetcher
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.changes.table_rows import Fetched


class PostgresChangeReader(SplitReader[Any]):
    """Reads the only split, in one of the subtasks. A position is confirmed when a checkpoint with it is complete."""

    def __init__(self, context: ReaderContext, fetch: Callable[[ChangesSplit, Callable[[], None]], Fetcher]) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: Fetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0
        self._lsn = 0
        """Where the split is."""
        self._prepared: deque[tuple[int, int]] = deque()
        """Checkpoints that are not complete, and the position in each."""
        context.metric_group.gauge("pendingBytes", self._pending_bytes)

    def read(self, split: ChangesSplit, max_records: int) -> Chunk | Nothing:
        if self._fetcher is None:
            self._fetcher = self._fetch(split, self.context.notify_available)
        if self._current is None:
            self._current, self._taken = self._fetcher.take(), 0
        fetched = self._current
        if fetched is None:
            return Nothing()
        upto = min(self._taken + max_records, len(fetched.changes))
        changes = fetched.changes[self._taken : upto]
        self._taken = upto
        if upto == len(fetched.changes):
            self._current = None
        position = fetched.position_behind(upto)
        self._lsn = position.lsn
        if not self.context.checkpointing:
            # There is nothing to come back to.
            self._fetcher.confirm(position.lsn)
        return Chunk(changes, position, [change.time_ms for change in changes])

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._prepared.append((checkpoint_id, self._lsn))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        lsn = 0
        while self._prepared and self._prepared[0][0] <= checkpoint_id:
            _, lsn = self._prepared.popleft()
        if lsn and self._fetcher is not None:
            self._fetcher.confirm(lsn)

    def close(self) -> None:
        fetcher, self._fetcher, self._current = self._fetcher, None, None
        if fetcher is not None:
            fetcher.close()

    def _pending_bytes(self) -> int:
        # The thread of heartbeats asks, while the reader goes on.
        fetcher = self._fetcher
        return fetcher.pending_bytes(self._lsn) if fetcher is not None and self._lsn else 0
