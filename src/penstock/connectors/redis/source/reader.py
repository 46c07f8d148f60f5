"""Reads the streams of one subtask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.source import ReaderContext, Records
from penstock.connectors.base.fetching_reader import FetchingReader
from penstock.connectors.redis.source.deserialization import Deserializer
from penstock.connectors.redis.source.fetcher import Fetched, Fetcher
from penstock.connectors.redis.source.split import RedisStreamSplit


class RedisStreamReader(FetchingReader[Fetcher]):
    """Hands on what the fetcher's thread has received, stream by stream."""

    def __init__(
        self, context: ReaderContext, fetch: Callable[[], Fetcher], deserializer: Deserializer, group: str | None
    ) -> None:
        super().__init__(context, reports_positions=group is not None)
        self._fetch = fetch
        self._deserializer = deserializer
        self._group = group
        self._taken = 0
        """How many entries of the current ones were handed on."""

    def create_fetcher(self) -> Fetcher:
        return self._fetch()

    def key_of(self, split: RedisStreamSplit) -> str:
        return split.stream

    def hand_on(self, fetched: Fetched, max_records: int) -> Records:
        split = self._splits[fetched.stream]
        entries = fetched.entries[self._taken : self._taken + max_records]
        self._taken += len(entries)
        is_taken = self._taken >= len(fetched.entries)
        records, timestamps = self._deserializer.records_of(fetched.stream, entries)
        if entries:
            position = entries[-1][0].decode()
            self.moved(split.behind(position), position)
        if is_taken:
            self._taken = 0
            self.take_next()
        if is_taken and fetched.is_last:
            self.finish(split)
        return Records(split.split_id, records, timestamps, is_taken and fetched.is_last)

    def report(self, fetcher: Fetcher, positions: dict[Any, Any]) -> None:
        assert self._group is not None
        fetcher.set_group_position(self._group, positions)
