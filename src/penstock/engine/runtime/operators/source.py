"""The source of a vertex: polls its reader, assigns timestamps to records, generates watermarks per split."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.metrics import MetricGroup
from penstock.api.source import END_OF_INPUT, Nothing, Records, Source, SourceReader
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import InputLostError, SourceError
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.user_calls import RAISED
from penstock.common.time import returned_time_ms
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.runtime.chunks import Chunk, Rows
from penstock.engine.runtime.operators.operator import Input, Operator, last_position, without_tagged
from penstock.engine.runtime.task.metrics import OperatorMetricGroup, watermark_lag_ms
from penstock.engine.runtime.time.event_time import EventTime, TimestampError, checked_timestamps
from penstock.engine.runtime.time.watermarks import AlignmentGate, CombinedWatermark
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

_BATCHED_RECORDS = 256
_NO_SPLIT = "no split yet"
SPLITS = "(source) splits"
"""Name of the state that holds a reader's splits, each at its position."""


class EventTimeOrigin(Operator):
    """Base of sources and of assign_timestamps_and_watermarks, which generate watermarks.

    It emits a chunk in pieces, and after each piece the watermark that its records generated. Subclasses announce
    watermarks and statuses in `advance`. A watermark must never overtake the records before it: if the chain pauses at
    a piece, nothing is emitted until the operator is resumed, when all operators after it have caught up.
    """

    _pieces: Iterator[Chunk] = iter(())
    _watermark: int | None = None
    _status: bool | None = None
    _active = True
    _time_ended = False

    def advance(self) -> None:
        """Announce the watermark and status that follow from the piece just emitted."""
        raise NotImplementedError

    def pieces_done(self) -> None:
        """Announce the watermark and status that follow from the whole chunk, which was emitted."""

    def announce_watermark(self, timestamp: int) -> None:
        """Emit this watermark (ms) as soon as all records before it are emitted."""
        self._watermark = timestamp

    def announce_status(self, active: bool) -> None:
        """Emit this status: activity before the announced watermark, idleness after it."""
        self._status = active

    def emit_pieces(self, pieces: Iterator[Chunk]) -> bool:
        """Emit a chunk, cut into pieces where the watermark generator emitted."""
        self._pieces = pieces
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        if not self.emit_announced():
            return self._pause()
        for piece in self._pieces:
            may_continue = self.output.emit(piece)
            self.advance()
            if not (may_continue and self.emit_announced()):
                return self._pause()
        self.pieces_done()
        return self.emit_announced() or self._pause()

    def emit_announced(self) -> bool:
        """Emit the announced watermark and status. In batched mode event time does not advance before the end."""
        if not self.context.mode.advances_time or self._time_ended:
            self._watermark = self._status = None
            return True
        if self._status is True:
            self._status = None
            self._set_active(True)
        if self._watermark is not None:
            watermark, self._watermark = self._watermark, None
            self.context.counters.watermark = watermark
            if not self.output.watermark(watermark):
                return False
        if self._status is False:
            self._status = None
            return self._set_active(False)
        return True

    def emit_announced_or_pause(self) -> bool:
        """Emit the announced watermark and status outside of a chunk."""
        return self.emit_announced() or self._pause()

    def end_time(self) -> bool:
        """Emit the last watermark, after which nothing follows."""
        self._set_active(True)
        self._time_ended = True
        self.context.counters.watermark = MAX_TIMESTAMP
        return self.output.watermark(MAX_TIMESTAMP)

    def _set_active(self, active: bool) -> bool:
        # Only idleness may return False: event time may advance where this stream meets another one.
        if active is self._active:
            return True
        self._active = active
        return self.output.status(active)

    def _pause(self) -> bool:
        self.paused = True
        return False


def failed_at(error: BaseException, values: Sequence[Any], rest: Any) -> int:
    """Return the index of the record without a timestamp. `rest`: the iterator that the assigner was called from."""
    return error.position if isinstance(error, TimestampError) else last_position(values, rest)


