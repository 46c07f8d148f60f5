"""What a process function may ask of time. Source: Flink docs, "Process Function", Timers."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod


class TimeDomain(enum.Enum):
    """Whether a firing timer is one of event time or of processing time."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """What a process function may ask of time. All times are milliseconds.

    The time of a timer is an int of 64 bits, or a number of numpy that is one; other methods than the first two raise
    TypeError for what is no integer, ValueError beyond 64 bits.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The wall clock of the machine, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time of this subtask: the lowest possible value until the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for the current key once the wall clock passes `timestamp`.

        In BATCH: when all records of the key are processed, after its timers of event time; ignored in `on_timer`.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for the current key once the watermark passes `timestamp`.

        In BATCH: when all records of the key are processed; ignored in `on_timer`.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete that timer of the current key, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete that timer of the current key, if there is one."""
