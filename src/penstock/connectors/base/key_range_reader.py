"""Reads the key ranges of one subtask, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.api.source import Nothing, ReaderContext
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.base.split_reader import Chunk, SplitReader


class Fetched(msgspec.Struct):
    """Records, the value of the column for each, and whether the rows of the last value are all there."""

    records: list[Any]
    keys: list[Any]
    is_whole: bool = False
    is_last: bool = False


Fetcher = SplitFetcher[Fetched]


class KeyRangeReader(SplitReader[Any]):
    """Hands on what a thread has fetched, and knows the position behind it."""

    def __init__(self, context: ReaderContext, fetch: Callable[[KeyRange, Callable[[], None]], Fetcher]) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: Fetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0

    def read(self, split: KeyRange, max_records: int) -> Chunk | Nothing:
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
            return Chunk([], KeyRange(split.index, fetched.keys[0], split.stop, None))
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
