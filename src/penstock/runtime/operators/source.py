"""The source of a vertex: polls its reader, gives records their timestamps, generates watermarks per split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.runtime.event_time import EventTime
from penstock.runtime.operators.operator import Operator, Timestamps, Values, positions_taken
from penstock.runtime.source import END_OF_INPUT, Nothing, Records, Source, SourceReader
from penstock.runtime.watermarks import WatermarkValve

if TYPE_CHECKING:
    from penstock.runtime.context import OperatorContext
    from penstock.runtime.operators.operator import Output

_NO_SPLIT = "no split yet"


class SourceOperator(Operator):
    """Head of a source vertex. `poll` takes the place of `process`."""

    reader: SourceReader[Any]

    def __init__(self, name: str, source: Source[Any], strategy: WatermarkStrategy, interval_ms: int) -> None:
        super().__init__(name)
        self.source = source
        self._strategy = strategy
        self._interval_ms = interval_ms

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._times: dict[str, EventTime] = {_NO_SPLIT: EventTime(self._strategy, context.now_ms)}
        self._valve = WatermarkValve([_NO_SPLIT], self._remember_watermark, self._remember_status)
        self._watermark: int | None = None
        self._status: bool | None = None
        self._active = True
        self._pieces: Iterator[tuple[Values, Timestamps]] = iter(())
        self._split: str | None = None
        self._split_finished = False
        self._next_ms = context.now_ms() + self._interval_ms
        self.poll_at_ms: int | None = context.now_ms()
        self.ended = False
        self.reader = self.source.create_reader(ReaderOfSubtask(context))

    def open(self) -> None:
        self.reader.start()

    def close(self) -> None:
        self.reader.close()

    def add_splits(self, splits: Sequence[Any]) -> None:
        """The enumerator assigned splits."""
        self.reader.add_splits(splits)
        self.poll_at_ms = self.context.now_ms()

    def no_more_splits(self) -> None:
        """The enumerator has nothing left for this subtask."""
        self.reader.no_more_splits()
        self.poll_at_ms = self.context.now_ms()

    def poll(self) -> bool:
        """Read one chunk and emit it. False: stop for now; `ended` and `poll_at_ms` say how to go on."""
        result = self.reader.poll(self.context.budget.chunk_records)
        if isinstance(result, Nothing):
            self.poll_at_ms = result.retry_at_ms
            return False
        if result is END_OF_INPUT:
            self.ended = True
            return False
        assert isinstance(result, Records)
        self.poll_at_ms = self.context.now_ms()
        self._split, self._split_finished = result.split_id, result.split_finished
        if result.values:
            self.context.counters.records_in += len(result.values)
            self._begin(result)
        return self.resume()

    def _begin(self, records: Records) -> None:
        times = self._times.get(records.split_id)
        if times is None:
            times = self._times[records.split_id] = EventTime(self._strategy, self.context.now_ms)
            self._valve.add(records.split_id)
            if _NO_SPLIT in self._times:
                del self._times[_NO_SPLIT]
                self._valve.remove(_NO_SPLIT)
        rest = iter(records.values)
        try:
            stamped = times.timestamps(rest, len(records.values), records.timestamps)
        except Exception as error:
            value = records.values[positions_taken(records.values, rest)]
            raise self.context.user_error(error, "timestamp assigner", value) from error
        self._pieces = times.pieces(records.values, stamped)

    def resume(self) -> bool:
        self.paused = False
        assert self._split is not None
        times = self._times.get(self._split)
        for values, timestamps in self._pieces:
            go_on = self.output.emit(values, timestamps)
            self._apply(self._split, times)
            if not (self._hand_on() and go_on):
                self.paused = True
                return False
        if self._split_finished and times is not None:
            times.periodic()
            self._apply(self._split, times)
            del self._times[self._split]
            self._split_finished = False
            if not self._times:
                self._times[_NO_SPLIT] = EventTime(self._strategy, self.context.now_ms)
                self._valve.add(_NO_SPLIT)
            self._valve.remove(self._split)
            return self._hand_on()
        return True

    def end_of_time(self) -> bool:
        """The last watermark: nothing can come after it."""
        if not self._active:
            self._active = True
            self.output.status(True)
        return self.output.watermark(MAX_TIMESTAMP)

    def wake_at_ms(self) -> int | None:
        return None if self.context.info.batched else self._next_ms

    def processing_time(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + self._interval_ms
        for split, times in self._times.items():
            times.periodic()
            self._apply(split, times)
        return self._hand_on()

    def _apply(self, split: str, times: EventTime | None) -> None:
        if times is None:
            return
        self._valve.status(split, times.active)
        watermark = times.take()
        if watermark is not None:
            self._valve.watermark(split, watermark)

    def _remember_watermark(self, timestamp: int) -> None:
        self._watermark = timestamp

    def _remember_status(self, active: bool) -> None:
        self._status = active

    def _hand_on(self) -> bool:
        """Emit what the valve let through. In batched mode event time stands still until the end."""
        watermark, status = self._watermark, self._status
        self._watermark = self._status = None
        if self.context.info.batched:
            return True
        self._active = self._active if status is None else status
        if status is True:
            self.output.status(True)
        go_on = True
        if watermark is not None:
            self.context.counters.watermark = watermark
            go_on = self.output.watermark(watermark)
        if status is False:
            self.output.status(False)
        return go_on


class ReaderOfSubtask:
    """The ReaderContext of a subtask."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    @property
    def subtask(self) -> int:
        return self._context.info.subtask

    @property
    def parallelism(self) -> int:
        return self._context.info.parallelism

    def now_ms(self) -> int:
        return self._context.now_ms()

    def request_split(self) -> None:
        self._context.request_split()
