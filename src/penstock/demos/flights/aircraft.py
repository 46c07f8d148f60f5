"""Following aircraft: how much of a departure's delay did the aircraft bring along from its flight before?

The data know only flights out of New York. So what an aircraft brought is at most what its last arrival elsewhere was
late by (it then flew back, and may have made up for some of it), and at most the delay of the departure. After a
night's rest it brings nothing.

A decision depends on what came before it in *event time*, while reports arrive as they may. So reports wait in state
for a timer of their own event time: when it fires, all earlier ones are there and decided. Reports of the same moment
are decided arrivals first, then by id: a total order, so the outcome is the same in whatever order they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.common.output_tag import OutputTag
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.demos.flights.records import ARRIVAL, DEPARTURE, HOUR_MS, AircraftLog, KnockOn, Report

REST_MS = 12 * HOUR_MS
"""An aircraft that was to arrive so long before its departure had the night to catch up."""

END_OF_TIME_MS = 2**63 - 1
"""The watermark that ends a stream: the moment to close the logs."""

TOO_LATE: OutputTag[Report] = OutputTag("too late to be followed")


class LastArrival(NamedTuple):
    """Where the aircraft's lateness stands."""

    scheduled_ms: int
    delay: int


class Totals(NamedTuple):
    """An aircraft's log so far."""

    departures: int = 0
    delay_sum: int = 0
    brought_sum: int = 0
    chain: int = 0
    longest_chain: int = 0


class FollowAircraft(KeyedProcessFunction[str | None, Report, "KnockOn | AircraftLog"]):
    """Emits a KnockOn for each departure that its aircraft made late, and an AircraftLog when time ends."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the states of an aircraft."""
        self._waiting = runtime_context.get_map_state(MapStateDescriptor("waiting"))
        self._last_arrival = runtime_context.get_state(ValueStateDescriptor("last-arrival"))
        self._totals = runtime_context.get_state(ValueStateDescriptor("totals"))
        self._followed = runtime_context.get_list_state(ListStateDescriptor("followed"))

    def process_element(self, value: Report, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Put the report aside until its time has come; one whose time is over goes to TOO_LATE."""
        timers = ctx.timer_service()
        if value.scheduled_ms <= timers.current_watermark():
            yield TOO_LATE, value
            return
        same_time = self._waiting.get(value.scheduled_ms) or []
        self._waiting.put(value.scheduled_ms, [*same_time, value])
        timers.register_event_time_timer(value.scheduled_ms)
        timers.register_event_time_timer(END_OF_TIME_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[KnockOn | AircraftLog]:
        """Decide the reports of this moment."""
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
        return AircraftLog(tailnum, departures, delay_sum, brought_sum, longest_chain, tuple(self._followed.get()))

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
            totals.departures + 1,
            totals.delay_sum + max(0, report.delay),
            totals.brought_sum + brought,
            chain,
            max(chain, totals.longest_chain),
        )
        if not brought:
            return totals, None
        return totals, KnockOn(
            report.tailnum, report.flight, report.airport, report.scheduled_ms, report.delay, brought, chain
        )


def follow_aircraft(reports: DataStream[Report]) -> DataStream[KnockOn | AircraftLog]:
    """KnockOns as they happen, an AircraftLog for each aircraft in the end; late reports go to TOO_LATE."""
    return (
        reports.key_by(lambda report: report.tailnum)
        .process(FollowAircraft())
        .name("follow aircraft")
        .uid("follow-aircraft")
    )
