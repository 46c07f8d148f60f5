"""Readers whose splits are fetched side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.api.source import END_OF_INPUT, Nothing, Records
from penstock.connectors.base.fetching_reader import FetchingReader


class Numbers(msgspec.Struct, frozen=True):
    """Numbers from `position` on, before `stop`."""

    split_id: str
    position: int
    stop: int

    @property
    def is_finished(self) -> bool:
        return self.position >= self.stop


class Fetched(msgspec.Struct, frozen=True):
    split_id: str
    first: int
    last: int


class Fetcher:
    """Fetch three numbers of each split at a time, on request."""

    def __init__(self) -> None:
        self.assigned: list[Numbers] = []
        self.fetched: deque[Fetched] = deque()
        self.is_closed = False

    def assign(self, splits: Iterable[Numbers]) -> None:
        self.assigned += splits

    def fetch(self) -> None:
        for index, split in enumerate(self.assigned):
            if not split.is_finished:
                upto = min(split.position + 3, split.stop)
                self.fetched.append(Fetched(split.split_id, split.position, upto))
                self.assigned[index] = Numbers(split.split_id, upto, split.stop)

    def take(self) -> Fetched | None:
        return self.fetched.popleft() if self.fetched else None

    def close(self) -> None:
        self.is_closed = True


class Context:
    subtask = 0
    parallelism = 1
    checkpointing = True
    requests = 0
    metric_group: Any = None

    def __init__(self, batched: bool) -> None:
        self.batched = batched

    def now_ms(self) -> int:
        return 0

    def request_split(self) -> None:
        self.requests += 1

    def notify_available(self) -> None: ...


class Reader(FetchingReader[Fetcher]):
    def __init__(self, *, batched: bool = False, reports_positions: bool = True) -> None:
        self.context = Context(batched)
        super().__init__(self.context, reports_positions=reports_positions)
        self.fetcher = Fetcher()
        self.reported: list[dict[str, int]] = []

    def create_fetcher(self) -> Fetcher:
        return self.fetcher

    def key_of(self, split: Numbers) -> str:
        return split.split_id

    def next_records(self, fetched: Fetched, max_records: int) -> Records | None:
        self.drop_fetched()
        if fetched.split_id == "stale":
            return None
        (split,) = [one for one in self.snapshot_state() if one.split_id == fetched.split_id]
        moved = Numbers(split.split_id, fetched.last, split.stop)
        self.advance(moved, fetched.last)
        if moved.is_finished:
            self.finish(moved)
        return Records(split.split_id, list(range(fetched.first, fetched.last)), None, moved.is_finished)

    def report(self, fetcher: Fetcher, positions: dict[str, int]) -> None:
        self.reported.append(positions)


def test_splits_are_read_side_by_side() -> None:
    """A split would starve the others, or emitted records be read again after a restart."""
    reader = Reader()
    reader.start()
    assert reader.context.requests == 1 and isinstance(reader.poll(10), Nothing)
    reader.add_splits([Numbers("a", 0, 5), Numbers("b", 7, 9), Numbers("c", 4, 4)])
    assert reader.poll(10) == Records("c", [], None, True)
    assert isinstance(reader.poll(10), Nothing)

    reader.fetcher.fetch()
    reader.fetcher.fetched.appendleft(Fetched("stale", 0, 1))
    assert [reader.poll(10), reader.poll(10)] == [Records("a", [0, 1, 2]), Records("b", [7, 8], None, True)]
    assert reader.snapshot_state() == [Numbers("a", 3, 5)]
    reader.no_more_splits()
    assert isinstance(reader.poll(10), Nothing), "one is not read to its end"
    reader.fetcher.fetch()
    assert [reader.poll(10), reader.poll(10)] == [Records("a", [3, 4], None, True), END_OF_INPUT]
    reader.close()
    assert reader.fetcher.is_closed and reader.snapshot_state() == []


def test_in_batched_mode_splits_are_read_one_after_the_other() -> None:
    """A task that runs again would read records in another order."""
    reader = Reader(batched=True)
    reader.add_splits([Numbers("a", 0, 2), Numbers("b", 0, 1)])
    assert isinstance(reader.poll(10), Nothing) and [one.split_id for one in reader.fetcher.assigned] == ["a"]
    assert reader.snapshot_state() == [Numbers("a", 0, 2), Numbers("b", 0, 1)]
    reader.fetcher.fetch()
    reader.poll(10)
    assert isinstance(reader.poll(10), Nothing) and [one.split_id for one in reader.fetcher.assigned] == ["a", "b"]


def test_positions_are_reported_when_their_checkpoint_is_complete() -> None:
    """Others would see a job that is farther than what it restores."""
    reader, silent = Reader(), Reader(reports_positions=False)
    for one in (reader, silent):
        one.add_splits([Numbers("a", 0, 9)])
        for checkpoint_id in (1, 2, 3):
            one.fetcher.fetch()
            one.poll(10)
            one.prepare_snapshot(checkpoint_id)
        one.notify_checkpoint_complete(2)
        one.notify_checkpoint_complete(3)
        one.notify_checkpoint_complete(4)

    assert reader.reported == [{"a": 6}, {"a": 9}] and not silent.reported
