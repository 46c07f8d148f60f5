"""Asynchronous functions: many calls in flight, and their results in order or as they come.

Source: Flink docs, "Asynchronous I/O", and Flink's AsyncWaitOperator. The calls run on an event loop of the host's
(`task/async_calls.py`); capacity, time limits, retries and order are kept here.

While as many records are held as `capacity` allows, the operator waits: it is paused, but not busy. What it holds is
part of each snapshot as it came in, and the calls are made again after a restore.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from penstock.api.functions.retry_strategies import AsyncRetryStrategy
from penstock.common.functions.user_calls import RAISED
from penstock.common.time import returned_milliseconds
from penstock.common.values.copies import own_copy
from penstock.engine.runtime.operators.operator import Timestamps, Values
from penstock.engine.runtime.operators.stateless import FunctionOperator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction


# What an asynchronous operator holds: records whose calls are in flight, and watermarks and statuses between them.
#
# Source: Flink docs, "Asynchronous I/O", Order of Results and Event Time. A record is held until its results are
# emitted. Watermarks and statuses overtake no record, and no record overtakes them, in either order.

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


IN_FLIGHT = "(async) in flight"
"""Name of the state with the records that are held: (value, timestamp) each."""


class AsyncWaitOperator(FunctionOperator):
    """Calls `async_invoke` for each record. `function` is an AsyncFunction.

    `timeout_ms` counts from a record's first call, over all retries; 0: no limit. At most `capacity` records are held.
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
        """Records to be called for, those before `_next` already are: a chunk, or what was restored."""
        self._next = 0
        self._deadlines: OrderedDict[Entry, int] = OrderedDict()
        """When the time of a record is over (ms), of those without results. In order: the limit is the same for all."""
        self._delayed: list[tuple[int, int, Entry]] = []
        """Records to be called for again: a heap of (ms, a number that makes each different, record)."""
        self._delays = 0
        self._finishing = False
        self._queue: EntryQueue = OrderedQueue()

    def open(self) -> None:
        super().open()
        # A task of a batched job may run again, and then has to send the same in the same order.
        if not self.ordered and not self.context.info.batched:
            self._queue = UnorderedQueue()
        predicate = self.retries.get_retry_predicate()
        self._retries_result = predicate.result_predicate()
        self._retries_error = predicate.exception_predicate()
        # What was restored comes before all input. It may be more than there is room for, after a rescale.
        self.paused = bool(self._records)

    def close(self) -> None:
        # First: what `close` takes away may be in use by calls.
        self.context.async_calls.close()
        super().close()

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        self._records = list(zip(values, timestamps if timestamps is not None else [None] * len(values), strict=True))
        self._next = 0
        return self._go_on()

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
        # Retries go on. Flink makes one last try at once, and fails the job if that fails: a bounded job would then end
        # by an error that a moment's patience mends.
        self._finishing = True
        return self._go_on()

    def wake_at_ms(self) -> int | None:
        if self._queue.ready:
            return 0
        times = [next(iter(self._deadlines.values()))] if self._deadlines else []
        if self._delayed:
            times.append(self._delayed[0][0])
        return min(times, default=None)

    def processing_time(self, now_ms: int) -> bool:
        self._time_out(now_ms)
        self._try_again(now_ms)
        return self._go_on()

    def resume(self) -> bool:
        return self.processing_time(self.context.now_ms())

    def lists(self) -> list[NamedList]:
        held = [(entry.value, entry.timestamp) for entry in self._queue] + self._records[self._next :]
        own = [NamedList(IN_FLIGHT, Redistribution.SPLIT, held)] if held else []
        return [*super().lists(), *own]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != IN_FLIGHT])
        self._records = [item for one in lists if one.name == IN_FLIGHT for item in one.items]

    def _go_on(self) -> bool:
        """Emit what may be emitted, make as many calls as there is room for, and pause if something is left."""
        self.paused = self.waiting = False
        go_on = self._emit()
        room = self.capacity - len(self._queue)
        if self._next < len(self._records) and room > 0:
            taken = self._records[self._next : self._next + room]
            self._next += len(taken)
            self._begin(taken)
        # At the end watermarks are waited for, too: nothing else would have them emitted before the end of the data.
        if self._next < len(self._records) or (self._finishing and (len(self._queue) or self._queue.ready)):
            self.paused = True
            # Otherwise nothing can be done before a call has ended, or a time has come.
            self.waiting = not self._queue.ready
            return False
        self._records, self._next = [], 0
        return go_on

    def _emit(self) -> bool:
        queue, output, budget, own = self._queue, self.output, self.context.budget, self.own
        while queue.ready:
            values: Values = []
            times: Timestamps = None
            while len(values) < budget.chunk_records and (entry := queue.first()) is not None:
                if (values or times is not None) and (entry.timestamp is None) is not (times is None):
                    # A union may have brought both kinds: a chunk is of one.
                    break
                queue.take()
                assert entry.results is not None
                if entry.timestamp is not None:
                    times = [] if times is None else times
                    times.extend([entry.timestamp] * len(entry.results))
                values.extend(map(own, entry.results))
            if values:
                if not (output.emit(values, times) and budget.go_on()):
                    return False
            elif (mark := queue.take_mark()) is not None and not mark():
                return False
        return True

    # Calls.

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
        # The function gets copies: it may change them while a snapshot takes what is held.
        calls = [(own_copy(entry.value), partial(self._ended, entry)) for entry in entries]
        for entry, id in zip(entries, self.context.async_calls.start(self.function.call, calls), strict=True):
            entry.call_id = id

    def _ended(self, entry: Entry, result: Any, error: Exception | None) -> None:
        """The call for a record has returned `result`, or raised `error`."""
        self.waiting = False
        if error is None:
            error = _not_a_list(result)
        if self._is_tried_again(entry, result, error):
            at_ms = self.context.now_ms() + self._backoff_ms(entry)
            entry.attempts += 1
            self._delays += 1
            heapq.heappush(self._delayed, (at_ms, self._delays, entry))
            return
        if error is not None:
            raise self._failed(error, self.function.method, entry) from error
        self._complete(entry, result)

    def _is_tried_again(self, entry: Entry, result: Any, error: Exception | None) -> bool:
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
        """The time of records is over: `timeout` says what becomes of them."""
        over = []
        for entry, at_ms in self._deadlines.items():
            if at_ms > now_ms:
                break
            over.append(entry)
        if not over:
            return
        self.context.async_calls.cancel([entry.call_id for entry in over])
        method = self.function.named("timeout")
        for entry in over:
            try:
                results = self.function.instance.timeout(own_copy(entry.value))
                if (error := _not_a_list(results)) is not None:
                    raise error
            except RAISED as error:
                raise self._failed(error, method, entry) from error
            self._complete(entry, results)

    def _try_again(self, now_ms: int) -> None:
        due = []
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, entry = heapq.heappop(self._delayed)
            # Its time may be over since.
            if entry.results is None:
                due.append(entry)
        self._call(due)

    def _failed(self, error: BaseException, method: str, entry: Entry) -> Exception:
        return self.context.user_error(error, method, entry.value, timestamp=entry.timestamp)


def _not_a_list(result: Any) -> TypeError | None:
    if isinstance(result, (list, tuple)):
        return None
    return TypeError(f"the results for a record are a list, which may be empty; got {result!r:.200}")
