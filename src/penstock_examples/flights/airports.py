"""Sliding windows of delay per airport, separately for departures and arrivals."""

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
    """The accumulator of a window."""

    reports: int = 0
    delayed: int = 0
    delay_sum: int = 0
    worst: int | None = None
    ids: tuple[tuple[int, int], ...] = ()
    """(scheduled time, id) of each report."""


class DelayAggregate(AggregateFunction[Report, Delays, Delays]):
    """Sums up reports, independently of their order."""

    def create_accumulator(self) -> Delays:
        """Return an empty accumulator."""
        return Delays()

    def add(self, value: Report, accumulator: Delays) -> Delays:
        """Add a report."""
        delay, worst = value.delay, accumulator.worst
        ids = (*accumulator.ids, (value.scheduled_ms, value.id))
        if delay is None:
            return Delays(
                reports=accumulator.reports + 1,
                delayed=accumulator.delayed,
                delay_sum=accumulator.delay_sum,
                worst=worst,
                ids=ids,
            )
        worst = delay if worst is None else max(worst, delay)
        return Delays(
            reports=accumulator.reports + 1,
            delayed=accumulator.delayed + 1,
            delay_sum=accumulator.delay_sum + delay,
            worst=worst,
            ids=ids,
        )

    def get_result(self, accumulator: Delays) -> Delays:
        """Return the sums."""
        return accumulator

    def merge(self, acc_a: Delays, acc_b: Delays) -> Delays:
        """Return the sums of both."""
        worsts = [worst for worst in (acc_a.worst, acc_b.worst) if worst is not None]
        return Delays(
            reports=acc_a.reports + acc_b.reports,
            delayed=acc_a.delayed + acc_b.delayed,
            delay_sum=acc_a.delay_sum + acc_b.delay_sum,
            worst=max(worsts, default=None),
            ids=acc_a.ids + acc_b.ids,
        )


class NameWindow(ProcessWindowFunction[Delays, AirportWindow, tuple[str, str], TimeWindow]):
    """Adds the window's bounds, and the reports for which it is the last window."""

    def process(
        self,
        key: tuple[str, str],
        context: ProcessWindowFunction.Context[TimeWindow],
        elements: Iterable[Delays],
    ) -> Iterator[AirportWindow]:
        """Emit one result per firing: a late report within the allowed lateness fires its windows again."""
        window = context.window()
        for delays in elements:
            # The windows of a report begin in the two hours before it. The last one to close begins less than one slide
            # before it: if this window rejects a report as late, all its windows have rejected it.
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
    """Windows of two hours, every hour. They accept late reports for an hour; later ones are sent to TOO_LATE."""
    return (
        reports.key_by(lambda report: (report.airport, report.kind))
        .window(SlidingEventTimeWindows.of(SIZE, Time.milliseconds(SLIDE_MS)))
        .allowed_lateness(LATENESS_MS)
        .side_output_late_data(TOO_LATE)
        .aggregate(DelayAggregate(), NameWindow())
        .name("delay per airport")
        .uid("airport-delay")
    )
