"""Hands on what the fetcher's thread has received."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.api.source import Nothing, ReaderContext
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.http.events.event import EventsSplit, ServerSentEvent
from penstock.connectors.http.events.fetcher import EventFetcher, Fetched

Fetch = Callable[[EventsSplit, Callable[[], None]], EventFetcher]


class EventReader(SplitReader[ServerSentEvent]):
    """Reads the only split, in one of the subtasks."""

    def __init__(self, context: ReaderContext, fetch: Fetch) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: EventFetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0

    def read(self, split: EventsSplit, max_records: int) -> Chunk | Nothing:
        if self._fetcher is None:
            self._fetcher = self._fetch(split, self.context.notify_available)
        if self._current is None:
            self._current, self._taken = self._fetcher.take(), 0
        fetched = self._current
        if fetched is None:
            return Nothing()
        if fetched.is_last:
            return Chunk([], None)
        events = fetched.events[self._taken : self._taken + max_records]
        self._taken += len(events)
        if self._taken == len(fetched.events):
            self._current, last_id = None, fetched.last_id
        else:
            last_id = events[-1].id
        return Chunk(events, msgspec.structs.replace(split, last_id=last_id, retry_ms=fetched.retry_ms))

    def close(self) -> None:
        fetcher, self._fetcher, self._current = self._fetcher, None, None
        if fetcher is not None:
            fetcher.close()
