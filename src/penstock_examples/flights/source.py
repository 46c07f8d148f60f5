"""The replay: a source with one split per airport's feed, and the watermarks of a feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from penstock.datastream.connectors.base import (
    Boundedness,
    Chunk,
    EndOfInput,
    EnumeratorContext,
    Nothing,
    ReaderContext,
    Records,
    Source,
    SplitEnumerator,
    SplitReader,
)
from penstock.datastream.connectors.datagen import RateLimiter, RateLimiterStrategy
from penstock_examples.flights.flights import FEEDS, Reports, read_reports
from penstock_examples.flights.records import HOUR_MS, MINUTE_MS, Report


class Feed(msgspec.Struct, frozen=True):
    """An airport's reports from position `start` on; `until_ms` is the time up to which they are replayed."""

    index: int
    start: int = 0
    until_ms: int = 0

    @property
    def split_id(self) -> str:
        """The airport."""
        return FEEDS[self.index]


class FlightSource(Source[Report]):
    """Replays the reports of each feed in the order of the reported events."""

    def __init__(self, counts: Mapping[str, int], reports_per_s: float = 0) -> None:
        """`counts`: number of reports of each feed to replay. `reports_per_s`: 0 for no limit."""
        self._counts = dict(counts)
        self._rate = RateLimiterStrategy.per_second(reports_per_s) if reports_per_s else RateLimiterStrategy.no_op()

    def get_boundedness(self) -> Boundedness:
        """BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create one split per feed."""
        return _FeedEnumerator(context, map(Feed, range(len(FEEDS))))

    def restore_enumerator(self, context: EnumeratorContext, state: list[Feed]) -> SplitEnumerator:
        """Restore the feeds that were not assigned."""
        return _FeedEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Report]:
        """Create the reader of one subtask, for one or several feeds."""
        limiter = self._rate.create_rate_limiter(context.parallelism, context.subtask)
        return _FeedReader(context, self._counts, limiter)


class _FeedEnumerator(SplitEnumerator):
    """Assigns feed k to subtask k mod parallelism. A subtask receives all its feeds at once, to read them together."""

    def __init__(self, context: EnumeratorContext, feeds: Iterable[Feed]) -> None:
        self._context = context
        self._pending = list(feeds)

    def handle_split_request(self, subtask: int) -> None:
        own = [feed for feed in self._pending if feed.index % self._context.parallelism == subtask]
        for feed in own:
            self._pending.remove(feed)
            self._context.assign_split(feed, subtask)
        self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Feed], subtask: int) -> None:
        self._pending.extend(splits)

    def snapshot_state(self) -> list[Feed]:
        return list(self._pending)


class _FeedReader(SplitReader[Report]):
    """Alternates between its feeds, an hour of event time each, so that they advance together as in reality."""

    interleaved = True

    def __init__(self, context: ReaderContext, counts: Mapping[str, int], limiter: RateLimiter | None) -> None:
        super().__init__(context)
        self._counts = counts
        self._limiter = limiter
        self._feeds: dict[str, Reports] = {}
        self._complete = False

    def start(self) -> None:
        # Also with feeds from a snapshot: the answer is then that all were assigned.
        self.context.request_split()

    def no_more_splits(self) -> None:
        super().no_more_splits()
        self._complete = True

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        # Wait for all feeds: one that starts before the others would run ahead of them.
        return super().poll(max_records) if self._complete else Nothing()

    def read(self, split: Feed, max_records: int) -> Chunk | Nothing:
        limiter = self._limiter
        if limiter is not None:
            max_records = min(max_records, limiter.due(self.context.now_ms()))
            if not max_records:
                return Nothing(limiter.next_due_ms())
        reports = self._feeds.get(split.split_id)
        if reports is None:
            reports = self._feeds[split.split_id] = read_reports(split.split_id).first(self._counts[split.split_id])
        times = reports.columns["reported_ms"]
        stop, count = split.start, len(reports)
        # The first hour of all feeds begins with the year, wherever their first reports are.
        until_ms = split.until_ms or _FIRST_MS
        last = min(split.start + max_records, count)
        while stop < last and times[stop] < until_ms:
            stop += 1
        records = reports.slice(split.start, stop)
        if limiter is not None:
            limiter.take(len(records))
        if stop == count:
            return Chunk(records, None)
        if times[stop] >= until_ms:
            until_ms += HOUR_MS
        return Chunk(records, Feed(split.index, stop, until_ms))


_FIRST_MS = 1_356_998_400_000  # 2013-01-01T00:00Z


class FeedWatermarks(WatermarkGenerator):
    """Emits watermarks `bound_ms` behind the latest event time, in steps.

    Like BoundedOutOfOrdernessWatermarks, but driven by records: periodic watermarks depend on the wall clock, and a
    replay covers weeks between two of them. So a feed has the same watermarks in each run.
    """

    def __init__(self, bound_ms: int, step_ms: int = 15 * MINUTE_MS) -> None:
        self._delay_ms = bound_ms + 1
        self._step_ms = step_ms
        self._latest_ms = self._due_ms = -(2**62)

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Emit a watermark if event time has advanced by a step."""
        if timestamp > self._latest_ms:
            self._latest_ms = timestamp
            if timestamp >= self._due_ms:
                self._due_ms = timestamp + self._step_ms
                output.emit_watermark(timestamp - self._delay_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing: watermarks depend on the reports only."""


def watermark_strategy(bound_ms: int) -> WatermarkStrategy:
    """Scheduled times as event time, with `bound_ms` milliseconds of out-of-orderness."""
    return WatermarkStrategy.for_generator(lambda: FeedWatermarks(bound_ms)).with_timestamp_assigner(
        lambda report, _: report.scheduled_ms
    )
