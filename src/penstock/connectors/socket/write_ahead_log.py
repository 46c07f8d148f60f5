"""A log for sources that can't replay: records are emitted only once a checkpoint contains them.

    add, add, add      mark n            complete n: records added before the mark may be taken
    ───────────────────┼──────────────▶

Records not yet taken are part of the log, and so of the next snapshot; records already taken are reflected in the
state of that same snapshot. Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows",
2015.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice


class WriteAheadLog:
    """An ordered log. The initial `records` come from a checkpoint, so they may be taken at once."""

    def __init__(self, records: Iterable[str] = ()) -> None:
        self._records = deque(records)
        self.characters = sum(map(len, self._records))
        """Number of characters in the log."""
        self._added = len(self._records)
        self._taken = 0
        self._released = self._added
        self._marks: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: list[str]) -> None:
        """Append received records."""
        self._records.extend(records)
        self._added += len(records)
        self.characters += sum(map(len, records))

    def release(self) -> None:
        """Allow all records to be taken."""
        self._released = self._added

    def mark(self, checkpoint_id: int) -> None:
        """Note that the snapshot of this checkpoint contains the current records."""
        self._marks.append((checkpoint_id, self._added))

    def complete(self, checkpoint_id: int) -> None:
        """Allow the records before the mark of this checkpoint to be taken."""
        while self._marks and self._marks[0][0] <= checkpoint_id:
            self._released = self._marks.popleft()[1]

    def take(self, records_max: int) -> list[str]:
        """Remove and return up to `records_max` records that may be taken."""
        count = min(records_max, self._released - self._taken)
        records = list(islice(self._records, count))
        for _ in records:
            self._records.popleft()
        self._taken += count
        self.characters -= sum(map(len, records))
        return records

    def content(self) -> tuple[str, ...]:
        """Return all records in the log."""
        return tuple(self._records)
