"""Follows aircraft: how much of a departure's delay is due to the delay of the aircraft's previous flight?

The data contain flights out of New York only. So the inherited delay is at most the delay of the aircraft's last
arrival elsewhere (it then flew back, and may have recovered part of it), and at most the delay of the departure. After
a night on the ground nothing is inherited.

The result depends on what preceded a departure in *event time*, while reports arrive in any order. So reports wait in
state for a timer of their own event time: when it fires, all earlier ones have been processed. Reports with equal times
are processed arrivals first, then by id: a total order, so the result does not depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock_examples.flights.records import ARRIVAL, DEPARTURE, HOUR_MS, AircraftLog, KnockOn, Report

REST_MS = 12 * HOUR_MS
"""An aircraft that was due this long before its departure had the night to recover its delay."""

END_OF_TIME_MS = 2**63 - 1
"""The final watermark of a stream, at which the logs are closed."""

TOO_LATE: OutputTag[Report] = OutputTag("too late to be followed")


class LastArrival(NamedTuple):
    """The last known delay of the aircraft."""

    scheduled_ms: int
    delay: int


class Totals(NamedTuple):
    """The totals of an aircraft."""

    departures: int = 0
    delay_sum: int = 0
    brought_sum: int = 0
    chain: int = 0
    longest_chain: int = 0


class FollowAircraft(KeyedProcessFunction[str | None, Report, "KnockOn | AircraftLog"]):
    """Emits a KnockOn for each departure delayed by its aircraft, and an AircraftLog at the end of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the states of an aircraft."""
        self._waiting = runtime_context.get_map_state(MapStateDescriptor("waiting"))
        self._last_arrival = runtime_context.get_state(ValueStateDescriptor("last-arrival"))
        self._totals = runtime_context.get_state(ValueStateDescriptor("totals"))
        self._followed = runtime_context.get_list_state(ListStateDescriptor("followed"))

    def process_element(self, value: Report, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Store the report until its timer fires; a late one is sent to TOO_LATE."""
        timers = ctx.timer_service()
        if value.scheduled_ms <= timers.current_watermark():
            yield TOO_LATE, value
            return
        same_time = self._waiting.get(value.scheduled_ms) or []
        self._waiting.put(value.scheduled_ms, [*same_time, value])
        timers.register_event_time_timer(value.scheduled_ms)
        timers.register_event_time_timer(END_OF_TIME_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[KnockOn | AircraftLog]:
        """Process the reports of this timestamp."""
        totals = self._totals.value() or Totals()
        if timestamp == END_OF_TIME_MS:
            yield self._log(ctx.get_current_key(), totals)
            return
        for report in sorted(self._waiting.get(timestamp) or (), key=lambda report: (report.kind, report.id)):
            self._followed.add(report.id)
            if report.delay is None:
                continue
            if report.kind == ARRIVAL:
                self._last_arrival.update(LastArrival(report.scheduled_ms, report.delay))
                continue
            totals, knock_on = self._depart(report, totals)
            if knock_on is not None:
                yield knock_on
        self._waiting.remove(timestamp)
        self._totals.update(totals)

    def _log(self, tailnum: str, totals: Totals) -> AircraftLog:
        departures, delay_sum, brought_sum, _, longest_chain = totals
        return AircraftLog(
            tailnum=tailnum,
            departures=departures,
            delay_sum=delay_sum,
            brought_sum=brought_sum,
            longest_chain=longest_chain,
            followed=tuple(self._followed.get()),
        )

    def _depart(self, report: Report, totals: Totals) -> tuple[Totals, KnockOn | None]:
        assert report.kind == DEPARTURE
        assert report.delay is not None
        assert report.tailnum is not None
        last: LastArrival | None = self._last_arrival.value()
        brought = 0
        if last is not None and report.scheduled_ms - last.scheduled_ms < REST_MS:
            brought = max(0, min(report.delay, last.delay))
        chain = totals.chain + 1 if brought else 0
        totals = Totals(
            departures=totals.departures + 1,
            delay_sum=totals.delay_sum + max(0, report.delay),
            brought_sum=totals.brought_sum + brought,
            chain=chain,
            longest_chain=max(chain, totals.longest_chain),
        )
        if not brought:
            return totals, None
        return totals, KnockOn(
            tailnum=report.tailnum,
            flight=report.flight,
            airport=report.airport,
            scheduled_ms=report.scheduled_ms,
            delay=report.delay,
            brought=brought,
            chain=chain,
        )


def follow_aircraft(reports: DataStream[Report]) -> DataStream[KnockOn | AircraftLog]:
    """Return KnockOns continuously and an AircraftLog per aircraft at the end; late reports are sent to TOO_LATE."""
    return (
        reports.key_by(lambda report: report.tailnum)
        .process(FollowAircraft())
        .name("follow aircraft")
        .uid("follow-aircraft")
    )
