"""Reads the splits of one subtask, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.source import Nothing, ReaderContext
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.postgres.source.fetcher import Fetched, Fetcher
from penstock.connectors.postgres.source.split import PostgresSplit


class PostgresReader(SplitReader[Any]):
    """Hands on what a thread has fetched, and knows the position behind it."""

    def __init__(self, context: ReaderContext, fetch: Callable[[PostgresSplit, Callable[[], None]], Fetcher]) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: Fetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0

    def read(self, split: PostgresSplit, max_records: int) -> Chunk | Nothing:
        if self._fetcher is None:
            self._fetcher = self._fetch(split, self.context.notify_available)
        if self._current is None:
            self._current = self._fetcher.take()
            self._taken = 0
        fetched = self._current
        if fetched is None:
            return Nothing()
        if fetched.is_last:
            self.close()
            return Chunk([], None)
        if fetched.is_whole:
            self._current = None
            return Chunk([], PostgresSplit(split.index, fetched.keys[0], split.stop, None))
        upto = self._taken + max_records
        records, keys = fetched.records[self._taken : upto], fetched.keys[self._taken : upto]
        self._taken = upto
        if upto >= len(fetched.records):
            self._current = None
        return Chunk(records, split.after(keys))

    def close(self) -> None:
        fetcher, self._fetcher, self._current = self._fetcher, None, None
        if fetcher is not None:
            fetcher.close()
