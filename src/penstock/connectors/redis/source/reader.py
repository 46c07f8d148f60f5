"""Reads the streams of one subtask."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import END_OF_INPUT, EndOfInput, Nothing, ReaderContext, Records, SourceReader
from penstock.connectors.redis.source.deserialization import Deserializer
from penstock.connectors.redis.source.fetcher import Fetched, Fetcher
from penstock.connectors.redis.source.split import RedisStreamSplit


class RedisStreamReader(SourceReader[Any]):
    """Hands on what the fetcher's thread has received, stream by stream, and knows how far each was handed on.

    In batched mode streams are read one after the other: a task that runs again reads the same in the same order.
    """

    def __init__(
        self, context: ReaderContext, fetch: Callable[[], Fetcher], deserializer: Deserializer, group: str | None
    ) -> None:
        self._context = context
        self._fetch = fetch
        self._deserializer = deserializer
        self._group = group
        self._fetcher: Fetcher | None = None
        self._splits: dict[str, RedisStreamSplit] = {}
        self._unassigned: deque[RedisStreamSplit] = deque()
        """Batched mode: not read yet."""
        self._finished: deque[RedisStreamSplit] = deque()
        """Read to their ends, which is still to be told."""
        self._current: Fetched | None = None
        self._taken = 0
        """How many entries of the current ones were handed on."""
        self._no_more = False
        self._to_tell: dict[str, str] = {}
        """What was read since the group was told of positions, by stream."""
        self._prepared: deque[tuple[int, dict[str, str]]] = deque()

    def start(self) -> None:
        self._context.request_split()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        if self._finished:
            return Records(self._finished.popleft().split_id, [], split_finished=True)
        if self._current is None and self._fetcher is not None:
            self._current, self._taken = self._fetcher.take(), 0
        if self._current is not None:
            return self._hand_on(self._current, max_records)
        if not self._splits:
            if self._unassigned:
                self._read(self._unassigned.popleft())
                return self.poll(max_records)
            if self._no_more:
                return END_OF_INPUT
        return Nothing()

    def add_splits(self, splits: Sequence[RedisStreamSplit]) -> None:
        if self._context.batched:
            self._unassigned.extend(splits)
            return
        for split in splits:
            self._read(split)

    def no_more_splits(self) -> None:
        self._no_more = True

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._group is not None and self._to_tell:
            self._prepared.append((checkpoint_id, self._to_tell))
            self._to_tell = {}

    def snapshot_state(self) -> list[RedisStreamSplit]:
        return [*self._splits.values(), *self._unassigned]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        positions: dict[str, str] = {}
        while self._prepared and self._prepared[0][0] <= checkpoint_id:
            positions.update(self._prepared.popleft()[1])
        if positions and self._fetcher is not None and self._group is not None:
            self._fetcher.set_group_position(self._group, positions)

    def close(self) -> None:
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            fetcher.close()

    def _read(self, split: RedisStreamSplit) -> None:
        if split.is_finished:
            self._finished.append(split)
            return
        if self._fetcher is None:
            self._fetcher = self._fetch()
        self._splits[split.stream] = split
        self._fetcher.assign([split])

    def _hand_on(self, fetched: Fetched, max_records: int) -> Records:
        stream = fetched.stream
        entries = fetched.entries[self._taken : self._taken + max_records]
        self._taken += len(entries)
        if entries:
            position = entries[-1][0].decode()
            self._splits[stream] = self._splits[stream].behind(position)
            self._to_tell[stream] = position
        records, timestamps = self._deserializer.records_of(stream, entries)
        is_taken = self._taken >= len(fetched.entries)
        is_finished = is_taken and fetched.is_last
        if is_taken:
            self._current = None
        if is_finished:
            del self._splits[stream]
        return Records(stream, records, timestamps, is_finished)
