"""What an asynchronous operator holds: records whose calls are in flight, and watermarks and statuses between them.

Source: Flink docs, "Asynchronous I/O", Order of Results and Event Time. A record is held until its results are emitted.
Watermarks and statuses overtake no record, and no record overtakes them, in either order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

Mark = Callable[[], bool]
"""Emits a watermark or a status. False: stop for now."""


class Entry:
    """A record whose call is in flight, or whose results wait to be emitted."""

    __slots__ = ("attempts", "call_id", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.attempts = 1
        self.call_id = 0
        self.results: list[Any] | None = None
        """None: they have not come yet."""
        self.segment: Segment | None = None


class EntryQueue(Protocol):
    """`len` is the number of records held. `ready`: whether results, or a mark, may be emitted now."""

    @property
    def ready(self) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Entry]:
        """All records held, in their order."""

    def put(self, entry: Entry) -> None:
        """Hold a record."""

    def put_mark(self, mark: Mark) -> None:
        """Hold a mark, behind all records held now."""

    def completed(self, entry: Entry) -> None:
        """The results of a record have come."""

    def first(self) -> Entry | None:
        """The next record whose results may be emitted; None: there is none, or a mark comes first."""

    def take(self) -> Entry:
        """Give `first` away."""

    def take_mark(self) -> Mark | None:
        """The mark that comes next; None: there is none, or a record comes first."""


class OrderedQueue:
    """Results are emitted in the order of their records."""

    def __init__(self) -> None:
        self._items: deque[Entry | Mark] = deque()
        self._count = 0

    @property
    def ready(self) -> bool:
        if not self._items:
            return False
        first = self._items[0]
        return not isinstance(first, Entry) or first.results is not None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        return (item for item in self._items if isinstance(item, Entry))

    def put(self, entry: Entry) -> None:
        self._items.append(entry)
        self._count += 1

    def put_mark(self, mark: Mark) -> None:
        self._items.append(mark)

    def completed(self, entry: Entry) -> None:
        pass

    def first(self) -> Entry | None:
        first = self._items[0] if self._items else None
        return first if isinstance(first, Entry) and first.results is not None else None

    def take(self) -> Entry:
        first = self._items.popleft()
        assert isinstance(first, Entry)
        self._count -= 1
        return first

    def take_mark(self) -> Mark | None:
        first = self._items[0] if self._items else None
        if first is None or isinstance(first, Entry):
            return None
        self._items.popleft()
        return first


class Segment:
    """Records between two marks: their results are emitted as they come."""

    __slots__ = ("done", "held", "marks")

    def __init__(self) -> None:
        self.held: dict[Entry, None] = {}
        self.done: deque[Entry] = deque()
        self.marks: deque[Mark] = deque()
        """What follows the records."""


class UnorderedQueue:
    """Results are emitted as they come, but overtake no mark."""

    def __init__(self) -> None:
        self._segments = deque([Segment()])
        self._count = 0

    @property
    def ready(self) -> bool:
        first = self._segments[0]
        return bool(first.done) or (not first.held and bool(first.marks))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        return (entry for segment in self._segments for entry in segment.held)

    def put(self, entry: Entry) -> None:
        last = self._segments[-1]
        if last.marks:
            last = Segment()
            self._segments.append(last)
        last.held[entry] = None
        entry.segment = last
        self._count += 1

    def put_mark(self, mark: Mark) -> None:
        self._segments[-1].marks.append(mark)

    def completed(self, entry: Entry) -> None:
        assert entry.segment is not None
        entry.segment.done.append(entry)

    def first(self) -> Entry | None:
        done = self._segments[0].done
        return done[0] if done else None

    def take(self) -> Entry:
        first = self._segments[0]
        entry = first.done.popleft()
        del first.held[entry]
        self._count -= 1
        return entry

    def take_mark(self) -> Mark | None:
        first = self._segments[0]
        if first.held or not first.marks:
            return None
        mark = first.marks.popleft()
        if not first.marks and len(self._segments) > 1:
            self._segments.popleft()
        return mark
