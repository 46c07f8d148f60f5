"""Run calls of asynchronous functions one step at a time, in an order that the seed draws."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

from penstock.engine.runtime.task.async_calls import CallOutcome, Calls
from penstock.engine.runtime.task.events import CallsEnded


class SteppedEventLoops:
    """The event loops of a slot's tasks. Calls may await only a bare `yield`, as in `functions.Turns`."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], Coroutine[Any, Any, CallOutcome]] = {}

    def open(self, vertex: int) -> SteppedEventLoop:
        """Return an event loop for a task of that vertex."""
        return SteppedEventLoop(vertex, self._calls)

    def __bool__(self) -> bool:
        """Whether a call is running."""
        return bool(self._calls)

    def step(self, random: Random, ended: Callable[[int, CallsEnded], None]) -> None:
        """Continue a call until its next await or its end."""
        vertex, id = random.choice(list(self._calls))
        try:
            self._calls[vertex, id].send(None)
        except StopIteration as end:
            del self._calls[vertex, id]
            ended(vertex, CallsEnded([end.value]))

    def close(self) -> None:
        """Close all calls, because the worker is killed."""
        for call in self._calls.values():
            call.close()
        self._calls.clear()


class SteppedEventLoop:
    """The event loop of one task."""

    def __init__(self, vertex: int, calls: dict[tuple[int, int], Coroutine[Any, Any, CallOutcome]]) -> None:
        self._vertex = vertex
        self._calls = calls

    def start(self, calls: Calls) -> None:
        self._calls.update({(self._vertex, id): call for id, call in calls})

    def cancel(self, ids: Iterable[int]) -> None:
        for id in ids:
            call = self._calls.pop((self._vertex, id), None)
            if call is not None:
                call.close()

    def close(self) -> None:
        self.cancel([id for vertex, id in list(self._calls) if vertex == self._vertex])
