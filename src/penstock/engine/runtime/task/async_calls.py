"""The calls of a task's asynchronous functions: they run on an event loop of the host, concurrently with the task.

Spark's host runs an event loop in a thread; the simulator steps one by its seed. The outcome of a call arrives as an
event, `events.CallsEnded`. The task decides about retries and timeouts by processing time
(`operators/async_wait.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

import msgspec


class CallOutcome(msgspec.Struct, frozen=True, gc=False):
    """The result of a call, or the error that it raised."""

    id: int
    result: Any = None
    error: Exception | None = None


Calls = list[tuple[int, Coroutine[Any, Any, CallOutcome]]]
"""Calls to run, with their ids."""


class EventLoop(Protocol):
    """Runs the calls of one task concurrently. Outcomes reach the task as `CallsEnded`."""

    def start(self, calls: Calls) -> None:
        """Run calls. Does not block."""

    def cancel(self, ids: Iterable[int]) -> None:
        """Cancel calls that may be running. Does not block."""

    def close(self) -> None:
        """Cancel all calls. When it returns, all have stopped, except a call that blocks the loop."""


OpenEventLoop = Callable[[int], EventLoop]
"""Opens the event loop of the task of a vertex, by the vertex's id."""

OnCompleted = Callable[[Any, Exception | None], None]
"""Receives the result of a call, or its error."""


class AsyncCalls:
    """Knows which operator waits for which call. `open_loop` is called with the first call."""

    def __init__(self, open_loop: Callable[[], EventLoop]) -> None:
        self._open_loop = open_loop
        self._loop: EventLoop | None = None
        self._waiting: dict[int, OnCompleted] = {}
        self._last_id = 0

    def start(self, invoke: Callable[[Any], Awaitable[Any]], calls: Iterable[tuple[Any, OnCompleted]]) -> list[int]:
        """Call `invoke` with each value; `OnCompleted` receives the outcome. Returns the ids of the calls."""
        started: Calls = []
        for value, completed in calls:
            self._last_id += 1
            self._waiting[self._last_id] = completed
            started.append((self._last_id, _outcome(self._last_id, invoke, value)))
        if self._loop is None:
            self._loop = self._open_loop()
        self._loop.start(started)
        return [id for id, _ in started]

    def ended(self, outcomes: Iterable[CallOutcome]) -> None:
        """Pass outcomes to their operators. Raises UserFunctionError if an operator does."""
        for outcome in outcomes:
            completed = self._waiting.pop(outcome.id, None)
            # A canceled call may have ended before the cancellation reached it.
            if completed is not None:
                completed(outcome.result, outcome.error)

    def cancel(self, ids: list[int]) -> None:
        """Cancel calls, and drop their outcomes."""
        for id in ids:
            self._waiting.pop(id, None)
        if self._loop is not None:
            self._loop.cancel(ids)

    def close(self) -> None:
        """Cancel all calls."""
        self._waiting.clear()
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()


def no_event_loop() -> EventLoop:
    """Raise: this host has no event loop."""
    raise AssertionError("asynchronous functions can't be called here: this host has no event loop")


async def _outcome(id: int, invoke: Callable[[Any], Awaitable[Any]], value: Any) -> CallOutcome:
    try:
        return CallOutcome(id, await invoke(value))
    except GeneratorExit:
        # Either the event loop is closed and no caller waits, or the function raised it and the host handles that.
        raise
    except BaseException as error:
        return ended_by(id, error)


def ended_by(id: int, error: BaseException) -> CallOutcome:
    """Return the outcome of a call that this error has ended."""
    if isinstance(error, Exception):
        return CallOutcome(id, error=error)
    # The call exited by sys.exit, or users' code canceled it. Without an outcome the task would wait forever.
    wrapped = RuntimeError(f"the asynchronous function ended by {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return CallOutcome(id, error=wrapped)
