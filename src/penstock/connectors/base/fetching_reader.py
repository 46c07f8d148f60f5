"""Base class of readers whose splits are read side by side by a thread of the reader's own."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.api.source import END_OF_INPUT, EndOfInput, Nothing, ReaderContext, Records, SourceReader


class SideBySideFetcher(Protocol):
    """A SplitFetcher of any number of splits."""

    def assign(self, splits: Iterable[Any]) -> None:
        """Read these too, from their positions on."""

    def take(self) -> Any | None:
        """Return the next fetched records of one split, or None. Raise the error that ended the thread."""

    def close(self) -> None:
        """End the thread."""


F = TypeVar("F", bound=SideBySideFetcher)


class FetchingReader(SourceReader[Any], Generic[F]):
    """Hands on what a thread has fetched, split by split, and knows how far each was handed on.

    In batched mode splits are read one after the other: a task that runs again reads the same in the same order.
    """

    def __init__(self, context: ReaderContext, *, reports_positions: bool) -> None:
        """`reports_positions`: `report` is called with those of completed checkpoints."""
        self._context = context
        self._reports_positions = reports_positions
        self._splits: dict[Any, Any] = {}
        """Return the splits by `key_of`, each at the position up to which its records were emitted."""
        self._fetcher: F | None = None
        self._unassigned: deque[Any] = deque()
        """Batched mode: not read yet."""
        self._finished: deque[Any] = deque()
        """Read to their ends, which is still to be told."""
        self._current: Any = None
        """Fetched records that are not all emitted."""
        self._no_more = False
        self._to_report: dict[Any, Any] = {}
        """Positions of records that were emitted since the last report, also of finished splits."""
        self._prepared: deque[tuple[int, dict[Any, Any]]] = deque()

    @abstractmethod
    def create_fetcher(self) -> F:
        """Begin to fetch. Called with the first split."""

    @abstractmethod
    def key_of(self, split: Any) -> Hashable:
        """What tells one split from the others, whatever its position."""

    @abstractmethod
    def hand_on(self, fetched: Any, max_records: int) -> Records | None:
        """The next records of what was fetched; None: it does not count any more.

        Calls `moved` for what it hands on, `finish` at the end of a split, and `take_next` when nothing is left of it.
        """

    @abstractmethod
    def report(self, fetcher: F, positions: dict[Any, Any]) -> None:
        """Tell others of positions that a completed checkpoint has. Must not wait."""

    def moved(self, split: Any, position: Any) -> None:
        """The split was handed on up to its present position, which others are told of as `position`."""
        key = self.key_of(split)
        self._splits[key] = split
        if self._reports_positions:
            self._to_report[key] = position

    def finish(self, split: Any) -> None:
        """The split is read to its end."""
        del self._splits[self.key_of(split)]

    def take_next(self) -> None:
        """Nothing is left of what was fetched."""
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
            records = self.hand_on(self._current, max_records)
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
