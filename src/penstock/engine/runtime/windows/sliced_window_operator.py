"""The fast window operator: aligned windows (tumbling, sliding, cumulative) with their default trigger.

It divides time into *slices*, of the greatest common divisor of size and slide. A record is added to the contents of
its key in one slice; a window that fires merges its slices. Where contents are not shared (see `Contents.shares`), a
slice is a whole window, and a record is added to each of its windows. A tumbling window is one slice in both cases.

    size 6, slide 2           slices   0    2    4    6    8    10
                                       │  a │  b │  c │  d │  e │
    windows of a record at 5           [──────────────)              a+b+c
                                            [──────────────)         b+c+d
                                                 [──────────────)    c+d+e

Cumulative windows have the same start, so their contents can be carried from one to the next: a record is added to the
first of its windows that waits, and what a window has when it fires is merged into the next one (`Contents.carries`).

    size 6, step 2             0    2    4    6
                               [────)                   a               fires with a
                               [─────────)              b               fires with a+b
                               [──────────────)         c               fires with a+b+c

There are no timers per key and window. Windows that wait for their end, or for the end of the allowed lateness, are in
tables of window -> keys, with a heap of their starts. A record of a known key costs only `Contents.add_records`.
Records before the *horizon* are processed one by one, because one of their windows has ended: it is expired, or fires
immediately. Results, late records and timestamps are the same as with `WindowOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import is_
from types import NoneType
from typing import TYPE_CHECKING, Any

from penstock.api.timers import TimeDomain
from penstock.api.windows.assigner import no_timestamp
from penstock.api.windows.assigners import AlignedWindows
from penstock.api.windows.window import TimeWindow
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.functions.user_calls import RAISED, checked_results
from penstock.common.values.copies import ATOMS, independent_copies, independent_copy, uncopied
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.operator import last_position
from penstock.engine.runtime.task.budget import Pacing
from penstock.engine.runtime.windows.slicing import Blocks, Slicing, Succession, merged, with_contents
from penstock.engine.runtime.windows.windowing import WindowingOperator, WindowSettings
from penstock.engine.state.sliced import SlicedTable

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import ListedSlices, Slices
    from penstock.engine.state.tables import Layer

SLICES_TABLE = "(windows) slices"
"""start of slice -> {key: contents}, without overlap; up to manifest version 3 also of overlapping windows"""
SHARED_TABLE = "(windows) shared slices"
"""start of slice -> {key: contents}, for all windows that contain the slice"""
OWN_TABLE = "(windows) own slices"
"""start of window -> {key: contents}, for one window, if overlapping windows do not share contents"""
CARRIED_TABLE = "(windows) carried"
"""window -> {key: contents}, of cumulative windows: what was added since the window before it ended, if that has"""
WAITING_TABLE = "(windows) waiting"
"""window -> {key: True}: keys that wait for the end of the window, which is named by its end less the size"""
ENDED_TABLE = "(windows) ended"
"""window -> {key: True}: keys that have fired and wait for the end of the allowed lateness"""

_SLICES_PER_SLIDE_MAX = 4
_FIRST_RESULTS = 16
_KEYS_PER_CLOCK_READING = 256
_MANY_SLICES = 32
"""Blocks pay off for windows with at least this many slices."""


class SlicedWindowOperator(WindowingOperator):
    """Runs aligned windows whose slide is not larger than their size, with their default trigger."""

    contents_tables = (SLICES_TABLE, SHARED_TABLE, OWN_TABLE, CARRIED_TABLE)

    def __init__(self, name: str, key_selector: Callable[[Any], Any], settings: WindowSettings) -> None:
        super().__init__(name, key_selector, settings)
        assigner = settings.assigner
        assert isinstance(assigner, AlignedWindows) and assigner.slide_ms <= assigner.size_ms
        self.event_time = assigner.is_event_time()
        self._size, self._slide, self._offset = assigner.size_ms, assigner.slide_ms, assigner.offset_ms
        self._slicing = Slicing(self._size, self._slide, self._offset, assigner.period_ms)
        self._width = self._slicing.width
        self._overlap = self._slide < self._size
        is_cumulative = self._slide < assigner.period_ms
        self._may_carry = is_cumulative and self.contents.may_be_shared
        # Slices much shorter than the slide cost more when windows fire than they save before.
        self._has_slices = self._overlap and not is_cumulative and self._slide <= self._width * _SLICES_PER_SLIDE_MAX
        self._for_window: Callable[[Values], Values] = uncopied
        """Copies the records of a chunk for a window, if a function could change them."""
        self._lateness_ms = self.allowed_lateness_ms if self.event_time else 0
        self._domain = TimeDomain.EVENT_TIME if self.event_time else TimeDomain.PROCESSING_TIME

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._slices = self.make_slices(SLICES_TABLE)
        self._may_share = self._has_slices and self.contents.may_be_shared
        if self._may_share:
            self._former = self._slices
            self._shared, self._own = self.backend.slices(SHARED_TABLE), self.make_slices(OWN_TABLE)
        if self._may_carry:
            self._carried, self._own = self.make_slices(CARRIED_TABLE), self.make_slices(OWN_TABLE)
        self._waiting = self.backend.table(WAITING_TABLE, SlicedTable)
        self._ended = self.backend.table(ENDED_TABLE, SlicedTable)
        self._firing = Pacing(_FIRST_RESULTS)
        self._waiting_heap: list[int] = []
        self._ended_heap: list[int] = []
        self._shares = False
        self._carries = False
        """Whether what a window has when it fires is merged into the next one."""
        self._waits_for_next = False
        """Whether a key waits only for the next of its windows. With few windows it is cheaper to register for all."""
        self._blocks: Blocks | None = None
        self._succession = Succession()

    @property
    def takes_partials(self) -> bool:
        """Whether records may be aggregated by slice before they come, if the aggregates allow that.

        Not if records have to come one by one: late ones are emitted, or fire their window again.
        """
        may_merge = not self._overlap or (self._may_carry and self.contents.carries)
        return self.event_time and may_merge and self.late_tag is None and not self.allowed_lateness_ms

    def make_slices(self, name: str) -> Slices:
        """Create the table of contents that windows do not share."""
        return self.backend.slices(name, lists=self.contents.keeps_records)

    def open(self) -> None:
        super().open()
        if self._may_share:
            self._slices, self._shares = self._choose_slices()
        if self._may_carry:
            self._carries = self._choose_to_carry()
            self._slices = self._carried if self._carries else self._own
        self._waits_for_next = self._shares and self._size // self._width >= _MANY_SLICES
        if self._waits_for_next and (slices := self._slices.listed()) is not None:
            start_of = self._slicing.start_of
            self._blocks = Blocks(
                lambda number: slices.reader(start_of(number)),
                lambda number: slices.keys(start_of(number)),
                self._merged,
            )
        if not self._shares:
            self.restore_waiting()
        self._waiting_heap[:], self._ended_heap[:] = self._waiting.slices, self._ended.slices
        heapify(self._waiting_heap)
        heapify(self._ended_heap)
        self._succession = Succession.restored(self._waiting_heap, self._ended_heap, self._slide)

    def restore_waiting(self) -> None:
        """Let the keys of windows wait that were restored without noting it: those of arrays, which all wait.

        Other keys of such a window may be noted, if they come from another subtask.
        """
        slices = self._slices.listed()
        for start in [] if slices is None else slices.starts():
            assert slices is not None
            self._let_wait(slices, start)

    def _let_wait(self, slices: ListedSlices, start: int) -> None:
        """Let the keys of a window wait that have contents, and are not noted: neither as waiting nor as ended."""
        read = slices.reader(start)
        tables = [table.slices[start] for table in (self._waiting, self._ended) if start in table.slices]
        noted = [table.as_mapping() for table in tables]
        keys = [key for key in slices.keys(start) if not any(key in mapping for mapping in noted)]
        found = {key: True for key in keys if read is not None and read(key) is not None}
        if found or not tables:
            self._waiting.at(start).current.update(found)

    def _choose_slices(self) -> tuple[Slices, bool]:
        """Return the slices to use, and whether windows share them.

        Restored contents decide: contents of a slice look like contents of a window, and can't be divided.
        """
        tables, contents = self.backend.tables, self.contents
        if tables[SHARED_TABLE]:
            if not contents.can_merge():
                raise CheckpointError(
                    f"operator '{self.name}': its windows shared their contents when the snapshot was taken, and "
                    f"`merge` of {contents.method} can no longer merge them. Restore the former `merge` until those "
                    "windows have ended, or give the operator another uid, which starts without their contents"
                )
            return self._shared, True
        if tables[OWN_TABLE]:
            return self._own, False
        if tables[SLICES_TABLE]:
            return self._former, contents.were_shared()
        return (self._shared, True) if contents.shares else (self._own, False)

    def _choose_to_carry(self) -> bool:
        """Return whether contents are carried. Restored contents decide: those of one kind look like the other's."""
        tables, contents = self.backend.tables, self.contents
        if not tables[CARRIED_TABLE]:
            # A window that may fire again for late records keeps what it has.
            return contents.carries and not self._lateness_ms and not tables[OWN_TABLE]
        why = None if contents.can_merge() else f"`merge` of {contents.method} can no longer merge them"
        if self._lateness_ms:
            why = "with an allowed lateness each window has its own contents"
        if why is not None:
            raise CheckpointError(
                f"operator '{self.name}': its cumulative windows carried their contents from one to the next when the "
                f"snapshot was taken, and {why}. Undo this change until those windows have ended, or give the operator "
                "another uid, which starts without their contents"
            )
        return True

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

    def process(self, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        if not values:
            return True
        keys = self.keys_of(values)
        if self._overlap and not self._shares and not self.contents.keeps_records:
            # Checked once per chunk, not per window: most records are immutable.
            self._for_window = uncopied if all(map(is_, independent_copies(values), values)) else independent_copies
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
        return self.do(self._add_mixed(keys, values, timestamps), self.emit_late)

    def _add_mixed(self, keys: list[Any], values: Values, timestamps: list[int]) -> Iterator[None]:
        """Add a chunk with records of several slices: group it by slice, then add slice by slice."""
        behind: list[tuple[Any, Any, int]] = []
        slicing, horizon = self._slicing, self._slicing.horizon(self.timers.watermark)
        if self._shares or self._slide == self._size:
            slices = slicing.by_slice(keys, values, timestamps, horizon=horizon, behind=behind)
            for start, (some_keys, some_values) in slices.items():
                self._add_records(start, some_keys, some_values)
        else:
            # Not by slice: each window gets its records in the order of their arrival.
            windows = slicing.by_window(
                keys, values, timestamps, horizon=horizon, behind=behind, only_first=self._carries
            )
            for window, (some_keys, some_values) in windows.items():
                self._add_to_slice(window, [window], some_keys, self._for_window(some_values))
        # These may come last: no ended window contains a slice at or after the horizon.
        for key, value, timestamp in behind:
            yield from self._add_behind(key, value, timestamp)

    def _add_records(self, start: int, keys: list[Any], values: Values) -> None:
        """Add records to a slice. All windows of the slice are waiting."""
        windows = self._slicing.windows_of(start)
        if self._waits_for_next:
            self._add_to_shared(start, windows, keys, values)
        elif self._shares:
            self._add_to_slice(start, windows, keys, values)
        else:
            for window in windows[-1:] if self._carries else windows:
                self._add_to_slice(window, [window], keys, self._for_window(values))

    def _add_to_shared(self, start: int, windows: Sequence[int], keys: list[Any], values: Values) -> None:
        """Add records to a slice of several windows. New keys wait for the first window, and then for the next."""
        new_keys: Layer = {}
        self._add_to_slice(start, windows, keys, values, new_keys=[new_keys])
        if new_keys:
            for window in self._succession.first_of(windows):
                self._waiting_for(window).update(new_keys)
            # A window that fires does not find contents that are None, so such keys wait for all windows.
            contents = self._slices.at(start).current
            for key in [key for key in new_keys if contents.get(key) is None]:
                for window in windows:
                    self._waiting_for(window)[key] = True
        if self._blocks is not None:
            self._blocks.changed(self._slicing.number_of(start), keys)

    def _add_to_slice(
        self, start: int, windows: Sequence[int], keys: list[Any], values: Values, new_keys: list[Layer] | None = None
    ) -> None:
        if new_keys is None:
            new_keys = [self._waiting_for(window) for window in windows]
        for window in windows if self._ended.slices else ():
            if window in self._ended.slices:
                # After a restart event time starts again, so a window that has fired waits again. Its keys exist in the
                # slice, so `add_records` would not report them as new.
                self._waiting_for(window).update(dict.fromkeys(keys, True))
        rest = iter(values)
        try:
            self.contents.add_records(keys, rest, self._slices.at(start), new_keys)
        except RAISED as error:
            position = last_position(values, rest)
            raise self.context.user_error(error, self.contents.method, values[position], keys[position]) from error

    def _waiting_for(self, window: int) -> Layer:
        return _keys_at(window, self._waiting, self._waiting_heap)

    def _add_behind(self, key: Any, value: Any, timestamp: int) -> Iterator[None]:
        """Add a record before the horizon: its ended windows fire again, unless their allowed lateness has ended."""
        windows = [window for window in self._slicing.windows_of(timestamp) if not self._has_expired(window)]
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
                (window_value,) = self._for_window([value])
                self._add(window, key, window_value, timestamp)
            _keys_at(window, self._ended, self._ended_heap)[key] = True
            contents = self._assemble(self._slices_in(window), key)
            yield from self.evaluate(key, self._time_window(window), contents)
            if not self.context.budget.may_continue():
                yield

    def _time_window(self, window: int) -> TimeWindow:
        return TimeWindow(self._slicing.window_start(window), window + self._size)

    def _has_expired(self, window: int) -> bool:
        return self._last_ms(window, self._lateness_ms) <= self.timers.watermark

    def _last_ms(self, window: int, lateness_ms: int = 0) -> int:
        """Return the last millisecond of a window, including the allowed lateness if given."""
        return min(window + self._size - 1 + lateness_ms, MAX_TIMESTAMP)

    def _add(self, start: int, key: Any, value: Any, timestamp: int) -> None:
        try:
            self.contents.add_records([key], iter([value]), self._slices.at(start), [])
        except RAISED as error:
            raise self.context.user_error(error, self.contents.method, value, key=key, timestamp=timestamp) from error

    def wake_at_ms(self) -> int | None:
        # A millisecond after the window's last one: records that arrive in its last millisecond still belong to it.
        return self.or_maintenance(
            None if self.event_time or not self._waiting_heap else self._waiting_heap[0] + self._size
        )

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        if domain is not self._domain:
            return
        last_ms, lateness_ms = self._last_ms, self._lateness_ms
        waiting, fired = self._waiting_heap, self._ended_heap
        while True:
            fires_at = last_ms(waiting[0]) if waiting else None
            removed_at = last_ms(fired[0], lateness_ms) if fired else None
            if fires_at is not None and fires_at <= until and (removed_at is None or fires_at <= removed_at):
                yield from self._fire(heappop(waiting))
            elif removed_at is not None and removed_at <= until:
                yield from self._remove(heappop(fired))
            else:
                return
            # A watermark may end thousands of windows with a few results each.
            if not self.context.budget.may_continue():
                yield

    def _fire(self, window: int) -> Iterator[None]:
        keys = self._waiting.take(window)
        if self._blocks is not None:
            first = self._slicing.number_of(window)
            for _ in self._blocks.build(first, first + self._size // self._width):
                if not self.context.budget.may_continue():
                    yield
        if self._waits_for_next and self._succession.continues_after(window):
            yield from self._wait_for_next(window, keys)
        if self._carries:
            yield from self.carry(window, keys)
        if self.evaluation.emits_contents:
            yield from self._emit_contents(window, list(keys))
        else:
            yield from self._evaluate_keys(window, keys)
        if self._lateness_ms:
            self._note_ended(window, keys)
        else:
            yield from self._drop_slices(window, keys)

    def _note_ended(self, window: int, keys: Mapping[Any, Any]) -> None:
        """Let keys that have fired wait for the end of the allowed lateness."""
        _keys_at(window, self._ended, self._ended_heap).update(keys)

    def _wait_for_next(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """Let keys with contents in the next window wait for it."""
        readers = self._readers(window + self._slide, window + self._size)
        # The latest slices first: most keys have contents there.
        readers.reverse()
        found: Layer = {}
        yield from with_contents(keys, readers, found, self.context.budget.may_continue)
        if found:
            self._waiting_for(window + self._slide).update(found)

    def carried_into(self, window: int) -> int | None:
        """Return the window into which contents of a window are carried; None: it is the last with its start."""
        return None if window == self._slicing.window_start(window) else window + self._slide

    def carry(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """Merge the contents of these keys into the next window."""
        into = self.carried_into(window)
        if into is None:
            return
        (read,) = self._slices_in(window)
        for number, key in enumerate(keys):
            contents = read(key)
            if contents is not None:
                later = self._slices.at(into)
                others = later.get(key)
                later.put(key, contents if others is None else self._merged([contents, others], key))
            if number % _KEYS_PER_CLOCK_READING == 0 and not self.context.budget.may_continue():
                yield
        self._waiting_for(into).update(keys)

    def _emit_contents(self, window: int, keys: list[Any]) -> Iterator[None]:
        """Fire a window without a window function, a chunk of results at a time."""
        rest = iter(keys)
        slices = self._slices_in(window)
        if self._shares:
            contents: Iterator[Any] = (self._assemble(slices, key) for key in rest)
        else:
            contents = map(slices[0], rest)
            if (self._lateness_ms or self._carries) and self.contents.result_is_computed:
                contents = map(independent_copy, contents)
        result = self.contents.result_function
        timestamp = self._last_ms(window)
        budget, pacing = self.context.budget, self._firing
        remaining = len(keys)
        while remaining:
            count = min(max(1, min(budget.chunk_records - len(self.results), pacing.records_max)), remaining)
            remaining -= count
            started_ns = budget.clock()
            try:
                # As in Flink, neither an accumulator nor a result that is None is emitted.
                chunk = checked_results([result(each) for each in islice(contents, count) if each is not None])
            except RAISED as error:
                key = keys[last_position(keys, rest)]
                raise self.context.user_error(error, self.contents.method, key=key, timestamp=timestamp) from error
            pacing.adapt(count, budget.clock() - started_ns)
            types = set(map(type, chunk))
            if NoneType in types:
                chunk = [each for each in chunk if each is not None]
            # Emit copies: a result may be the accumulator itself, which a late record changes.
            self.results += chunk if types <= ATOMS else map(self.copy_value, chunk)
            self.result_times += [timestamp] * len(chunk)
            if self.is_full() or not budget.may_continue():
                yield

    def _evaluate_keys(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """Fire a window with a window function, key by key."""
        slices = self._slices_in(window)
        time_window = self._time_window(window)
        is_removed = not self._lateness_ms
        # Contents merged from shared slices are new objects, so only this firing uses them.
        is_shared = not self._shares and (self._overlap or not is_removed)
        may_continue = self.context.budget.may_continue
        for key in keys:
            yield from self.evaluate(key, time_window, self._assemble(slices, key), is_shared)
            if is_removed:
                self.clear_evaluation(key, time_window)
            if not may_continue():
                yield

    def _remove(self, window: int) -> Iterator[None]:
        """Remove a window whose allowed lateness has ended."""
        keys = self._ended.take(window)
        if not self.evaluation.emits_contents:
            time_window = self._time_window(window)
            for key in keys:
                self.clear_evaluation(key, time_window)
                if not self.context.budget.may_continue():
                    yield
        yield from self._drop_slices(window, keys)

    def _slices_in(self, window: int) -> list[Callable[[Any], Any]]:
        """Return a function from key to contents for each existing slice of the window."""
        # Looked up once per window, not once per key.
        readers = self._readers(window, window + self._size) if self._shares else self._reader_at(window)
        return readers or [_nothing]

    def _readers(self, start: int, end: int) -> list[Callable[[Any], Any]]:
        # Readers of shared slices, or of blocks.
        if self._blocks is not None:
            return self._blocks.readers(self._slicing.number_of(start), self._slicing.number_of(end))
        return [reader for at in range(start, end, self._width) for reader in self._reader_at(at)]

    def _reader_at(self, start: int) -> list[Callable[[Any], Any]]:
        reader = self._slices.reader(start)
        return [] if reader is None else [reader]

    def _assemble(self, slices: list[Callable[[Any], Any]], key: Any) -> Any:
        parts = [contents for read in slices if (contents := read(key)) is not None]
        if len(parts) < 2:
            # There may be no part: the user's function may have returned None as the contents.
            contents = parts[0] if parts else None
            return independent_copy(contents) if self._shares else contents
        return self._merged(parts, key)

    def _merged(self, parts: list[Any], key: Any) -> Any:
        try:
            return merged(parts, self.contents.merge_function)
        except RAISED as error:
            raise self.context.user_error(error, f"merge of {self.contents.method}", key=key) from error

    def _drop_slices(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        """Drop the slices that no later window contains, for these keys."""
        for start in range(window, window + self._slide, self._width) if self._shares else [window]:
            if self._blocks is not None:
                self._blocks.drop(self._slicing.number_of(start))
            yield from self._slices.drop(start, keys)


def _nothing(key: Any) -> None:
    """Read nothing: contents may be None, and snapshots do not store None."""


def _keys_at(window: int, table: SlicedTable, heap: list[int]) -> Layer:
    """Return the keys of a window, to write to during this call."""
    if window not in table.slices:
        heappush(heap, window)
    return table.at(window).current
