"""The event loop of a task: asyncio's, in a thread of its own.

Outcomes go to the slot's thread by a queue. Several outcomes before its next read wake the thread only once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.task.async_calls import CallOutcome, Calls, ended_by
from penstock.engine.runtime.task.events import CallsEnded, DataAvailable

_END_MAX_S = 2


class EventLoops:
    """The event loops of a slot's tasks. `ring` wakes the slot's thread; any thread may call it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ended: deque[tuple[int, CallOutcome]] = deque()
        self._ring = ring
        self._has_rung = False
        """Whether the slot was woken since its last read."""

    def open(self, vertex: int) -> EventLoopThread:
        """Return an event loop for a task of that vertex."""
        return EventLoopThread(lambda outcome: self._add(vertex, outcome))

    def take(self) -> list[tuple[int, CallsEnded]]:
        """Remove and return the outcomes since the last call, by vertex. Called by the slot's thread."""
        ended = self._ended
        # Reset this before reading: a later outcome either rings again, or is read below.
        self._has_rung = False
        if not ended:
            return []
        by_vertex: dict[int, list[CallOutcome]] = {}
        while ended:
            vertex, outcome = ended.popleft()
            by_vertex.setdefault(vertex, []).append(outcome)
        return [(vertex, CallsEnded(outcomes)) for vertex, outcomes in by_vertex.items()]

    def _add(self, vertex: int, outcome: CallOutcome) -> None:
        self._ended.append((vertex, outcome))
        # Append before the check: two loops may then both ring, but not both rely on the other to ring.
        if not self._has_rung:
            self._has_rung = True
            self._ring()


class EventLoopThread:
    """An `EventLoop` for calls: `on_outcome` gets each outcome, in the thread of the loop."""

    def __init__(self, on_outcome: Callable[[CallOutcome], None]) -> None:
        self._on_outcome = on_outcome
        self._loop = asyncio.new_event_loop()
        self._running: dict[int, asyncio.Task[CallOutcome]] = {}
        """Calls that are neither completed nor canceled."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-async", daemon=True)
        self._thread.start()

    def start(self, calls: Calls) -> None:
        self._loop.call_soon_threadsafe(self._start, calls)

    def cancel(self, ids: Iterable[int]) -> None:
        self._loop.call_soon_threadsafe(self._cancel, list(ids))

    def close(self) -> None:
        self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        # A call that computes or blocks does not yield to the loop: do not wait for it longer.
        self._thread.join(_END_MAX_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closing:
            # Users' code may stop the loop, or raise SystemExit in a task: run the loop again for the other calls.
            with contextlib.suppress(*RAISED):
                self._loop.run_forever()
        self._running.clear()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        with contextlib.suppress(BaseException):
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.close()

    def _start(self, calls: Calls) -> None:
        for id, call in calls:
            task = self._running[id] = self._loop.create_task(call)
            task.add_done_callback(lambda task, id=id: self._done(id, task))  # type: ignore[misc]

    def _done(self, id: int, task: asyncio.Task[CallOutcome]) -> None:
        if self._running.pop(id, None) is None:
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._on_outcome(task.result() if error is None else ended_by(id, error))

    def _cancel(self, ids: list[int]) -> None:
        for id in ids:
            if (task := self._running.pop(id, None)) is not None:
                task.cancel()


class ReaderNotices:
    """Queue notices of readers' threads that there is data. `ring` wakes the slot's thread; any thread may call it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._vertices: deque[int] = deque()

    def notify(self, vertex: int) -> None:
        """Note that the reader of this vertex has data. Any thread may call this."""
        self._vertices.append(vertex)
        self._ring()

    def take(self) -> list[tuple[int, DataAvailable]]:
        """Remove and return the notices since the last call, one for each vertex. Called by the slot's thread."""
        vertices: set[int] = set()
        while self._vertices:
            vertices.add(self._vertices.popleft())
        return [(vertex, DataAvailable()) for vertex in vertices]
