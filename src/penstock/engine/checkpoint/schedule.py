"""When the next periodic checkpoint starts: a pure decision, from the time and the checkpoints under way.

Source: Flink's CheckpointRequestDecider; Flink docs, "Checkpointing", minimum time between checkpoints.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """Times in milliseconds. `interval_ms` None: no periodic checkpoints, only those that are requested.

    `has_directory`: whether another run finds the job's checkpoints, since their directory is the user's.
    """

    interval_ms: int | None = None
    timeout_ms: int = 600_000
    pause_ms: int = 0
    concurrent_max: int = 1
    failures_tolerated: int = 0
    retained: int = 1
    has_directory: bool = False


class CheckpointSchedule:
    """The time of the next periodic checkpoint."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self.settings = settings
        self._next_ms: int | None = None

    def tasks_began(self, now_ms: int) -> None:
        """All tasks run: the first checkpoint starts one interval later."""
        if self.settings.interval_ms is not None:
            self._next_ms = now_ms + self.settings.interval_ms

    def tasks_ended(self) -> None:
        """No checkpoint starts until all tasks run again."""
        self._next_ms = None

    def completed(self, now_ms: int) -> None:
        """A checkpoint completed: the next one starts no sooner than the minimum pause after it."""
        if self._next_ms is not None:
            self._next_ms = max(self._next_ms, now_ms + self.settings.pause_ms)

    def begins_ms(self, under_way: int, request_waits: bool) -> int | None:
        """When the next one starts (ms) if nothing changes until then. None: it waits for another event.

        `under_way`: how many checkpoints are pending. `request_waits`: a savepoint waits or is under way; periodic
        checkpoints are held back until it is complete, or barriers of both would overtake each other.
        """
        # A pause between checkpoints implies that there is one at a time, as Flink's documentation says.
        concurrent_max = 1 if self.settings.pause_ms else self.settings.concurrent_max
        if request_waits or under_way >= concurrent_max:
            return None
        return self._next_ms

    def take(self, now_ms: int, under_way: int, request_waits: bool) -> bool:
        """Whether a checkpoint starts now. If so, the next one is due an interval later."""
        begins_ms = self.begins_ms(under_way, request_waits)
        if begins_ms is None or now_ms < begins_ms:
            return False
        assert self.settings.interval_ms is not None
        # From now, not from when it was due: one that was held back must not be followed by the next one at once.
        self._next_ms = now_ms + self.settings.interval_ms
        return True
