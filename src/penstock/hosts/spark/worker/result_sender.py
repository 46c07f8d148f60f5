"""Results of a batched task on their way to the driver: by a connection of the slot, as they come.

Spark keeps no place for them: what a task returns to the driver goes through its memory. So they go to a file there
(`hosts/spark/driver/batched_run.py`), under the number of the run of the task, and a row says which runs count.
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
_ASK_AGAIN_S = 10
"""Within this the driver answers; else the answer, or the question, was lost with its connection."""


class ResultSender(Protocol):
    """Where a slot's results go, in order."""

    def begin(self, reports: Callable[[], list[TaskReport]]) -> None:
        """The slot begins. `reports`: of its tasks, called by another thread."""

    def send(self, result: Result) -> None:
        """Send a result. Blocks while the driver is slower than the task."""

    def finish(self, task: SubtaskId, abandoned: threading.Event) -> None:
        """Wait until the driver has all that was sent, or `abandoned` is set. `task` is one of the slot.

        Raises TaskLostError if a part of it was lost: the task has to run again.
        """

    def close(self) -> None:
        """Close the connection."""


class ConnectedResultSender:
    """Of one run of the slot `index` of `level`. Connects with the first result: most slots have none.

    `is_reported`: connects at once, and says how the slot's tasks go. `take_log`: what they have written since it was
    last called, if it is for the driver.
    """

    def __init__(
        self,
        address: ControlAddress,
        heartbeat_ms: int,
        run: int,
        level: int,
        index: int,
        is_reported: bool = False,
        take_log: Callable[[], str] = lambda: "",
    ) -> None:
        self._address = address
        self._heartbeat_ms = heartbeat_ms
        self._slot = (run, level, index)
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
        # Without the driver's answer messages could be lost: when this process ends, or with their connection.
        for turn in itertools.count():
            if turn % round(_ASK_AGAIN_S / _POLL_S) == 0:
                self._client.send(FromSlot(*self._slot, Heartbeat([], self._sent)))
                self._client.send(FromSlot(*self._slot, Finished(*task)))
            if self._answered.wait(_POLL_S) or abandoned.is_set():
                break
        if self._answered.is_set() and not self._is_complete:
            raise TaskLostError("the connection to the driver broke, and results are lost: the task has to run again")

    def _on_answer(self, answer: FromJobMaster) -> None:
        self._is_complete = isinstance(answer, ToTask) and not isinstance(answer.event, Cancel)
        self._answered.set()

    def close(self) -> None:
        if self._client is not None:
            # What it wrote last may be why it has failed.
            if lines := self._take_log():
                self._client.send(FromSlot(*self._slot, Heartbeat([], log=lines)))
            self._client.close()
