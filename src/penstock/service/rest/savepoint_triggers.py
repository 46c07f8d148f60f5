"""Savepoints that clients have asked for, by trigger id: they take their time, and clients ask for the outcome.

Source: Flink docs, "REST API", Asynchronous Operations.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import Future

_MOST = 100


class SavepointTriggers:
    """Of one job. The outcomes of the newest are kept, and all that are not there yet."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Future[str]] = {}
        self._ended: list[str] = []
        """Those whose outcome is there, in the order in which it came."""
        self._unread: set[str] = set()
        self._lock = threading.Condition()

    def find(self, trigger_id: str) -> Future[str] | None:
        """What becomes of a savepoint; None: no such id is known."""
        with self._lock:
            return self._outcomes.get(trigger_id)

    def add(self, outcome: Future[str], trigger_id: str | None = None) -> str:
        """Keep an outcome. Returns its id: the client's own, if it brings one."""
        trigger_id = trigger_id or uuid.uuid4().hex
        with self._lock:
            self._outcomes[trigger_id] = outcome
            self._unread.add(trigger_id)
        outcome.add_done_callback(lambda _: self._has_ended(trigger_id))
        return trigger_id

    def _has_ended(self, trigger_id: str) -> None:
        with self._lock:
            self._ended.append(trigger_id)
            if len(self._ended) > _MOST:
                # Rather one that its client knows of.
                oldest = next((id for id in self._ended if id not in self._unread), self._ended[0])
                self._ended.remove(oldest)
                self._unread.discard(oldest)
                del self._outcomes[oldest]

    def ended(self) -> dict[str, Future[str]]:
        """Those whose outcome is there, by trigger id."""
        with self._lock:
            return {id: self._outcomes[id] for id in self._ended}

    def was_read(self, trigger_id: str) -> None:
        """A client has been told the outcome."""
        with self._lock:
            self._unread.discard(trigger_id)
            self._lock.notify_all()

    def wait_until_read(self, timeout_s: float) -> None:
        """Wait until clients know all outcomes, as far as they ask in time: the job has ended, and the process may."""
        with self._lock:
            self._lock.wait_for(lambda: not self._unread, timeout_s)
