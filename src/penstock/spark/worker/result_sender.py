"""Results of a batched task on their way to the driver: by a connection of the slot, as they come.

Spark keeps no place for them: what a task returns to the driver goes through its memory. So they go to a file there
(`spark/driver/batched_results.py`), under the number of the run of the task, and a row says which runs count.
"""

from __future__ import annotations

import threading
from typing import Protocol

from penstock.rpc.client import ControlClient
from penstock.rpc.keys import ControlAddress
from penstock.rpc.messages import FromSlot, Heartbeat
from penstock.runtime.ids import SubtaskId
from penstock.runtime.task.events import Finished, Result

_POLL_S = 0.1


class ResultSender(Protocol):
    """Where a slot's results go, in order."""

    def send(self, result: Result) -> None:
        """Send a result. Blocks while the driver is slower than the task."""

    def finish(self, task: SubtaskId, abandoned: threading.Event) -> None:
        """Wait until the driver has all that was sent, or `abandoned` is set. `task` is one of the slot."""

    def close(self) -> None:
        """Close the connection."""


class ConnectedResultSender:
    """Of one run of the slot `index` of `level`. Connects with the first result: most slots have none."""

    def __init__(self, address: ControlAddress, heartbeat_ms: int, run: int, level: int, index: int) -> None:
        self._address = address
        self._heartbeat_ms = heartbeat_ms
        self._slot = (run, level, index)
        self._client: ControlClient | None = None
        self._arrived = threading.Event()

    def send(self, result: Result) -> None:
        if self._client is None:
            self._client = ControlClient(
                self._address,
                lambda message: self._arrived.set(),
                lambda: FromSlot(*self._slot, Heartbeat([])),
                self._heartbeat_ms,
            )
        self._client.send(FromSlot(*self._slot, result))

    def finish(self, task: SubtaskId, abandoned: threading.Event) -> None:
        if self._client is None:
            return
        # The driver answers in order. Without its answer messages could be lost when this process ends.
        self._client.send(FromSlot(*self._slot, Finished(*task)))
        while not self._arrived.wait(_POLL_S):
            if abandoned.is_set():
                return

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
