"""When a part file is closed and the next one begun."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from penstock.common.time import TimeLength, to_milliseconds

DEFAULT_PART_BYTES = 128 * 1024 * 1024
DEFAULT_INTERVAL_MS = 60_000


class PartInfo(msgspec.Struct, frozen=True, gc=False):
    """A part file being written: bytes so far, when it was begun and last written to (ms of processing time)."""

    size: int
    created_ms: int
    written_ms: int


class RollingPolicy(ABC):
    """Decides when a part file is full. Every file is closed when a commit is prepared, whatever the policy."""

    @abstractmethod
    def size_limit(self) -> int | None:
        """A file that has this many bytes is closed after the record that reached it. None: no limit."""

    @abstractmethod
    def deadline_ms(self, part: PartInfo) -> int | None:
        """Processing time at which the file is closed if nothing more is written to it, or None."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_BYTES,
        rollover_interval: TimeLength = DEFAULT_INTERVAL_MS,
        inactivity_interval: TimeLength = DEFAULT_INTERVAL_MS,
    ) -> DefaultRollingPolicy:
        """Close a file by size, by age, or when it is not written to any more.

        That is at `part_size` bytes, `rollover_interval` after it was begun, or `inactivity_interval` after the last
        record (milliseconds or Durations). Defaults: 128 MiB, one minute, one minute.
        """
        return DefaultRollingPolicy(part_size, to_milliseconds(rollover_interval), to_milliseconds(inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Close files only when a commit is prepared."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """By size, age and inactivity."""

    def __init__(self, part_size: int, rollover_interval_ms: int, inactivity_interval_ms: int) -> None:
        for what, value in (
            ("part_size", part_size),
            ("rollover_interval", rollover_interval_ms),
            ("inactivity_interval", inactivity_interval_ms),
        ):
            if value <= 0:
                raise ValueError(f"{what} must be above 0, got {value}")
        self._part_bytes = part_size
        self._rollover_interval_ms = rollover_interval_ms
        self._inactivity_interval_ms = inactivity_interval_ms

    def size_limit(self) -> int | None:
        """The part size in bytes."""
        return self._part_bytes

    def deadline_ms(self, part: PartInfo) -> int | None:
        """Whichever of the two intervals ends first."""
        return min(part.created_ms + self._rollover_interval_ms, part.written_ms + self._inactivity_interval_ms)


class OnCheckpointRollingPolicy(RollingPolicy):
    """Only with commits."""

    def size_limit(self) -> int | None:
        """No limit."""
        return None

    def deadline_ms(self, part: PartInfo) -> int | None:
        """None."""
        return None
