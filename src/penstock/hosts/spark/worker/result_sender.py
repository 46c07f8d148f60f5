"""Send results of a batched task to the driver while the task runs, by a connection of the slot.

As rows, results would go through the driver's memory. So the driver stores them in a file
(`hosts/spark/driver/batched_run.py`) by the number of the task attempt, and a row says which attempts count.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Protocol

from penstock.common.errors import TaskLostError
from penstock.engine.rpc.client import ControlClient
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import FromJobMaster, FromSlot, Heartbeat, Register, TaskReport, ToTask
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import Cancel, Finished, Result

_POLL_S = 0.1
_RESEND_INTERVAL_S = 10
"""If the driver has not answered within this time, the answer or the request was lost with its connection (seconds)."""


class ResultSender(Protocol):
    """Send a slot's results, in order."""

    def begin(self, reports: Callable[[], list[TaskReport]]) -> None:
        """Note that the slot starts. `reports`: returns reports of its tasks; called by another thread."""

    def send(self, result: Result) -> None:
        """Send a result. Blocks while the driver is slower than the task."""

    def finish(self, task: SubtaskId, abandoned: threading.Event) -> None:
        """Wait until the driver has received all results, or `abandoned` is set. `task`: any task of the slot.

        Raises TaskLostError if results were lost, so that the task has to run again.
        """

    def close(self) -> None:
        """Close the connection."""


class ConnectedResultSender:
    """Send the results of a task attempt of a slot. Connects at the first result, which most slots do not have.

    `attempt`: the number of the task attempt. `is_reported`: connect at the start, and send reports of the tasks.
    `take_log`: returns log lines since its last call, if the driver cannot see the log folder.
    """

    def __init__(
        self,
        address: ControlAddress,
        heartbeat_ms: int,
        *,
        attempt: int,
        level: int,
        index: int,
        is_reported: bool = False,
        take_log: Callable[[], str] = lambda: "",
    ) -> None:
        self._address = address
        self._heartbeat_ms = heartbeat_ms
        self._slot = (attempt, level, index)
        self._client: ControlClient | None = None
        self._sent = 0
        self._answered = threading.Event()
        self._is_complete = False
        self._is_reported = is_reported
        self._take_log = take_log
        self._reports: Callable[[], list[TaskReport]] = list

    def begin(self, reports: Callable[[], list[TaskReport]]) -> None:
        if self._is_reported:
            self._reports = reports
            self._connected().send(FromSlot(*self._slot, Register()))

    def send(self, result: Result) -> None:
        client = self._connected()
        self._sent += 1
        client.send(FromSlot(*self._slot, result))

    def _connected(self) -> ControlClient:
        if self._client is None:
            self._client = ControlClient(
                self._address,
                self._on_answer,
                lambda sent: FromSlot(*self._slot, Heartbeat(self._reports(), log=self._take_log())),
                self._heartbeat_ms,
            )
        return self._client

    def finish(self, task: SubtaskId, abandoned: threading.Event) -> None:
        if self._client is None:
            return
        # Wait for the driver's answer: messages could be lost at the end of this process, or with their connection.
        for turn in itertools.count():
            if turn % round(_RESEND_INTERVAL_S / _POLL_S) == 0:
                self._client.send(FromSlot(*self._slot, Heartbeat([], self._sent)))
                self._client.send(FromSlot(*self._slot, Finished(*task)))
            if self._answered.wait(_POLL_S) or abandoned.is_set():
                break
        if self._answered.is_set() and not self._is_complete:
            raise TaskLostError("the connection to the driver broke, and results were lost: the task has to run again")

    def _on_answer(self, answer: FromJobMaster) -> None:
        self._is_complete = isinstance(answer, ToTask) and not isinstance(answer.event, Cancel)
        self._answered.set()

    def close(self) -> None:
        if self._client is not None:
            # The last lines may explain a failure.
            if lines := self._take_log():
                self._client.send(FromSlot(*self._slot, Heartbeat([], log=lines)))
            self._client.close()
