"""What flows through the jobs. Times are milliseconds since the epoch (UTC), delays are whole minutes.

Structs, since they are pickled on their way between tasks: that takes a third of the time of a NamedTuple.
"""

from __future__ import annotations

import msgspec

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

DEPARTURE = "departure"
ARRIVAL = "arrival"

DEPARTED = "departed"
CANCELLED = "cancelled"
LANDED = "landed"
DIVERTED = "diverted"
"""Landed somewhere else first; the data tell when it came in the end, but no delay."""
LOST_SIGHT = "no arrival"
"""Departed, and no time of arrival is known."""


class Report(msgspec.Struct, frozen=True, order=True, gc=False):
    """A departure or an arrival: its event time is the scheduled one, it is reported when it really happened."""

    id: int
    """Twice the line of the flight in the data set, and one more for its arrival."""
    kind: str
    outcome: str
    airport: str
    """Where: the origin of a departure, the destination of an arrival."""
    flight: str
    tailnum: str | None
    """None for some flights that were cancelled before they had an aircraft."""
    scheduled_ms: int
    reported_ms: int
    delay: int | None
    """Below 0 if early; None if it did not happen, or nobody wrote it down."""


class AirportWindow(msgspec.Struct, frozen=True, order=True, gc=False):
    """One window of an airport's departures or arrivals, as it was when it fired."""

    airport: str
    kind: str
    start_ms: int
    end_ms: int
    reports: int
    delayed: int
    """How many of them have a delay, be it 0 or below."""
    delay_sum: int
    worst: int | None
    first_slide: tuple[int, ...]
    """Ids of the reports for which this is the last of their windows: no report has two such windows."""


class KnockOn(msgspec.Struct, frozen=True, order=True, gc=False):
    """A departure that was late because its aircraft was."""

    tailnum: str
    flight: str
    airport: str
    scheduled_ms: int
    delay: int
    brought: int
    """Minutes of `delay` that the aircraft was late by on its flight before."""
    chain: int
    """How many departures in a row its lateness has reached, this one included."""


class AircraftLog(msgspec.Struct, frozen=True, order=True, gc=False):
    """What became of an aircraft in the whole time."""

    tailnum: str
    departures: int
    delay_sum: int
    """Minutes of all late departures."""
    brought_sum: int
    longest_chain: int
    followed: tuple[int, ...]
    """Ids of its reports, in the order of decision."""
