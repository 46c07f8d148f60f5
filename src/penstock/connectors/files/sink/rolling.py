"""Rolling policies: when a part file is closed and the next one opened."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from penstock.common.time import TimeLength, to_milliseconds

DEFAULT_PART_BYTES = 128 * 1024 * 1024
DEFAULT_INTERVAL_MS = 60_000


class PartInfo(msgspec.Struct, frozen=True, gc=False):
    """A part file being written: its size in bytes, creation and last write time (ms of processing time)."""

    size: int
    created_ms: int
    written_ms: int


class RollingPolicy(ABC):
    """Decide when to close a part file and open the next one.

    All files are closed at the end of the data and with a savepoint. A checkpoint also closes files that cannot be
    continued after a failure: those of bulk formats, and in stores other than file systems and S3.
    """

    @abstractmethod
    def size_limit(self) -> int | None:
        """Return the size in bytes at which a file is closed, after the record that reached it, or None."""

    @abstractmethod
    def deadline_ms(self, part: PartInfo) -> int | None:
        """Return the processing time at which the file is closed unless written to before, or None."""

    def rolls_on_checkpoint(self, part: PartInfo) -> bool:
        """Return whether a checkpoint closes the file, which makes it visible. Default: the file stays open."""
        return False

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_BYTES,
        rollover_interval: TimeLength = DEFAULT_INTERVAL_MS,
        inactivity_interval: TimeLength = DEFAULT_INTERVAL_MS,
    ) -> DefaultRollingPolicy:
        """Close a file by size, by age, or by inactivity.

        A file is closed at `part_size` bytes, `rollover_interval` after its creation, or `inactivity_interval` after
        its last record (milliseconds or Durations). Defaults: 128 MiB, one minute, one minute.
        """
        return DefaultRollingPolicy(part_size, to_milliseconds(rollover_interval), to_milliseconds(inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Close files with each checkpoint, and only then."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Close files by size, age and inactivity."""

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
        """Return the part size in bytes."""
        return self._part_bytes

    def deadline_ms(self, part: PartInfo) -> int | None:
        """Return the earlier end of the two intervals."""
        return min(part.created_ms + self._rollover_interval_ms, part.written_ms + self._inactivity_interval_ms)


class OnCheckpointRollingPolicy(RollingPolicy):
    """Close files with each checkpoint, and only then."""

    def rolls_on_checkpoint(self, part: PartInfo) -> bool:
        """Return True."""
        return True

    def size_limit(self) -> int | None:
        """Return None: no limit."""
        return None

    def deadline_ms(self, part: PartInfo) -> int | None:
        """Return None: no deadline."""
        return None
