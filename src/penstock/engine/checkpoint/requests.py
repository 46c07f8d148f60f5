"""Checkpoints that were requested: savepoints, and the last checkpoint of a job. They are taken one after the other.

Each is taken alone: the barriers of a savepoint and of another checkpoint would overtake each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions

Outcome = Manifest | CheckpointError
"""What became of a requested checkpoint: its manifest, or why it was aborted."""


class CheckpointRequest(NamedTuple):
    """A checkpoint that was requested. `then` is called once, with its outcome."""

    then: Callable[[Outcome], None] = lambda outcome: None
    options: CheckpointOptions = CheckpointOptions()


class CheckpointRequests:
    """Those that have not begun, in order, and what waits for the last one's end."""

    def __init__(self) -> None:
        self._waiting: deque[CheckpointRequest] = deque()
        self._settled: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: CheckpointRequest) -> None:
        """A checkpoint is requested."""
        self._waiting.append(request)

    def take_next(self) -> CheckpointRequest:
        """Remove and return the oldest one: it begins."""
        return self._waiting.popleft()

    def take_all(self) -> list[CheckpointRequest]:
        """Tasks have ended: remove and return all. What waits for the last one's end is dropped, as it was theirs."""
        requests, self._waiting = list(self._waiting), deque()
        self._settled.clear()
        return requests

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call it at `settled`."""
        self._settled.append(call)

    def settled(self) -> None:
        """No checkpoint is requested or under way."""
        # Taken out first: a call may request the next checkpoint, and wait for it.
        calls, self._settled = self._settled, []
        for call in calls:
            call()
