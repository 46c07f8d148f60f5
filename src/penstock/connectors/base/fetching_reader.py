"""Base class of readers whose thread reads several splits side by side."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.api.source import END_OF_INPUT, EndOfInput, Nothing, ReaderContext, Records, SourceReader


class SideBySideFetcher(Protocol):
    """A SplitFetcher of any number of splits."""

    def assign(self, splits: Iterable[Any]) -> None:
        """Read these splits also, from their positions on."""

    def take(self) -> Any | None:
        """Return the next fetched records of one split, or None. Raise the error that ended the thread."""

    def close(self) -> None:
        """End the thread."""


F = TypeVar("F", bound=SideBySideFetcher)


class FetchingReader(SourceReader[Any], Generic[F]):
    """Emit the records that a thread has fetched, split by split, and track the position of each split.

    In batched mode splits are read one after the other: a task that runs again reads the same records in the same
    order.
    """

    def __init__(self, context: ReaderContext, *, reports_positions: bool) -> None:
        """`reports_positions`: call `report` with the positions of completed checkpoints."""
        self._context = context
        self._reports_positions = reports_positions
        self._splits: dict[Any, Any] = {}
        """By `key_of`: each split at the position up to which its records were emitted."""
        self._fetcher: F | None = None
        self._unassigned: deque[Any] = deque()
        """Batched mode: splits that wait for their turn."""
        self._finished: deque[Any] = deque()
        """Splits that are read to the end; the task does not know yet."""
        self._current: Any = None
        """Fetched records that are not all emitted."""
        self._no_more = False
        self._to_report: dict[Any, Any] = {}
        """Positions of emitted records since the last report, also of finished splits."""
        self._prepared: deque[tuple[int, dict[Any, Any]]] = deque()

    @abstractmethod
    def create_fetcher(self) -> F:
        """Begin to fetch. Called with the first split."""

    @abstractmethod
    def key_of(self, split: Any) -> Hashable:
        """Return what identifies the split at any position."""

    @abstractmethod
    def next_records(self, fetched: Any, max_records: int) -> Records | None:
        """Return the next fetched records, or None if the split needs them no longer.

        An implementation calls `advance` for records that it returns, `finish` at the end of a split, and
        `drop_fetched` after the last of the fetched records.
        """

    @abstractmethod
    def report(self, fetcher: F, positions: dict[Any, Any]) -> None:
        """Report positions of a completed checkpoint to the external system, without waiting."""

    def advance(self, split: Any, position: Any) -> None:
        """Record that the split was emitted up to its present position, which is reported as `position`."""
        key = self.key_of(split)
        self._splits[key] = split
        if self._reports_positions:
            self._to_report[key] = position

    def finish(self, split: Any) -> None:
        """Record that the split is read to its end."""
        del self._splits[self.key_of(split)]

    def drop_fetched(self) -> None:
        """Release the fetched records: all were emitted."""
        self._current = None

    def start(self) -> None:
        self._context.request_split()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        if self._finished:
            return Records(self._finished.popleft().split_id, [], split_finished=True)
        while self._fetcher is not None:
            if self._current is None:
                self._current = self._fetcher.take()
            if self._current is None:
                break
            records = self.next_records(self._current, max_records)
            if records is not None:
                return records
        if not self._splits:
            if self._unassigned:
                self._read(self._unassigned.popleft())
                return self.poll(max_records)
            if self._no_more:
                return END_OF_INPUT
        return Nothing()

    def add_splits(self, splits: Sequence[Any]) -> None:
        if self._context.batched:
            self._unassigned.extend(splits)
            return
        for split in splits:
            self._read(split)

    def no_more_splits(self) -> None:
        self._no_more = True

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._to_report:
            self._prepared.append((checkpoint_id, self._to_report))
            self._to_report = {}

    def snapshot_state(self) -> list[Any]:
        return [*self._splits.values(), *self._unassigned]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        positions: dict[Any, Any] = {}
        while self._prepared and self._prepared[0][0] <= checkpoint_id:
            positions.update(self._prepared.popleft()[1])
        if positions and self._fetcher is not None:
            self.report(self._fetcher, positions)

    def close(self) -> None:
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            fetcher.close()

    def _read(self, split: Any) -> None:
        if split.is_finished:
            self._finished.append(split)
            return
        if self._fetcher is None:
            self._fetcher = self.create_fetcher()
        self._splits[self.key_of(split)] = split
        self._fetcher.assign([split])
