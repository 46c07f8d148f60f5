"""The replay: a source with one split for each airport's feed, and the watermarks of a feed."""

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
    """One airport's reports from position `start` on; `until_ms` is how far the replay has come."""

    index: int
    start: int = 0
    until_ms: int = 0

    @property
    def split_id(self) -> str:
        """The airport."""
        return FEEDS[self.index]


class FlightSource(Source[Report]):
    """Replays the reports of each feed in the order in which they came."""

    def __init__(self, counts: Mapping[str, int], reports_per_s: float = 0) -> None:
        """`counts`: how many reports of each feed are replayed. `reports_per_s`: 0 for as fast as it goes."""
        self._counts = dict(counts)
        self._rate = RateLimiterStrategy.per_second(reports_per_s) if reports_per_s else RateLimiterStrategy.no_op()

    def get_boundedness(self) -> Boundedness:
        """BOUNDED: the year ends."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """One split for each feed."""
        return _FeedEnumerator(context, map(Feed, range(len(FEEDS))))

    def restore_enumerator(self, context: EnumeratorContext, state: list[Feed]) -> SplitEnumerator:
        """Go on with the feeds that were not assigned."""
        return _FeedEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Report]:
        """A reader for one subtask, of one feed or several."""
        limiter = self._rate.create_rate_limiter(context.parallelism, context.subtask)
        return _FeedReader(context, self._counts, limiter)


class _FeedEnumerator(SplitEnumerator):
    """Feed k is for subtask k mod parallelism. A subtask gets all of its feeds at once: it is to read them together."""

    def __init__(self, context: EnumeratorContext, feeds: Iterable[Feed]) -> None:
        self._context = context
        self._pending = list(feeds)

    def handle_split_request(self, subtask: int) -> None:
        mine = [feed for feed in self._pending if feed.index % self._context.parallelism == subtask]
        for feed in mine:
            self._pending.remove(feed)
            self._context.assign_split(feed, subtask)
        self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Feed], subtask: int) -> None:
        self._pending.extend(splits)

    def snapshot_state(self) -> list[Feed]:
        return list(self._pending)


class _FeedReader(SplitReader[Report]):
    """Takes its feeds in turn, an hour of each: so they stay together, as they were."""

    interleaved = True

    def __init__(self, context: ReaderContext, counts: Mapping[str, int], limiter: RateLimiter | None) -> None:
        super().__init__(context)
        self._counts = counts
        self._limiter = limiter
        self._feeds: dict[str, Reports] = {}
        self._complete = False

    def start(self) -> None:
        # Also with feeds from a snapshot: the answer is that there are no more.
        self.context.request_split()

    def no_more_splits(self) -> None:
        super().no_more_splits()
        self._complete = True

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        # A feed that began before the others were there would run ahead of them.
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
        # The first hour of all feeds begins with the year, wherever their first report is.
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
    """The watermark stays `bound_ms` behind the latest event time, and moves in steps.

    As BoundedOutOfOrdernessWatermarks does, but for when: that one waits for the clock on the wall, in which a replay
    runs through weeks. This one goes by the reports, so a feed has the same watermarks each time.
    """

    def __init__(self, bound_ms: int, step_ms: int = 15 * MINUTE_MS) -> None:
        self._delay_ms = bound_ms + 1
        self._step_ms = step_ms
        self._latest_ms = self._due_ms = -(2**62)

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Emit a watermark if event time has come a step further."""
        if timestamp > self._latest_ms:
            self._latest_ms = timestamp
            if timestamp >= self._due_ms:
                self._due_ms = timestamp + self._step_ms
                output.emit_watermark(timestamp - self._delay_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Does nothing: the reports set the pace."""


def watermark_strategy(bound_ms: int) -> WatermarkStrategy:
    """Scheduled times as event time, and `bound_ms` to wait for what comes out of order."""
    return WatermarkStrategy.for_generator(lambda: FeedWatermarks(bound_ms)).with_timestamp_assigner(
        lambda report, _: report.scheduled_ms
    )
