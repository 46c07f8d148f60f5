"""The event loop of a worker, in its thread: each call has one outcome, which reaches the slot."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from penstock.engine.runtime.task.async_calls import AsyncCalls, CallOutcome
from penstock.hosts.spark.worker.event_loop import EventLoops, EventLoopThread


class Caller:
    """Calls a function with values, and waits for outcomes."""

    def __init__(self) -> None:
        self.outcomes: list[CallOutcome] = []
        self._heard = threading.Condition()
        self.calls = AsyncCalls(lambda: EventLoopThread(self._ended))

    def _ended(self, outcome: CallOutcome) -> None:
        with self._heard:
            self.outcomes.append(outcome)
            self._heard.notify()

    def call(self, function: Callable[[Any], Awaitable[Any]], *values: Any) -> list[int]:
        return self.calls.start(function, [(value, lambda result, error: None) for value in values])

    def hears(self, count: int) -> list[str]:
        """Return the outcomes of calls, in the order of the calls."""
        with self._heard:
            assert self._heard.wait_for(lambda: len(self.outcomes) >= count, timeout=60)
        by_id = sorted(self.outcomes, key=lambda outcome: outcome.id)
        return [str(outcome.error) if outcome.error is not None else outcome.result for outcome in by_id]


@pytest.fixture
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    caller.calls.close()


async def same(value: str) -> str:
    return value


@pytest.mark.parametrize("error", [GeneratorExit, SystemExit, asyncio.CancelledError])
def test_a_call_that_ends_itself_has_an_outcome(caller: Caller, error: type[BaseException]) -> None:
    """The task would silently wait for it until the job is canceled."""

    async def ends(value: str) -> str:
        if value == "b":
            raise error("enough")
        return value

    caller.call(ends, "a", "b", "c")
    assert caller.hears(3) == ["a", f"the asynchronous function ended by {error.__name__}: enough", "c"]


def test_calls_that_others_cancel_have_an_outcome(caller: Caller) -> None:
    """A function that cleans up after a timeout may cancel a call that has not started: the task would wait for it."""

    async def cancels(value: str) -> str:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return value

    caller.call(cancels, "a", "b", "c")
    assert caller.hears(3) == ["a", *["the asynchronous function ended by CancelledError: "] * 2]


def test_a_loop_that_user_code_stops_continues(caller: Caller) -> None:
    """A single call would silently end all others of the subtask."""

    async def stops(value: str) -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return value

    async def leaves(value: str) -> str:
        async def ends() -> None:
            sys.exit(3)

        # Retrieved: an error that is not is printed by the collector, at any time.
        asyncio.get_running_loop().create_task(ends()).add_done_callback(lambda task: task.exception())
        await asyncio.sleep(0)
        return value

    caller.call(stops, "a")
    assert caller.hears(1) == ["a"]
    caller.call(leaves, "b")
    caller.call(same, "c")
    assert caller.hears(3) == ["a", "b", "c"]


def test_calls_that_their_task_has_canceled_have_no_outcome(caller: Caller) -> None:
    """A record whose time was over would have two results."""
    begun = threading.Event()

    async def waits(value: str) -> str:
        begun.set()
        await asyncio.sleep(3600)
        return value

    ids = caller.call(waits, "a")
    assert begun.wait(60)
    caller.calls.cancel(ids)
    caller.call(same, "b")
    assert caller.hears(1) == ["b"]
    caller.call(waits, "c")
    caller.calls.close()
    assert len(caller.outcomes) == 1


def test_the_slot_is_woken_once_before_it_looks() -> None:
    """A byte for each outcome would go through a pipe: as much work as the outcome itself."""
    rings: list[int] = []
    loops = EventLoops(lambda: rings.append(len(rings)))
    loop = loops.open(7)

    def ends(*ids: int) -> list[tuple[int, list[int]]]:
        done = threading.Event()

        async def outcome(id: int) -> CallOutcome:
            if id == ids[-1]:
                asyncio.get_running_loop().call_later(0.01, done.set)
            return CallOutcome(id)

        loop.start([(id, outcome(id)) for id in ids])
        assert done.wait(60)
        return [(vertex, [one.id for one in event.outcomes]) for vertex, event in loops.take()]

    assert ends(1, 2, 3) == [(7, [1, 2, 3])] and len(rings) == 1
    assert ends(4, 5) == [(7, [4, 5])] and len(rings) == 2
    assert loops.take() == []
    loop.close()


def test_two_loops_that_put_at_once_do_not_leave_it_to_each_other() -> None:
    """The slot would sleep on over two outcomes, and a job with nothing else to do would never end."""
    both_have_put = threading.Barrier(2)
    rung = threading.Event()

    def stop_behind_the_first_line(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_name != "_add":
            return None
        lines = iter(range(1, 10))

        def at_line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line" and next(lines) == 2:
                both_have_put.wait(60)
            return at_line

        return at_line

    async def outcome() -> CallOutcome:
        return CallOutcome(1)

    loops = EventLoops(rung.set)
    threading.settrace(stop_behind_the_first_line)
    try:
        opened = [loops.open(vertex) for vertex in (1, 2)]
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    for loop in opened:
        loop.start([(1, outcome())])
    assert rung.wait(10)
    for loop in opened:
        loop.close()
    assert sorted(vertex for vertex, _ in loops.take()) == [1, 2]
