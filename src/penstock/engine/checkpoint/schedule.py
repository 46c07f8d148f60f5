"""Which checkpoint begins next, and when: a periodic one, or one that was requested.

Requested are savepoints, and the last checkpoint of a job. They are taken one after the other, and each alone:
otherwise barriers of a savepoint and of another checkpoint would overtake each other. The schedule of periodic
checkpoints is a pure function of the time and the pending checkpoints.

Source: Flink's CheckpointRequestDecider; Flink docs, "Checkpointing", minimum time between checkpoints.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """Settings of checkpoints, times in milliseconds. `interval_ms` None: only requested checkpoints.

    `has_directory`: whether the user set a checkpoint directory, so that another run finds the checkpoints.
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
        """Start the schedule when all tasks run: the first checkpoint starts one interval later."""
        if self.settings.interval_ms is not None:
            self._next_ms = now_ms + self.settings.interval_ms

    def tasks_ended(self) -> None:
        """Stop the schedule until all tasks run again."""
        self._next_ms = None

    def completed(self, now_ms: int) -> None:
        """Note a completed checkpoint: the next one starts after the minimum pause at the earliest."""
        if self._next_ms is not None:
            self._next_ms = max(self._next_ms, now_ms + self.settings.pause_ms)

    def starts_ms(self, pending: int, request_waits: bool) -> int | None:
        """Return when the next checkpoint starts (ms) if nothing changes until then. None: it waits for an event.

        `pending`: how many checkpoints are pending. `request_waits`: a savepoint waits or is pending; periodic
        checkpoints wait until it is complete, since barriers of both would overtake each other.
        """
        # A minimum pause implies one checkpoint at a time, as Flink's documentation says.
        concurrent_max = 1 if self.settings.pause_ms else self.settings.concurrent_max
        if request_waits or pending >= concurrent_max:
            return None
        return self._next_ms

    def start_if_due(self, now_ms: int, pending: int, request_waits: bool) -> bool:
        """Return whether a checkpoint starts now. If so, the next one is due one interval later."""
        starts_ms = self.starts_ms(pending, request_waits)
        if starts_ms is None or now_ms < starts_ms:
            return False
        assert self.settings.interval_ms is not None
        # From now, not from the due time: a delayed checkpoint must not be followed by the next one immediately.
        self._next_ms = now_ms + self.settings.interval_ms
        return True


Outcome = Manifest | CheckpointError
"""The outcome of a requested checkpoint: its manifest, or the error for which it was aborted."""


class CheckpointRequest(NamedTuple):
    """A requested checkpoint. `then` is called once, with the outcome."""

    then: Callable[[Outcome], None] = lambda outcome: None
    options: CheckpointOptions = CheckpointOptions()


class CheckpointRequests:
    """The requests that have not begun, in order, and the calls that wait until all have ended."""

    def __init__(self) -> None:
        self._waiting: deque[CheckpointRequest] = deque()
        self._settled: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: CheckpointRequest) -> None:
        """Add a request."""
        self._waiting.append(request)

    def take_next(self) -> CheckpointRequest:
        """Remove and return the oldest request."""
        return self._waiting.popleft()

    def take_all(self) -> list[CheckpointRequest]:
        """Remove and return all requests, since tasks have ended. Drops the calls that wait for their end."""
        requests, self._waiting = list(self._waiting), deque()
        self._settled.clear()
        return requests

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call `call` at `settled`."""
        self._settled.append(call)

    def settled(self) -> None:
        """Make the waiting calls: no checkpoint is requested or pending."""
        # Removed first: a call may request the next checkpoint and wait for it.
        calls, self._settled = self._settled, []
        for call in calls:
            call()
