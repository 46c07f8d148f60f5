"""Durations and points in time of the API. Internally, all times are int milliseconds."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, TypeAlias

from penstock.common.types.whole_numbers import as_int

_NANOS_PER_MILLI = 1_000_000


@functools.total_ordering
class Duration:
    """A duration with nanosecond precision. Create it with `Duration.of_seconds(5)` and the like."""

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int) -> None:
        self._nanos = _whole(nanos, "nanoseconds")

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return a duration in days of 24 hours."""
        return Duration(_whole(days, "days") * 86_400_000 * _NANOS_PER_MILLI)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return a duration in hours."""
        return Duration(_whole(hours, "hours") * 3_600_000 * _NANOS_PER_MILLI)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return a duration in minutes."""
        return Duration(_whole(minutes, "minutes") * 60_000 * _NANOS_PER_MILLI)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return a duration in seconds."""
        return Duration(_whole(seconds, "seconds") * 1000 * _NANOS_PER_MILLI)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return a duration in milliseconds."""
        return Duration(_whole(millis, "milliseconds") * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return a duration in nanoseconds. Methods that need milliseconds truncate it."""
        return Duration(nanos)

    def to_millis(self) -> int:
        """Return whole milliseconds, rounded down."""
        return self._nanos // _NANOS_PER_MILLI

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Duration) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._nanos < other._nanos if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __reduce__(self) -> tuple[type[Duration], tuple[int]]:
        return Duration, (self._nanos,)

    def __repr__(self) -> str:
        millis, rest = divmod(self._nanos, _NANOS_PER_MILLI)
        return f"Duration<{self._nanos} ns>" if rest else f"Duration<{millis} ms>"


@functools.total_ordering
class Instant:
    """A point in time: seconds since the epoch (1970-01-01, UTC), plus 0 to 999,999,999 nanoseconds.

    Instants are ordered by time, as Java's are, so that fields of them have a minimum, and rows an order by them.
    """

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Return milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant `epoch_milli` milliseconds after the epoch, or before it if negative."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return self.seconds == other.seconds and self.nanos == other.nanos

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return (self.seconds, self.nanos) < (other.seconds, other.nanos)

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __reduce__(self) -> tuple[type[Instant], tuple[int, int]]:
        return Instant, (self.seconds, self.nanos)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """A duration in milliseconds, as used by windows: `Time.seconds(5)`."""

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = _whole(milliseconds, "milliseconds")

    def to_milliseconds(self) -> int:
        """Return the duration in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return a duration in milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return a duration in seconds."""
        return Time(_whole(seconds, "seconds") * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return a duration in minutes."""
        return Time(_whole(minutes, "minutes") * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return a duration in hours."""
        return Time(_whole(hours, "hours") * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Return a duration in days of 24 hours."""
        return Time(_whole(days, "days") * 86_400_000)

    def __eq__(self, other: object) -> bool:
        return self._milliseconds == other._milliseconds if isinstance(other, Time) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __reduce__(self) -> tuple[type[Time], tuple[int]]:
        return Time, (self._milliseconds,)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time<{self._milliseconds} ms>"


TimeLength: TypeAlias = Duration | Time | timedelta | int
"""Types accepted as a duration by public methods; an int is milliseconds."""


def to_milliseconds(value: TimeLength) -> int:
    """Convert a duration to whole milliseconds, rounded down. Raises TypeError for other values."""
    if isinstance(value, Time):
        return value.to_milliseconds()
    if isinstance(value, Duration):
        return value.to_millis()
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if (millis := as_int(value)) is not None:
        return millis
    raise TypeError(
        f"expected a Duration, a Time, a datetime.timedelta or an int of milliseconds, got {value!r} "
        f"of type {type(value).__name__}"
    )


def returned_milliseconds(length: Any, function: str) -> int:
    """Convert a duration that `function` returned to milliseconds. Raises TypeError, with the name of the function."""
    try:
        return to_milliseconds(length)
    except TypeError as error:
        raise TypeError(f"{function} returned {length!r:.80}: {error}") from None


def returned_time_ms(time_ms: Any, function: str) -> int | None:
    """Return a processing time (ms) that `function` returned as an int, or None if it returned None.

    Raises TypeError, with the name of the function, for other values, including durations.
    """
    if time_ms is None or type(time_ms) is int:
        return time_ms
    number = as_int(time_ms)
    if number is None:
        raise TypeError(
            f"{function} returned {time_ms!r:.80} of type {type(time_ms).__name__}: expected a processing time in "
            "milliseconds since the epoch, an int such as context.now_ms() + 500, or None"
        )
    return number


def _whole(count: int, unit: str) -> int:
    if (number := as_int(count)) is not None:
        return number
    raise TypeError(f"expected a whole number of {unit}, got {count!r} of type {type(count).__name__}")
