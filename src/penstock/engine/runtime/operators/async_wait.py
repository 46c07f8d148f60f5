"""Asynchronous functions: many calls in flight, with results in order or as they arrive.

Source: Flink docs, "Asynchronous I/O", and Flink's AsyncWaitOperator. The calls run on an event loop of the host
(`task/async_calls.py`); this operator enforces capacity, time limits, retries and order.

While it holds `capacity` records, the operator waits: it is paused, but not busy. Each snapshot contains the held
records as they arrived, and a restore makes their calls again.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from penstock.api.functions.asynchronous import AsyncRetryStrategy
from penstock.common.functions.user_calls import RAISED
from penstock.common.time import returned_milliseconds
from penstock.common.values.copies import independent_copy
from penstock.engine.runtime.chunks import Rows, Timestamps, Values
from penstock.engine.runtime.operators.stateless import FunctionOperator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction


Mark = Callable[[], bool]
"""Emits a watermark or a status. False: stop for now."""


class Entry:
    """A record whose call is in flight, or whose results wait to be emitted."""

    __slots__ = ("attempts", "call_id", "group", "results", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.attempts = 1
        self.call_id = 0
        self.results: list[Any] | None = None
        """The results; None until they arrive."""
        self.group: EntryGroup | None = None


class EntryQueue(Protocol):
    """The records whose calls are in flight, and the marks between them. `len` is the number of records.

    A record is held until its results are emitted. Marks (watermarks and statuses) and records never overtake each
    other. `ready`: whether results or a mark may be emitted now. Source: Flink docs, "Asynchronous I/O", Order of
    Results and Event Time.
    """

    @property
    def ready(self) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all records held, in their order."""

    def put(self, entry: Entry) -> None:
        """Hold a record."""

    def put_mark(self, mark: Mark) -> None:
        """Hold a mark, behind all current records."""

    def completed(self, entry: Entry) -> None:
        """Note that the results of a record have arrived."""

    def first(self) -> Entry | None:
        """Return the next record whose results may be emitted; None if there is none, or a mark comes first."""

    def pop(self) -> Entry:
        """Remove and return `first`."""

    def pop_mark(self) -> Mark | None:
        """Remove and return the next mark; None if there is none, or a record comes first."""


class OrderedQueue:
    """Emits results in the order of their records."""

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

    def pop(self) -> Entry:
        first = self._items.popleft()
        assert isinstance(first, Entry)
        self._count -= 1
        return first

    def pop_mark(self) -> Mark | None:
        first = self._items[0] if self._items else None
        if first is None or isinstance(first, Entry):
            return None
        self._items.popleft()
        return first


class EntryGroup:
    """Records between two marks: their results are emitted as they arrive."""

    __slots__ = ("done", "held", "marks")

    def __init__(self) -> None:
        self.held: dict[Entry, None] = {}
        self.done: deque[Entry] = deque()
        self.marks: deque[Mark] = deque()
        """The marks after the records."""


class UnorderedQueue:
    """Emits results as they arrive, but never past a mark."""

    def __init__(self) -> None:
        self._groups = deque([EntryGroup()])
        self._count = 0

    @property
    def ready(self) -> bool:
        first = self._groups[0]
        return bool(first.done) or (not first.held and bool(first.marks))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        return (entry for group in self._groups for entry in group.held)

    def put(self, entry: Entry) -> None:
        last = self._groups[-1]
        if last.marks:
            last = EntryGroup()
            self._groups.append(last)
        last.held[entry] = None
        entry.group = last
        self._count += 1

    def put_mark(self, mark: Mark) -> None:
        self._groups[-1].marks.append(mark)

    def completed(self, entry: Entry) -> None:
        assert entry.group is not None
        entry.group.done.append(entry)

    def first(self) -> Entry | None:
        done = self._groups[0].done
        return done[0] if done else None

    def pop(self) -> Entry:
        first = self._groups[0]
        entry = first.done.popleft()
        del first.held[entry]
        self._count -= 1
        return entry

    def pop_mark(self) -> Mark | None:
        first = self._groups[0]
        if first.held or not first.marks:
            return None
        mark = first.marks.popleft()
        if not first.marks and len(self._groups) > 1:
            self._groups.popleft()
        return mark


IN_FLIGHT = "(async) in flight"
"""Name of the state with the held records: (value, timestamp) each."""


