"""Records of a source that cannot be asked again: they wait until a checkpoint holds them.

    add, add, add      mark n            complete n: what was added before the mark may be taken
    ───────────────────┼──────────────▶

What has not been taken is in the log, and so in the next snapshot; what has been taken had its effect on the state that
the same snapshot holds. Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows", 2015.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice


class WriteAheadLog:
    """In order. Begins with `records`, which a checkpoint holds already."""

    def __init__(self, records: Iterable[str] = ()) -> None:
        self._records = deque(records)
        self.characters = sum(map(len, self._records))
        """Of all records in the log."""
        self._added = len(self._records)
        self._taken = 0
        self._released = self._added
        self._marks: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: list[str]) -> None:
        """They have come in."""
        self._records.extend(records)
        self._added += len(records)
        self.characters += sum(map(len, records))

    def release(self) -> None:
        """All that is here may be taken."""
        self._released = self._added

    def mark(self, checkpoint_id: int) -> None:
        """The snapshot of this checkpoint holds what is here now."""
        self._marks.append((checkpoint_id, self._added))

    def complete(self, checkpoint_id: int) -> None:
        """What was here at the mark of this checkpoint may be taken."""
        while self._marks and self._marks[0][0] <= checkpoint_id:
            self._released = self._marks.popleft()[1]

    def take(self, records_max: int) -> list[str]:
        """The next records that may be taken; they leave the log."""
        count = min(records_max, self._released - self._taken)
        records = list(islice(self._records, count))
        for _ in records:
            self._records.popleft()
        self._taken += count
        self.characters -= sum(map(len, records))
        return records

    def content(self) -> tuple[str, ...]:
        """All that is here."""
        return tuple(self._records)