class SourceOperator(EventTimeOrigin):
    """The head of a source vertex. It has no inputs; `poll` replaces `process`."""

    source: Source[Any]
    strategy: WatermarkStrategy
    reader: SourceReader[Any]
    set_on_submission = ("name", "interval_ms")

    def __init__(self, name: str, source: Source[Any], strategy: WatermarkStrategy, interval_ms: int) -> None:
        super().__init__(name)
        self.source = source
        self.strategy = strategy
        self.interval_ms = interval_ms
        """Time between periodic watermarks."""
        self.given: Source[Any] | None = None
        """The program's object that `source` was copied from, only in the driver. It keeps resources of both alive: a
        temporary folder, for example, may be removed together with this object."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"given": None}

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        alignment = self.strategy.alignment if context.mode.advances_time else None
        self._gate = alignment and AlignmentGate(alignment, context.now_ms, context.report_watermark)
        self._times: dict[str, EventTime] = {_NO_SPLIT: self._new_time()}
        self._combined = CombinedWatermark([_NO_SPLIT])
        self._split: str | None = None
        self._split_finished = False
        self._awaits_split = False
        self._next_ms = context.now_ms() + self.interval_ms
        self.poll_at_ms: int | None = context.now_ms()
        self.ended = False
        self.polled_records = 0
        """How many records the last poll returned."""
        self._restored: list[Any] = []

    def open(self) -> None:
        counters = self.context.counters
        self.metrics = OperatorMetricGroup(counters)
        self.metrics.gauge("watermarkLag", lambda: watermark_lag_ms(counters, self.context.now_ms()))
        counters.extremes["watermarkLag"] = "max"
        with self._errors_named("create_reader"):
            self.reader = self.source.create_reader(SubtaskReaderContext(self.context, self.metrics))
        if self._restored:
            self.add_splits(self._restored)
        with self._errors_named("reader.start"):
            self.reader.start()

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        with self._errors_named("reader.prepare_snapshot"):
            self.reader.prepare_snapshot(checkpoint_id)
        return []

    def lists(self) -> list[NamedList]:
        with self._errors_named("reader.snapshot_state"):
            return [NamedList(SPLITS, Redistribution.SPLIT, self.reader.snapshot_state())]

    def restore_lists(self, lists: list[NamedList]) -> None:
        self._restored = [item for one in lists if one.name == SPLITS for item in one.items]

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        with self._errors_named("reader.notify_checkpoint_complete"):
            self.reader.notify_checkpoint_complete(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        with self._errors_named("reader.notify_checkpoint_aborted"):
            self.reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        if hasattr(self, "reader"):
            with self._errors_named("reader.close"):
                self.reader.close()

    @contextlib.contextmanager
    def _errors_named(self, method: str) -> Iterator[None]:
        """Let errors of the reader name the source, the subtask and the method."""
        try:
            yield
        except SourceError as error:
            info = self.context.info
            kind = InputLostError if isinstance(error, InputLostError) else SourceError
            raise kind(f"source '{self.name}', subtask {info.subtask + 1} of {info.parallelism}: {error}") from error
        except RAISED as error:
            raise self.context.user_error(error, f"{type(self.source).__name__} {method}") from error

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Give splits of the enumerator to the reader."""
        with self._errors_named("reader.add_splits"):
            self.reader.add_splits(splits)
            interleaved = [split.split_id for split in splits if self.reader.interleaves(split)]
        for split_id in interleaved:
            self._time_of(split_id)
        self.poll_at_ms = self.context.now_ms()

    def no_more_splits(self) -> None:
        """Tell the reader that the enumerator has no more splits."""
        with self._errors_named("reader.no_more_splits"):
            self.reader.no_more_splits()
        self.poll_at_ms = self.context.now_ms()

    def data_available(self) -> None:
        """Poll the reader next: it has records, or has failed."""
        self.poll_at_ms = self.context.now_ms()

    def align(self, max_watermark: int) -> None:
        """Set the event time (ms) up to which sources of the alignment group may emit."""
        if self._gate is not None:
            self._gate.move(max_watermark)
            self.poll_at_ms = self.context.now_ms()

    def inputs(self) -> Sequence[Input]:
        return ()

    def poll(self, records_max: int) -> bool:
        """Read a chunk and emit it. False: stop for now; `ended` and `poll_at_ms` say when to continue."""
        self.polled_records = 0
        if self._gate is not None and self._gate.is_closed(self._combined.current):
            # `align` opens the gate.
            self.poll_at_ms = None
            return False
        with self._errors_named("reader.poll"):
            result = self.reader.poll(self._poll_max(records_max))
            if isinstance(result, Nothing):
                self.poll_at_ms = returned_time_ms(result.retry_at_ms, f"Nothing of {type(self.reader).__name__}.poll")
                self._awaits_split = self.poll_at_ms is None and _NO_SPLIT in self._times
                return False
        self._awaits_split = False
        if result is END_OF_INPUT:
            self.ended = True
            return False
        assert isinstance(result, Records)
        self.poll_at_ms = self.context.now_ms()
        self._split, self._split_finished = result.split_id, result.split_finished
        self.polled_records = len(result.values)
        self.context.counters.records_in += len(result.values)
        main, may_continue = self._without_sides(result)
        return self.emit_pieces(self._stamped(main) if main.values else iter(())) and may_continue

    def _without_sides(self, records: Records) -> tuple[Records, bool]:
        """Emit what is for side outputs, without a timestamp of the strategy. Return the other records."""
        chunk = Rows(records.values, records.timestamps)
        main, may_continue = without_tagged(self.output, chunk)
        if main is chunk:
            return records, may_continue
        return Records(records.split_id, main.values, main.timestamps, records.split_finished), may_continue

    def _poll_max(self, records_max: int) -> int:
        # The same in batched mode: a task that runs twice has to read its splits in the same order.
        if self.context.mode.repeats_tasks:
            return _BATCHED_RECORDS
        return min(records_max, self.context.budget.chunk_records)

    def _time_of(self, split_id: str) -> EventTime:
        """Return the event time of a split. From the first call on, the watermark waits for this split."""
        times = self._times.get(split_id)
        if times is None:
            times = self._add(split_id)
            if _NO_SPLIT in self._times:
                self._remove(_NO_SPLIT)
            self.announce_status(self._combined.active)
        return times

    def _stamped(self, records: Records) -> Iterator[Chunk]:
        times = self._time_of(records.split_id)
        rest, known, method = iter(records.values), records.timestamps, "reader.poll"
        try:
            if known is not None:
                known = checked_timestamps(known, len(records.values))
            method = "timestamp assigner"
            stamped = times.timestamps(rest, len(records.values), known)
        except RAISED as error:
            value = records.values[failed_at(error, records.values, rest)]
            raise self.context.user_error(without_our_frames(error), method, value) from error
        return times.pieces(Rows(records.values, stamped))

    def advance(self) -> None:
        assert self._split is not None
        self._apply(self._split)

    def pieces_done(self) -> None:
        if not self._split_finished or self._split not in self._times:
            return
        self._times[self._split].periodic()
        self._apply(self._split)
        self._split_finished = False
        if len(self._times) == 1:
            self._add(_NO_SPLIT)
        self._remove(self._split)
        self.announce_status(self._combined.active)

    def wake_at_ms(self) -> int | None:
        # An interval of 0 disables periodic watermarks.
        has_no_interval = not self.context.mode.advances_time or self._time_ended or not self.interval_ms
        if self._gate is None:
            return None if has_no_interval else self._next_ms
        return self._gate.report_at_ms if has_no_interval else min(self._next_ms, self._gate.report_at_ms)

    def processing_time(self, now_ms: int) -> bool:
        if self._gate is not None and now_ms >= self._gate.report_at_ms:
            # A source that has ended does not limit the group. Neither does a source without a split: it may get its
            # next split only when the others have read theirs.
            limits = self._combined.active and not self.ended and not self._awaits_split
            self._gate.tick(self._combined.current, limits)
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + self.interval_ms
        for split, times in self._times.items():
            times.periodic()
            self._apply(split)
        return self.emit_announced_or_pause()

    def _apply(self, split: str) -> None:
        times, combined = self._times[split], self._combined
        watermark = times.take_watermark()
        advanced = combined.status(split, times.active)
        if watermark is not None:
            advanced = combined.watermark(split, watermark) or advanced
        self.announce_status(combined.active)
        if advanced:
            self.announce_watermark(combined.current)

    def _unblocked_ms(self) -> int:
        """Return the clock of idle timeouts, which stops while the source may not emit."""
        unblocked_ms = self.context.unblocked_ms()
        return unblocked_ms if self._gate is None else unblocked_ms - self._gate.waited_ms

    def _new_time(self) -> EventTime:
        return EventTime(self.strategy, self.interval_ms, self._unblocked_ms, self.context.user_error)

    def _add(self, split: str) -> EventTime:
        times = self._times[split] = self._new_time()
        self._combined.add(split)
        return times

    def _remove(self, split: str) -> None:
        del self._times[split]
        if self._combined.remove(split):
            self.announce_watermark(self._combined.current)


class SubtaskReaderContext:
    """Implements ReaderContext for a subtask."""

    def __init__(self, context: OperatorContext, metrics: MetricGroup) -> None:
        self._context = context
        self._metrics = metrics

    @property
    def subtask(self) -> int:
        return self._context.info.subtask

    @property
    def parallelism(self) -> int:
        return self._context.info.parallelism

    @property
    def checkpointing(self) -> bool:
        return self._context.info.checkpointing

    @property
    def batched(self) -> bool:
        return self._context.mode.repeats_tasks

    def now_ms(self) -> int:
        return self._context.now_ms()

    def request_split(self) -> None:
        self._context.request_split()

    def notify_available(self) -> None:
        self._context.notify_available()

    @property
    def metric_group(self) -> MetricGroup:
        return self._metrics
