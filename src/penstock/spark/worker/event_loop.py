"""The event loop of a task: asyncio's, in a thread of its own.

Outcomes go to the slot's thread by a queue; it is woken once for all that come before it looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable

from penstock.runtime.task.async_calls import CallOutcome, Calls
from penstock.runtime.task.events import CallsEnded

_END_MAX_S = 2


class EventLoops:
    """Those of a slot's tasks. `ring` wakes the slot's thread, and any thread may call it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ended: deque[tuple[int, CallOutcome]] = deque()
        self._ring = ring

    def open(self, vertex: int) -> EventLoopThread:
        """An event loop for a task of that vertex."""
        return EventLoopThread(lambda outcome: self._add(vertex, outcome))

    def take(self) -> list[tuple[int, CallsEnded]]:
        """What has ended since the last call, by vertex. Called by the slot's thread."""
        ended = self._ended
        if not ended:
            return []
        by_vertex: dict[int, list[CallOutcome]] = {}
        while ended:
            vertex, outcome = ended.popleft()
            by_vertex.setdefault(vertex, []).append(outcome)
        return [(vertex, CallsEnded(outcomes)) for vertex, outcomes in by_vertex.items()]

    def _add(self, vertex: int, outcome: CallOutcome) -> None:
        self._ended.append((vertex, outcome))
        # Only the first outcome wakes the slot, which drains the queue.
        if len(self._ended) == 1:
            self._ring()


class EventLoopThread:
    """An `EventLoop` for calls: `ended` gets each outcome, in the thread of the loop."""

    def __init__(self, ended: Callable[[CallOutcome], None]) -> None:
        self._ended = ended
        self._loop = asyncio.new_event_loop()
        self._running: dict[int, asyncio.Task[CallOutcome]] = {}
        self._thread = threading.Thread(target=self._run, name="penstock-async", daemon=True)
        self._thread.start()

    def start(self, calls: Calls) -> None:
        self._loop.call_soon_threadsafe(self._start, calls)

    def cancel(self, ids: Iterable[int]) -> None:
        self._loop.call_soon_threadsafe(self._cancel, list(ids))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        # A call that computes, or blocks, does not give way: the process ends without it.
        self._thread.join(_END_MAX_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
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
        del self._running[id]
        if not task.cancelled():
            self._ended(task.result())

    def _cancel(self, ids: list[int]) -> None:
        for id in ids:
            if (task := self._running.get(id)) is not None:
                task.cancel()
