"""The event loop of a task: asyncio's, in a thread of its own.

Outcomes go to the slot's thread by a queue; it is woken once for all that come before it looks.
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
    """Those of a slot's tasks. `ring` wakes the slot's thread, and any thread may call it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ended: deque[tuple[int, CallOutcome]] = deque()
        self._ring = ring
        self._has_rung = False
        """Whether the slot was woken and has not looked since."""

    def open(self, vertex: int) -> EventLoopThread:
        """An event loop for a task of that vertex."""
        return EventLoopThread(lambda outcome: self._add(vertex, outcome))

    def take(self) -> list[tuple[int, CallsEnded]]:
        """What has ended since the last call, by vertex. Called by the slot's thread."""
        ended = self._ended
        # Before it looks: what comes from here on rings again, or is found below.
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
        # Put first, then looked: two loops that put at once may both ring, but not both leave it to the other.
        if not self._has_rung:
            self._has_rung = True
            self._ring()


class EventLoopThread:
    """An `EventLoop` for calls: `ended` gets each outcome, in the thread of the loop."""

    def __init__(self, ended: Callable[[CallOutcome], None]) -> None:
        self._ended = ended
        self._loop = asyncio.new_event_loop()
        self._running: dict[int, asyncio.Task[CallOutcome]] = {}
        """Calls of which an outcome is waited for."""
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
        # A call that computes, or blocks, does not give way: the process ends without it.
        self._thread.join(_END_MAX_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closing:
            # It may be stopped by users' code, or end by what a task of theirs raises, sys.exit: calls go on.
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
        self._ended(task.result() if error is None else ended_by(id, error))

    def _cancel(self, ids: list[int]) -> None:
        for id in ids:
            if (task := self._running.pop(id, None)) is not None:
                task.cancel()


# What threads of readers have said: that there is something to be polled. It goes to the slot's thread by a queue.


class ReaderNotices:
    """Those of a slot's readers. `ring` wakes the slot's thread, and any thread may call it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._said: deque[int] = deque()

    def notify(self, vertex: int) -> None:
        """The reader of this vertex has something. Any thread may call it."""
        self._said.append(vertex)
        self._ring()

    def take(self) -> list[tuple[int, DataAvailable]]:
        """What was said since the last call, once by vertex. Called by the slot's thread."""
        vertices: set[int] = set()
        while self._said:
            vertices.add(self._said.popleft())
        return [(vertex, DataAvailable()) for vertex in vertices]
