"""The record types of the jobs. Times are milliseconds since the epoch (UTC), delays are whole minutes.

They are Structs, because they are pickled between tasks, which takes a third of the time of a NamedTuple.
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
"""Landed elsewhere first; the data contain its final arrival time, but no delay."""
LOST_SIGHT = "no arrival"
"""Departed, but its arrival time is unknown."""


class Report(msgspec.Struct, frozen=True, order=True, gc=False):
    """A departure or an arrival: its event time is the scheduled time, and it is reported when it actually happened."""

    id: int
    """Twice the line number of the flight in the data set, plus one for its arrival."""
    kind: str
    outcome: str
    airport: str
    """The origin of a departure, the destination of an arrival."""
    flight: str
    tailnum: str | None
    """Missing for some flights canceled before an aircraft was assigned."""
    scheduled_ms: int
    reported_ms: int
    delay: int | None
    """Negative if early; None if it did not happen or is unknown."""


class AirportWindow(msgspec.Struct, frozen=True, order=True, gc=False):
    """A window of an airport's departures or arrivals, at one firing."""

    airport: str
    kind: str
    start_ms: int
    end_ms: int
    reports: int
    delayed: int
    """Number of reports with a known delay, including delays of 0 or less."""
    delay_sum: int
    worst: int | None
    first_slide: tuple[int, ...]
    """Ids of the reports for which this is the last window: each report has one such window."""


class KnockOn(msgspec.Struct, frozen=True, order=True, gc=False):
    """A departure delayed by its aircraft."""

    tailnum: str
    flight: str
    airport: str
    scheduled_ms: int
    delay: int
    brought: int
    """Minutes of `delay` inherited from the aircraft's previous flight."""
    chain: int
    """Number of consecutive departures affected by this delay, including this one."""


class AircraftLog(msgspec.Struct, frozen=True, order=True, gc=False):
    """The totals of an aircraft over the whole period."""

    tailnum: str
    departures: int
    delay_sum: int
    """Total minutes of all late departures."""
    brought_sum: int
    longest_chain: int
    followed: tuple[int, ...]
    """Ids of its reports, in the order of processing."""
