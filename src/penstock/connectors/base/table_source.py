"""Read a table of a database by ranges of a column: the common part of all such sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source, SplitEnumerator
from penstock.common.types import Row
from penstock.common.types.type_variables import RowRecord
from penstock.connectors.base.key_range import KeyRange, splits_of
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.retries import retried
from penstock.connectors.base.split_enumerator import DividingEnumerator
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.base.split_reader import Chunk, SplitReader


def record_maker(kind: Callable[..., Any], names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """Return a function from a row's values to a record: a Row with these names, a tuple, a dict, or a `kind`."""
    if kind is Row:
        named = Row(*names)
        return lambda values: named(*values)
    if kind is tuple:
        return tuple
    if kind is dict:
        return lambda values: dict(zip(names, values, strict=True))
    return lambda values: kind(*values)


def inexact(column: str, table: str, kind: str, remedy: str = "") -> str:
    """Return the message for a column whose values a database compares to others than those that it returns."""
    return (
        f"the column '{column}' of {table} is {kind}, whose values cannot be compared exactly: rows would be missing "
        f"after a restart. Choose another column{remedy}"
    )


_RANGES_PER_SUBTASK = 4
"""More than one, so that a subtask with sparse ranges can take ranges of the others."""
_BATCHES_MAX = 3
"""Batches that wait for the reader, at most."""


class Fetched(msgspec.Struct):
    """Records, or a batch of their columns, and the value of the column for each (a list, or OrderedValues).

    `is_key_read`: there are no records, and all rows up to the only key were read. `is_last`: the range is read.
    """

    records: Any
    keys: Sequence[Any]
    is_key_read: bool = False
    is_last: bool = False

    def behind(self, split: KeyRange) -> KeyRange:
        """Return the position after these records."""
        if self.is_key_read:
            return KeyRange(split.index, self.keys[0], split.stop, None)
        return split.after(self.keys)


class TableSession(ABC):
    """A connection that reads ranges of a table. Only one thread uses it."""

    @abstractmethod
    def read(self, part: KeyRange) -> Generator[Fetched, None, None]:
        """Yield the rows of a range from its position on, in batches. Connect first. Raise a JobError."""

    def interrupt(self) -> None:
        """Interrupt a wait for the server. Called by another thread."""

    @abstractmethod
    def close(self, batches: Generator[Fetched, None, None] | None) -> None:
        """Close the connection, if there is one, and the query that yields these batches. Raise nothing."""


DatabaseT = TypeVar("DatabaseT")


class TableDialect(ABC, Generic[DatabaseT]):
    """A table of a database, and how that database reads it.

    `database`: its text has no secrets. `column`: the column whose ranges are read. `columns`: those of the records,
    None: all. `condition`: SQL that selects rows. `record_class`: makes a record of the values of a row.
    """

    def __init__(
        self,
        *,
        database: DatabaseT,
        name: str,
        column: str,
        columns: tuple[str, ...] | None,
        condition: str | None,
        record_class: Callable[..., Any],
    ) -> None:
        self.database = database
        self.name = name
        self.column = column
        self.columns = columns
        self.condition = condition
        self.record_class = record_class

    def __str__(self) -> str:
        return f"{self.name} by {self.column}, {self.database}"

    @abstractmethod
    def check(self) -> None:
        """Raise a JobError if the table cannot be read by this column."""

    @abstractmethod
    def bounds(self) -> Sequence[Any]:
        """Return the first and the last value of the column, and whether rows have NULL. Raise a JobError."""

    @abstractmethod
    def session(self, fetch_size: int) -> TableSession:
        """Return a session that fetches `fetch_size` rows per round trip. It connects when it reads."""


class TableFetcher(SplitFetcher[Fetched]):
    """Fetch one range. After a lost connection, reconnect and continue after the last batch."""

    def __init__(self, session: TableSession, part: KeyRange, max_retries: int, notify: Callable[[], None]) -> None:
        super().__init__("penstock-table", _BATCHES_MAX, notify, max_retries)
        self._session = session
        self._part = part
        self._batches: Generator[Fetched, None, None] | None = None
        """The batches of the running query."""
        self._is_read = False

    def fetch(self) -> None:
        if self._is_read:
            self.wait_for_room()
            return
        if self._batches is None:
            self._batches = self._session.read(self._part)
        fetched = next(self._batches, None)
        if fetched is None:
            self._batches = None
            self.range_ended()
            return
        self._part = fetched.behind(self._part)
        self.handover.put(fetched)

    def range_ended(self) -> None:
        """Called after the last batch."""
        self._is_read = True
        self.handover.put(Fetched([], [], is_last=True))

    def interrupt(self) -> None:
        self._session.interrupt()

    def disconnect(self) -> None:
        batches, self._batches = self._batches, None
        self._session.close(batches)


class TableReader(SplitReader[Any]):
    """Read the ranges of one subtask, one after the other."""

    def __init__(self, context: ReaderContext, fetch: Callable[[KeyRange, Callable[[], None]], TableFetcher]) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: TableFetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0

    def read(self, split: KeyRange, max_records: int) -> Chunk | Nothing:
        if self._fetcher is None:
            self._fetcher = self._fetch(split, self.context.notify_available)
            self._fetcher.start()
        if self._current is None:
            self._current = self._fetcher.take()
            self._taken = 0
        fetched = self._current
        if fetched is None:
            return Nothing()
        if fetched.is_last:
            self.close()
            return Chunk([], None)
        if fetched.is_key_read:
            self._current = None
            return Chunk([], fetched.behind(split))
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


ROW: Any = Row
"""The default `record_class`. Any, because a default must fit whatever type a program chooses."""


class TableSource(Source[RowRecord]):
    """Read a table once, by ranges of a column. Subtasks read ranges side by side."""

    def __init__(
        self, dialect: TableDialect[Any], *, partition_count: int | None, fetch_size: int, max_retries: int
    ) -> None:
        self._dialect = dialect
        self._partition_count = (
            None if partition_count is None else checked_at_least("partition_count", partition_count, 1)
        )
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        self._max_retries = checked_at_least("max_retries", max_retries, 0)

    def describe(self) -> str:
        return str(self._dialect)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def validate(self) -> None:
        """Raise a JobError if the table cannot be read."""
        self._dialect.check()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create an enumerator, which queries the bounds of the column when it starts."""
        return DividingEnumerator(context, lambda: self.divide(context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[KeyRange] | None) -> SplitEnumerator:
        """Create an enumerator with the ranges that were not assigned."""
        return DividingEnumerator(context, lambda: self.divide(context.parallelism), state)

    def create_reader(self, context: ReaderContext) -> TableReader:
        """Create the reader of one subtask."""
        return TableReader(context, self.fetcher)

    def divide(self, parallelism: int) -> list[KeyRange]:
        """Return the ranges of the table."""
        bounds = retried(self._dialect.bounds, self._max_retries)
        column = f"the column '{self._dialect.column}' of {self._dialect.name}"
        return splits_of(column, bounds, self._partition_count or parallelism * _RANGES_PER_SUBTASK)

    def fetcher(self, part: KeyRange, notify: Callable[[], None]) -> TableFetcher:
        """Return a fetcher of a range, which the caller starts."""
        return TableFetcher(self._dialect.session(self._fetch_size), part, self._max_retries, notify)


def checked_record_class(record_class: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that makes a record of a row's values. Raise TypeError if it is not callable."""
    if not callable(record_class):
        raise TypeError(f"record_class must be a class or a function of a row's values, got {record_class!r}")
    return record_class