class AsyncWaitOperator(FunctionOperator):
    """Calls `async_invoke` for each record. `function` is an AsyncFunction.

    `timeout_ms` counts from a record's first call, over all retries; 0: no limit. It holds at most `capacity` records.
    """

    keeps_values = True
    holds_functions = True

    def __init__(
        self,
        name: str,
        function: UserFunction,
        timeout_ms: int,
        capacity: int,
        ordered: bool,
        retries: AsyncRetryStrategy[Any],
    ) -> None:
        super().__init__(name, function)
        self.timeout_ms = timeout_ms
        self.capacity = capacity
        self.ordered = ordered
        self.retries = retries
        self._records: list[tuple[Any, int | None]] = []
        """A chunk, or the restored records. Calls for the records before `_next` are made."""
        self._next = 0
        self._deadlines: OrderedDict[Entry, int] = OrderedDict()
        """When records without results time out (ms), in order: the limit is the same for all."""
        self._delayed: list[tuple[int, int, Entry]] = []
        """Records to retry: a heap of (time in ms, unique number, record)."""
        self._delays = 0
        self._finishing = False
        self._queue: EntryQueue = OrderedQueue()

    def open(self) -> None:
        super().open()
        # A task of a batched job may run again, and must send the same records in the same order.
        if not self.ordered and not self.context.mode.repeats_tasks:
            self._queue = UnorderedQueue()
        predicate = self.retries.get_retry_predicate()
        self._retries_result = predicate.result_predicate()
        self._retries_error = predicate.exception_predicate()
        # Restored records come before all input. After a rescale they may exceed the capacity.
        self.paused = bool(self._records)

    def close(self) -> None:
        # First: calls may use resources that `close` releases.
        self.context.async_calls.close()
        super().close()

    def process(self, chunk: Rows) -> bool:
        timestamps = chunk.timestamps if chunk.timestamps is not None else [None] * len(chunk)
        self._records = list(zip(chunk.values, timestamps, strict=True))
        self._next = 0
        return self._continue()

    def watermark(self, timestamp: int) -> bool:
        return self._in_turn(partial(super().watermark, timestamp))

    def status(self, active: bool) -> bool:
        return self._in_turn(partial(super().status, active))

    def _in_turn(self, mark: Mark) -> bool:
        if not self._queue and not self._queue.ready:
            return mark()
        self._queue.put_mark(mark)
        return True

    @property
    def in_flight(self) -> bool:
        return bool(self._queue or self._queue.ready or self._next < len(self._records))

    def finish(self) -> bool:
        # Retries continue. Flink makes one last attempt immediately, and fails the job if that fails: a bounded job
        # would then fail by an error that a little more time solves.
        self._finishing = True
        return self._continue()

    def wake_at_ms(self) -> int | None:
        if self._queue.ready:
            return 0
        times = [next(iter(self._deadlines.values()))] if self._deadlines else []
        if self._delayed:
            times.append(self._delayed[0][0])
        return min(times, default=None)

    def processing_time(self, now_ms: int) -> bool:
        self._time_out(now_ms)
        self._retry(now_ms)
        return self._continue()

    def resume(self) -> bool:
        return self.processing_time(self.context.now_ms())

    def lists(self) -> list[NamedList]:
        held = [(entry.value, entry.timestamp) for entry in self._queue] + self._records[self._next :]
        in_flight = [NamedList(IN_FLIGHT, Redistribution.SPLIT, held)] if held else []
        return [*super().lists(), *in_flight]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != IN_FLIGHT])
        self._records = [item for one in lists if one.name == IN_FLIGHT for item in one.items]

    def _continue(self) -> bool:
        """Emit results and marks, make calls up to the capacity, and pause if records are left."""
        self.paused = self.waiting = False
        may_continue = self._emit()
        room = self.capacity - len(self._queue)
        if self._next < len(self._records) and room > 0:
            records = self._records[self._next : self._next + room]
            self._next += len(records)
            self._begin(records)
        # At the end, wait for watermarks as well: otherwise they would not be emitted before the end of the data.
        if self._next < len(self._records) or (self._finishing and (len(self._queue) or self._queue.ready)):
            self.paused = True
            # Without ready results the operator waits for a call or a time.
            self.waiting = not self._queue.ready
            return False
        self._records, self._next = [], 0
        return may_continue

    def _emit(self) -> bool:
        queue, output, budget, copy = self._queue, self.output, self.context.budget, self.copy_value
        while queue.ready:
            values: Values = []
            times: Timestamps = None
            while len(values) < budget.chunk_records and (entry := queue.first()) is not None:
                if (values or times is not None) and (entry.timestamp is None) is not (times is None):
                    # A union may have records with and without timestamps: a chunk has only one of both.
                    break
                queue.pop()
                assert entry.results is not None
                if entry.timestamp is not None:
                    times = [] if times is None else times
                    times.extend([entry.timestamp] * len(entry.results))
                values.extend(map(copy, entry.results))
            if values:
                if not (output.emit(Rows(values, times)) and budget.may_continue()):
                    return False
            elif (mark := queue.pop_mark()) is not None and not mark():
                return False
        return True

    def _begin(self, records: list[tuple[Any, int | None]]) -> None:
        entries = [Entry(value, timestamp) for value, timestamp in records]
        put = self._queue.put
        for entry in entries:
            put(entry)
        if self.timeout_ms > 0:
            at_ms = self.context.now_ms() + self.timeout_ms
            self._deadlines.update(dict.fromkeys(entries, at_ms))
        self._call(entries)

    def _call(self, entries: list[Entry]) -> None:
        if not entries:
            return
        # The function gets copies: it may change values while a snapshot writes the held records.
        calls = [(independent_copy(entry.value), partial(self._ended, entry)) for entry in entries]
        for entry, id in zip(entries, self.context.async_calls.start(self.function.call, calls), strict=True):
            entry.call_id = id

    def _ended(self, entry: Entry, result: Any, error: Exception | None) -> None:
        """Complete or retry a record, whose call has returned `result` or raised `error`."""
        self.waiting = False
        if error is None:
            error = _not_a_list(result)
        if self._is_retried(entry, result, error):
            at_ms = self.context.now_ms() + self._backoff_ms(entry)
            entry.attempts += 1
            self._delays += 1
            heapq.heappush(self._delayed, (at_ms, self._delays, entry))
            return
        if error is not None:
            raise self._failed(error, self.function.method, entry) from error
        self._complete(entry, result)

    def _is_retried(self, entry: Entry, result: Any, error: Exception | None) -> bool:
        try:
            if error is not None:
                wanted = self._retries_error is not None and bool(self._retries_error(error))
            else:
                wanted = self._retries_result is not None and bool(self._retries_result(result))
            return wanted and self.retries.can_retry(entry.attempts)
        except RAISED as raised:
            raise self._failed(raised, f"the predicate of {type(self.retries).__name__}", entry) from raised

    def _backoff_ms(self, entry: Entry) -> int:
        method = f"{type(self.retries).__name__}.get_backoff_time_millis"
        try:
            return returned_milliseconds(self.retries.get_backoff_time_millis(entry.attempts), method)
        except RAISED as error:
            raise self._failed(error, method, entry) from error

    def _complete(self, entry: Entry, results: list[Any]) -> None:
        entry.results = results
        self._deadlines.pop(entry, None)
        self._queue.completed(entry)

    def _time_out(self, now_ms: int) -> None:
        """Call `timeout` for records whose time has expired."""
        expired = []
        for entry, at_ms in self._deadlines.items():
            if at_ms > now_ms:
                break
            expired.append(entry)
        if not expired:
            return
        self.context.async_calls.cancel([entry.call_id for entry in expired])
        method = self.function.named("timeout")
        for entry in expired:
            try:
                results = self.function.instance.timeout(independent_copy(entry.value))
                if (error := _not_a_list(results)) is not None:
                    raise error
            except RAISED as error:
                raise self._failed(error, method, entry) from error
            self._complete(entry, results)

    def _retry(self, now_ms: int) -> None:
        due = []
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, entry = heapq.heappop(self._delayed)
            # It may have timed out since.
            if entry.results is None:
                due.append(entry)
        self._call(due)

    def _failed(self, error: BaseException, method: str, entry: Entry) -> Exception:
        return self.context.user_error(error, method, entry.value, timestamp=entry.timestamp)


def _not_a_list(result: Any) -> TypeError | None:
    if isinstance(result, (list, tuple)):
        return None
    return TypeError(
        f"an AsyncFunction returns a list of results for each record, which may be empty: got {result!r:.200}"
    )
