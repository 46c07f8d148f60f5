"""The fast window operator: aligned windows (tumbling, sliding) with their default trigger.

Time is cut into *slices* of the greatest common divisor of size and slide. A record goes into the contents of its key
in one slice; a window that fires merges its slices. Where contents are not shared (see `Contents.shares`), a
slice is a whole window and a record goes into each of its windows. Tumbling windows are one slice either way.

    size 6, slide 2           slices   0    2    4    6    8    10
                                       │  a │  b │  c │  d │  e │
    windows of a record at 5           [──────────────)              a+b+c
                                            [──────────────)         b+c+d
                                                 [──────────────)    c+d+e

There is no timer per key and window: windows that wait for their end, or for the end of the allowed lateness, are
tables of window -> keys, and a heap of their starts. Per record of a known key only `Contents.add_records` remains.
Records before the *horizon* are the exception, processed one by one: a window that they belong to has ended already,
so that it is over, or fires at once. Results, late records and timestamps are those of `WindowOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.api.windows.assigner import no_timestamp
from penstock.api.windows.assigners import AlignedWindows
from penstock.api.windows.window import TimeWindow
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.functions.user_calls import RAISED, checked_results
from penstock.common.values.copies import ATOMS, as_it_is, own_copies, own_copy
from penstock.engine.runtime.operators.operator import Timestamps, Values, positions_taken
from penstock.engine.runtime.task.budget import Pacing
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.slicing import Blocks, Slicing, Succession, merged, with_contents
from penstock.engine.runtime.windows.windowing import WindowingOperator
from penstock.engine.state.sliced import SlicedTable

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slices
    from penstock.engine.state.tables import Layer

SLICES_TABLE = "(windows) slices"
"""start of slice -> {key: contents}: of windows that do not overlap; up to manifest version 3, of those that do, too"""
SHARED_TABLE = "(windows) shared slices"
"""start of slice -> {key: contents}: of all windows that contain the slice"""
OWN_TABLE = "(windows) own slices"
"""start of window -> {key: contents}: of a window alone, where others may be shared"""
WAITING_TABLE = "(windows) waiting"
"""start of window -> {key: True}: those that wait for the end of the window"""
ENDED_TABLE = "(windows) ended"
"""start of window -> {key: True}: those that have fired and wait for the end of the allowed lateness"""

_SLICES_PER_SLIDE_MAX = 4
_FIRST_RESULTS = 16
_MANY_SLICES = 32
"""From so many slices of a window on, blocks of them are worth their price."""


class SlicedWindowOperator(WindowingOperator):
    """Runs aligned windows whose slide is not larger than their size, with their default trigger."""

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        assigner: AlignedWindows[Any],
        contents: Contents,
        evaluation: Evaluation,
        allowed_lateness_ms: int = 0,
        late_tag: OutputTag[Any] | None = None,
    ) -> None:
        super().__init__(name, key_selector, contents, evaluation, allowed_lateness_ms, late_tag)
        assert assigner.slide_ms <= assigner.size_ms
        self.event_time = assigner.is_event_time()
        self._size, self._slide, self._offset = assigner.size_ms, assigner.slide_ms, assigner.offset_ms
        self._slicing = Slicing(self._size, self._slide, self._offset)
        self._width = self._slicing.width
        self._overlap = self._slide < self._size
        # Slices much shorter than the slide would make more work when windows fire than they save before.
        self._is_cut = self._overlap and self._slide <= self._width * _SLICES_PER_SLIDE_MAX
        self._for_window: Callable[[Values], Values] = as_it_is
        """Makes a window's own of the records of a chunk."""
        self._stays_ms = allowed_lateness_ms if self.event_time else 0
        self._domain = TimeDomain.EVENT_TIME if self.event_time else TimeDomain.PROCESSING_TIME

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._slices = self.backend.slices(SLICES_TABLE, lists=self.contents.keeps_records)
        self._can_choose = self._is_cut and self.contents.may_be_shared
        if self._can_choose:
            self._former = self._slices
            self._shared, self._own = self.backend.slices(SHARED_TABLE), self.backend.slices(OWN_TABLE)
        self._waiting = self.backend.table(WAITING_TABLE, SlicedTable)
        self._ended = self.backend.table(ENDED_TABLE, SlicedTable)
        self._firing = Pacing(_FIRST_RESULTS)
        self._waiting_heap: list[int] = []
        self._ended_heap: list[int] = []
        self._shares = False
        self._waits_for_next = False
        """Whether a key waits for the next of its windows only: where they are few, it is cheaper to note them all."""
        self._blocks: Blocks | None = None
        self._succession = Succession()

    def open(self) -> None:
        super().open()
        if self._can_choose:
            self._slices, self._shares = self._kind_of_slices()
        self._waits_for_next = self._shares and self._size // self._width >= _MANY_SLICES
        if self._waits_for_next and isinstance(slices := self._slices, SlicedTable):
            start_of = self._slicing.start_of
            self._blocks = Blocks(
                lambda number: slices.reader(start_of(number)),
                lambda number: slices.keys(start_of(number)),
                self._merged,
            )
        self._waiting_heap[:], self._ended_heap[:] = self._waiting.slices, self._ended.slices
        heapify(self._waiting_heap)
        heapify(self._ended_heap)
        self._succession = Succession.restored(self._waiting_heap, self._ended_heap, self._slide)

    def _kind_of_slices(self) -> tuple[Slices, bool]:
        """Where the contents are, and whether windows share them.

        What was restored decides: contents of a slice can't be told from those of a window, nor divided any more.
        """
        tables, contents = self.backend.tables, self.contents
        if tables[SHARED_TABLE]:
            if not contents.can_merge():
                raise CheckpointError(
                    f"operator '{self.name}': its windows shared their contents when the snapshot was taken, and "
                    f"`merge` of {contents.method} can't put these together any more. Restore `merge` as it was until "
                    "those windows are over, or give the operator another uid, which starts without their contents"
                )
            return self._shared, True
        if tables[OWN_TABLE]:
            return self._own, False
        if tables[SLICES_TABLE]:
            return self._former, contents.were_shared()
        return (self._shared, True) if contents.shares else (self._own, False)

    def functions_replaced(self) -> None:
        super().functions_replaced()
        if self._blocks is not None:
            self._blocks.clear()

    def forget_key(self) -> bool:
        if self._blocks is not None:
            self._blocks.clear()
        self._waiting_heap.clear()
        self._ended_heap.clear()
        return super().forget_key()

    # Records.

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        if not values:
            return True
        keys = self.keys_of(values)
        if self._overlap and not self._shares and not self.contents.keeps_records:
            # Asked once for a chunk and not for each window: most records can't be changed.
            self._for_window = as_it_is if all(map(is_, own_copies(values), values)) else own_copies
        if not self.event_time:
            self._add_records(self._slicing.slice_of(self.context.now_ms()), keys, values)
            return True
        lowest = min(timestamps) if timestamps is not None else MIN_TIMESTAMP
        if timestamps is None or lowest <= MIN_TIMESTAMP:
            raise ProgramError(f"operator '{self.name}': {no_timestamp()}")
        start = self._slicing.slice_of(lowest)
        if start >= self._slicing.horizon(self.timers.watermark) and max(timestamps) < start + self._width:
            self._add_records(start, keys, values)
            return True
        return self.do(self._take_mixed(keys, values, timestamps), self._hand_on_late)

    def _take_mixed(self, keys: list[Any], values: Values, timestamps: list[int]) -> Iterator[None]:
        """A chunk with records of several slices: sorted by slice first, then added slice by slice."""
        behind: list[tuple[Any, Any, int]] = []
        slicing, horizon = self._slicing, self._slicing.horizon(self.timers.watermark)
        if self._shares or self._slide == self._size:
            for start, (some_keys, some_values) in slicing.by_slice(keys, values, timestamps, horizon, behind).items():
                self._add_records(start, some_keys, some_values)
        else:
            # Not by slice: a window takes its records in the order of their arrival.
            for window, (some_keys, some_values) in slicing.by_window(
                keys, values, timestamps, horizon, behind
            ).items():
                self._add_to_slice(window, [window], some_keys, self._for_window(some_values))
        # No window that has ended holds a slice from the horizon on, so these may as well come last.
        for key, value, timestamp in behind:
            yield from self._take_behind(key, value, timestamp)

    def _add_records(self, start: int, keys: list[Any], values: Values) -> None:
        """Add records to a slice all of whose windows are waiting."""
        windows = self._slicing.windows_of(start)
        if self._waits_for_next:
            self._add_to_shared(start, windows, keys, values)
        elif self._shares:
            self._add_to_slice(start, windows, keys, values)
        else:
            for window in windows:
                self._add_to_slice(window, [window], keys, self._for_window(values))

    def _add_to_shared(self, start: int, windows: Sequence[int], keys: list[Any], values: Values) -> None:
        """Add records to a slice of several windows. New keys wait for the first of these, and then for the next."""
        new: Layer = {}
        self._add_to_slice(start, windows, keys, values, [new])
        if new:
            for window in self._succession.first_of(windows):
                self._waiting_for(window).update(new)
            # What is None is no contents that a window could find in its slices when it fires.
            contents = self._slices.at(start).current
            for key in [key for key in new if contents.get(key) is None]:
                for window in windows:
                    self._waiting_for(window)[key] = True
        if self._blocks is not None:
            self._blocks.changed(self._slicing.number_of(start), keys)

    def _add_to_slice(
        self, start: int, windows: Sequence[int], keys: list[Any], values: Values, newcomers: list[Layer] | None = None
    ) -> None:
        if newcomers is None:
            newcomers = [self._waiting_for(window) for window in windows]
        for window in windows if self._ended.slices else ():
            if window in self._ended.slices:
                # After a restart event time starts from the beginning, so a window that has fired waits again. Its keys
                # are known, so `add_records` would not report them as new.
                self._waiting_for(window).update(dict.fromkeys(keys, True))
        rest = iter(values)
        try:
            self.contents.add_records(keys, rest, self._slices.at(start), newcomers)
        except RAISED as error:
            at = positions_taken(values, rest)
            raise self.context.user_error(error, self.contents.method, values[at], keys[at]) from error

    def _waiting_for(self, window: int) -> Layer:
        return _keys_at(window, self._waiting, self._waiting_heap)

    def _take_behind(self, key: Any, value: Any, timestamp: int) -> Iterator[None]:
        """A record of which at least one window has ended: it is over, or still there for late records."""
        windows = [window for window in self._slicing.windows_of(timestamp) if not self._is_over(window)]
        if not windows:
            self.late(value, timestamp)
            return
        watermark = self.timers.watermark
        if self._shares:
            start = self._slicing.slice_of(timestamp)
            self._add(start, key, value, timestamp)
            if self._blocks is not None:
                self._blocks.changed(self._slicing.number_of(start), [key])
            wait = [window for window in windows if window + self._size - 1 > watermark]
            found = self._waits_for_next and self._slices.at(start).get(key) is not None
            for window in self._succession.first_of(wait) if found else wait:
                self._waiting_for(window)[key] = True
        for window in windows:
            if window + self._size - 1 > watermark:
                continue
            if not self._shares:
                (own,) = self._for_window([value])
                self._add(window, key, own, timestamp)
            _keys_at(window, self._ended, self._ended_heap)[key] = True
            contents = self._put_together(self._slices_in(window), key)
            yield from self.evaluate(key, TimeWindow(window, window + self._size), contents)
            if not self.context.budget.go_on():
                yield

    def _is_over(self, window: int) -> bool:
        return self._last_ms(window, self._stays_ms) <= self.timers.watermark

    def _last_ms(self, window: int, stays_ms: int = 0) -> int:
        """The last millisecond of a window, or of the time for which it stays: the end of time at the latest."""
        return min(window + self._size - 1 + stays_ms, MAX_TIMESTAMP)

    def _add(self, start: int, key: Any, value: Any, timestamp: int) -> None:
        try:
            self.contents.add_records([key], iter([value]), self._slices.at(start), [])
        except RAISED as error:
            raise self.context.user_error(error, self.contents.method, value, key, timestamp) from error

    # Firing.

    def wake_at_ms(self) -> int | None:
        # A millisecond after the last of the window: records that arrive in that millisecond still belong to it.
        return self.or_maintenance(
            None if self.event_time or not self._waiting_heap else self._waiting_heap[0] + self._size
        )

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        if domain is not self._domain:
            return
        last_ms, stays_ms = self._last_ms, self._stays_ms
        waiting, fired = self._waiting_heap, self._ended_heap
        while True:
            fires_at = last_ms(waiting[0]) if waiting else None
            goes_at = last_ms(fired[0], stays_ms) if fired else None
            if fires_at is not None and fires_at <= until and (goes_at is None or fires_at <= goes_at):
                yield from self._fire(heappop(waiting))
            elif goes_at is not None and goes_at <= until:
                yield from self._forget(heappop(fired))
            else:
                return
            # A watermark may end thousands of windows with a few results each.
            if not self.context.budget.go_on():
                yield

    def _fire(self, window: int) -> Iterator[None]:
        keys = self._waiting.take(window)
        if self._blocks is not None:
            first = self._slicing.number_of(window)
            for _ in self._blocks.make(first, first + self._size // self._width):
                if not self.context.budget.go_on():
                    yield
        if self._waits_for_next and self._succession.goes_on(window):
            yield from self._wait_for_next(window, keys)
        if self.evaluation.passes_on:
            yield from self._fire_plainly(window, list(keys))
        else:
            yield from self._fire_evaluated(window, keys)
        if self._stays_ms:
            _keys_at(window, self._ended, self._ended_heap).update(keys)
        else:
            yield from self._drop_slices(window, keys)

    def _wait_for_next(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """Keys that have contents in the next window, too, wait for it now."""
        readers = self._readers(window + self._slide, window + self._size)
        # Latest first: there most keys have something.
        readers.reverse()
        found: Layer = {}
        yield from with_contents(keys, readers, found, self.context.budget.go_on)
        if found:
            self._waiting_for(window + self._slide).update(found)

    def _fire_plainly(self, window: int, keys: list[Any]) -> Iterator[None]:
        """Without a window function, as many results at a time as go into a chunk."""
        rest = iter(keys)
        slices = self._slices_in(window)
        if self._shares:
            contents: Iterator[Any] = (self._put_together(slices, key) for key in rest)
        else:
            contents = map(slices[0], rest)
            if self._stays_ms and self.contents.result_is_computed:
                contents = map(own_copy, contents)
        result = self.contents.result_function
        timestamp = self._last_ms(window)
        budget, pacing = self.context.budget, self._firing
        while True:
            room = min(budget.chunk_records - len(self.results), pacing.records_max)
            started_ns = budget.clock()
            try:
                chunk = checked_results([result(each) for each in islice(contents, max(1, room))])
            except RAISED as error:
                key = keys[positions_taken(keys, rest)]
                raise self.context.user_error(error, self.contents.method, key=key, timestamp=timestamp) from error
            if not chunk:
                return
            pacing.adapt(len(chunk), budget.clock() - started_ns)
            # What is emitted is not what is kept: a result may be the accumulator itself, and a late record changes it.
            self.results += chunk if ATOMS.issuperset(map(type, chunk)) else map(self.own, chunk)
            self.result_times += [timestamp] * len(chunk)
            if self.is_full() or not budget.go_on():
                yield

    def _fire_evaluated(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """With a window function, key by key."""
        slices = self._slices_in(window)
        time_window = TimeWindow(window, window + self._size)
        goes = not self._stays_ms
        # What is put together of shared slices is nobody else's.
        stays = not self._shares and (self._overlap or not goes)
        go_on = self.context.budget.go_on
        for key in keys:
            yield from self.evaluate(key, time_window, self._put_together(slices, key), stays)
            if goes:
                self.clear_evaluation(key, time_window)
            if not go_on():
                yield

    def _forget(self, window: int) -> Iterator[None]:
        """The allowed lateness of a window is over."""
        keys = self._ended.take(window)
        if not self.evaluation.passes_on:
            time_window = TimeWindow(window, window + self._size)
            for key in keys:
                self.clear_evaluation(key, time_window)
                if not self.context.budget.go_on():
                    yield
        yield from self._drop_slices(window, keys)

    def _slices_in(self, window: int) -> list[Callable[[Any], Any]]:
        """For each slice of the window that exists, a function from key to contents."""
        # Looked up once per window rather than once per key.
        readers = self._readers(window, window + self._size) if self._shares else self._reader_at(window)
        return readers or [_nothing]

    def _readers(self, start: int, end: int) -> list[Callable[[Any], Any]]:
        # Of shared slices, or blocks of these.
        if self._blocks is not None:
            return self._blocks.readers(self._slicing.number_of(start), self._slicing.number_of(end))
        return [reader for at in range(start, end, self._width) for reader in self._reader_at(at)]

    def _reader_at(self, start: int) -> list[Callable[[Any], Any]]:
        reader = self._slices.reader(start)
        return [] if reader is None else [reader]

    def _put_together(self, slices: list[Callable[[Any], Any]], key: Any) -> Any:
        parts = [contents for of_key in slices if (contents := of_key(key)) is not None]
        if len(parts) < 2:
            # No part at all: the user's function may have kept None of a window.
            contents = parts[0] if parts else None
            return own_copy(contents) if self._shares else contents
        return self._merged(parts, key)

    def _merged(self, parts: list[Any], key: Any) -> Any:
        try:
            return merged(parts, self.contents.merge_function)
        except RAISED as error:
            raise self.context.user_error(error, f"merge of {self.contents.method}", key=key) from error

    def _drop_slices(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """Drop the slices that no window after `window` contains, for these keys."""
        for start in range(window, window + self._slide, self._width) if self._shares else [window]:
            if self._blocks is not None:
                self._blocks.drop(self._slicing.number_of(start))
            yield from self._slices.drop(start, keys)


def _nothing(key: Any) -> None:
    """What a user's function keeps of a window may be None, which no snapshot holds."""


def _keys_at(window: int, table: SlicedTable, heap: list[int]) -> Layer:
    """The keys of a window, to be written to until the call ends."""
    if window not in table.slices:
        heappush(heap, window)
    return table.at(window).current
