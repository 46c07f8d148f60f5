"""Time and timers of process functions. Source: Flink docs, "Process Function", Timers."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod


class TimeDomain(enum.Enum):
    """Whether a timer fires by event time or by processing time."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Returns the current time, registers and deletes timers. All times are milliseconds.

    The time of a timer is an int of 64 bits, or an integer of numpy. The methods that take one raise TypeError if it is
    not an integer, ValueError if it has more than 64 bits.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the wall clock of the machine, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the event time of this subtask. It is the lowest 64-bit integer until the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for the current key once the wall clock passes `timestamp`.

        In BATCH mode it fires when all records of the key are processed, after the key's event-time timers; a timer
        that `on_timer` registers is ignored.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for the current key once the watermark passes `timestamp`.

        In BATCH mode it fires when all records of the key are processed; a timer that `on_timer` registers is ignored.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the current key's timer for `timestamp`, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the current key's timer for `timestamp`, if there is one."""
