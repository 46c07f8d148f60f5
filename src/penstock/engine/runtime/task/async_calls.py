"""The calls of a task's asynchronous functions: they run on an event loop of the host's, beside the task.

An event loop is to calls what an outbox is to rows: Spark's host has one in a thread, the simulator steps one by its
seed. A call's outcome arrives as an event, `events.CallsEnded`. Whether it is tried again, and when its time is
over, is decided in the task (`operators/async_wait.py`), by processing time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

import msgspec


class CallOutcome(msgspec.Struct, frozen=True, gc=False):
    """What a call returned, or raised."""

    id: int
    result: Any = None
    error: Exception | None = None


Calls = list[tuple[int, Coroutine[Any, Any, CallOutcome]]]
"""Calls to be run, by their ids."""


class EventLoop(Protocol):
    """Runs calls of one task, all at once. Its outcomes come to the task as `CallsEnded`."""

    def start(self, calls: Calls) -> None:
        """Run calls. Returns at once."""

    def cancel(self, ids: Iterable[int]) -> None:
        """Cancel calls that may be running. Returns at once."""

    def close(self) -> None:
        """Cancel all calls. After it has returned none continues, except one that blocks the loop."""


OpenEventLoop = Callable[[int], EventLoop]
"""Opens the event loop of a task, of the vertex with that id."""

Completed = Callable[[Any, Exception | None], None]
"""Takes what a call returned, or what it raised."""


class AsyncCalls:
    """Knows which operator waits for which call. `open_loop` is called with the first call."""

    def __init__(self, open_loop: Callable[[], EventLoop]) -> None:
        self._open_loop = open_loop
        self._loop: EventLoop | None = None
        self._waiting: dict[int, Completed] = {}
        self._last_id = 0

    def start(self, invoke: Callable[[Any], Awaitable[Any]], calls: Iterable[tuple[Any, Completed]]) -> list[int]:
        """Call `invoke` with each value. Returns the ids of the calls, which tell `Completed` how they ended."""
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
        """Calls have ended. Raises what their operators make of it: UserFunctionError."""
        for outcome in outcomes:
            completed = self._waiting.pop(outcome.id, None)
            # One that was cancelled may have ended before it heard of that.
            if completed is not None:
                completed(outcome.result, outcome.error)

    def cancel(self, ids: list[int]) -> None:
        """Cancel calls: nothing is heard of them any more."""
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
    """For hosts that have none."""
    raise AssertionError("asynchronous functions can't be called here: this host has no event loop")


async def _outcome(id: int, invoke: Callable[[Any], Awaitable[Any]], value: Any) -> CallOutcome:
    try:
        return CallOutcome(id, await invoke(value))
    except GeneratorExit:
        # The event loop is closed, and nobody waits for an outcome; or the function has raised it: the host knows.
        raise
    except BaseException as error:
        return ended_by(id, error)


def ended_by(id: int, error: BaseException) -> CallOutcome:
    """The outcome of a call that has ended by this error."""
    if isinstance(error, Exception):
        return CallOutcome(id, error=error)
    # It has ended itself, by sys.exit, or was cancelled by users' code: never to hear of it would stop the task.
    what = RuntimeError(f"the asynchronous function ended by {type(error).__name__}: {error}")
    what.__cause__ = error
    return CallOutcome(id, error=what)
