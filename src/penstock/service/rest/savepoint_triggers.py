"""Operations that clients have triggered, by trigger id: they take long, so clients poll for the outcome.

Source: Flink docs, "REST API", Asynchronous Operations.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import Future

_MOST = 100


class SavepointTriggers:
    """The triggers of one job. Keeps the newest outcomes, and all pending ones."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Future[str]] = {}
        self._ended: list[str] = []
        """Triggers with an outcome, in the order of arrival."""
        self._unread: set[str] = set()
        self._lock = threading.Condition()

    def find(self, trigger_id: str) -> Future[str] | None:
        """Return the future outcome of a trigger, or None for an unknown id."""
        with self._lock:
            return self._outcomes.get(trigger_id)

    def add(self, outcome: Future[str], trigger_id: str | None = None) -> str:
        """Keep a future outcome. Returns its id: the client's own, if it sends one."""
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
                # Preferably one that its client has read.
                oldest = next((id for id in self._ended if id not in self._unread), self._ended[0])
                self._ended.remove(oldest)
                self._unread.discard(oldest)
                del self._outcomes[oldest]

    def ended(self) -> dict[str, Future[str]]:
        """Return the outcomes that have arrived, by trigger id."""
        with self._lock:
            return {id: self._outcomes[id] for id in self._ended}

    def was_read(self, trigger_id: str) -> None:
        """Note that a client has read the outcome."""
        with self._lock:
            self._unread.discard(trigger_id)
            self._lock.notify_all()

    def wait_until_read(self, timeout_s: float) -> None:
        """Wait, for a limited time, until clients have read all outcomes: the job has ended."""
        with self._lock:
            self._lock.wait_for(lambda: not self._unread, timeout_s)
