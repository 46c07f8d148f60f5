"""Sliding windows of delay: for each airport, its departures and its arrivals apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from penstock.common.time import Time
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import SlidingEventTimeWindows, TimeWindow
from penstock_examples.flights.records import HOUR_MS, AirportWindow, Report

SIZE = Time.hours(2)
SLIDE_MS = HOUR_MS
LATENESS_MS = HOUR_MS

TOO_LATE: OutputTag[Report] = OutputTag("too late for all windows")


class Delays(msgspec.Struct, frozen=True, gc=False):
    """What is known of a window so far."""

    reports: int = 0
    delayed: int = 0
    delay_sum: int = 0
    worst: int | None = None
    ids: tuple[tuple[int, int], ...] = ()
    """(scheduled time, id) of each report."""


class DelayAggregate(AggregateFunction[Report, Delays, Delays]):
    """Adds up reports. In which order they come makes no difference."""

    def create_accumulator(self) -> Delays:
        """Nothing yet."""
        return Delays()

    def add(self, value: Report, accumulator: Delays) -> Delays:
        """One more report."""
        delay, worst = value.delay, accumulator.worst
        ids = (*accumulator.ids, (value.scheduled_ms, value.id))
        if delay is None:
            return Delays(accumulator.reports + 1, accumulator.delayed, accumulator.delay_sum, worst, ids)
        worst = delay if worst is None else max(worst, delay)
        return Delays(accumulator.reports + 1, accumulator.delayed + 1, accumulator.delay_sum + delay, worst, ids)

    def get_result(self, accumulator: Delays) -> Delays:
        """The sums."""
        return accumulator

    def merge(self, acc_a: Delays, acc_b: Delays) -> Delays:
        """The sums of both."""
        worsts = [worst for worst in (acc_a.worst, acc_b.worst) if worst is not None]
        return Delays(
            acc_a.reports + acc_b.reports,
            acc_a.delayed + acc_b.delayed,
            acc_a.delay_sum + acc_b.delay_sum,
            max(worsts, default=None),
            acc_a.ids + acc_b.ids,
        )


class NameWindow(ProcessWindowFunction[Delays, AirportWindow, tuple[str, str], TimeWindow]):
    """Says which window it is, and which reports have no later one."""

    def process(
        self,
        key: tuple[str, str],
        context: ProcessWindowFunction.Context[TimeWindow],
        elements: Iterable[Delays],
    ) -> Iterator[AirportWindow]:
        """One result for each firing: a late report that is allowed fires its windows once more."""
        window = context.window()
        for delays in elements:
            # The windows of a report are those that begin in the two hours before it: the last to close is the one
            # that began less than a slide before. A report that this one refuses has been refused by all.
            first_slide = sorted(id for scheduled_ms, id in delays.ids if scheduled_ms < window.start + SLIDE_MS)
            yield AirportWindow(
                *key,
                window.start,
                window.end,
                delays.reports,
                delays.delayed,
                delays.delay_sum,
                delays.worst,
                tuple(first_slide),
            )


def airport_windows(reports: DataStream[Report]) -> DataStream[AirportWindow]:
    """Windows of two hours, one each hour. They wait an hour for late reports; later ones go to TOO_LATE."""
    return (
        reports.key_by(lambda report: (report.airport, report.kind))
        .window(SlidingEventTimeWindows.of(SIZE, Time.milliseconds(SLIDE_MS)))
        .allowed_lateness(LATENESS_MS)
        .side_output_late_data(TOO_LATE)
        .aggregate(DelayAggregate(), NameWindow())
        .name("delay per airport")
        .uid("airport-delay")
    )
