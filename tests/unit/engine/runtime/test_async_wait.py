"""Asynchronous functions: order, capacity, time limits, retries, what a snapshot holds. The test ends each call."""

from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar

import pytest
from tests.unit.engine.runtime.hosted_task import Host

from penstock.common.errors import UserFunctionError
from penstock.datastream import AsyncFunction
from penstock.datastream.functions import AsyncRetryStrategy
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfData, Watermark, WatermarkStatus
from penstock.engine.runtime.operators.async_wait import IN_FLIGHT, AsyncWaitOperator
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.task.events import Acknowledge, CallsEnded, Cancel, DataEnded, LoopQuiet, ProbeLoop
from penstock.engine.runtime.task.task import TaskState
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList


class Answer:
    """Awaited: what the test says, when it says so."""

    def __init__(self, asked: Any) -> None:
        self.asked = asked

    def __await__(self) -> Any:
        return (yield self)


class Ask(AsyncFunction):
    """Asks the test, and answers with what it says."""

    def __init__(self) -> None:
        self.closed = False

    async def async_invoke(self, value: Any) -> Any:
        return await Answer(value)

    def close(self) -> None:
        self.closed = True


class Default(Ask):
    def timeout(self, value: Any) -> list[Any]:
        return [f"{value} too late"]


class Calls:
    """An event loop that the test plays."""

    def __init__(self) -> None:
        self.asked: dict[Any, tuple[int, Any]] = {}
        self.cancelled: list[Any] = []
        self.count = 0
        self.closed = False

    def open(self, vertex: int) -> Calls:
        return self

    def start(self, calls: Any) -> None:
        for id, call in calls:
            self.count += 1
            self.asked[call.send(None).asked] = id, call

    def cancel(self, ids: Any) -> None:
        ids = set(ids)
        for asked, (id, call) in list(self.asked.items()):
            if id in ids:
                self.cancelled.append(asked)
                call.close()
                del self.asked[asked]

    def close(self) -> None:
        self.closed = True
        for _, call in self.asked.values():
            call.close()

    def end(self, asked: Any, *answer: Any, error: BaseException | None = None) -> CallsEnded:
        id, call = self.asked.pop(asked)
        try:
            if error is not None:
                call.throw(error)
            else:
                call.send(*answer)
        except StopIteration as end:
            assert end.value.id == id
            return CallsEnded([end.value])
        raise AssertionError("the call goes on")


class Restored(AsyncWaitOperator):
    """Begins with what a snapshot held."""

    def __init__(self, held: list[Any], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.restored = held

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        if self.restored:
            self.restore_lists([NamedList(IN_FLIGHT, Redistribution.SPLIT, self.restored)])


class Asking(Host):
    """A host of one asynchronous operator, and of operators behind it."""

    def __init__(
        self,
        *behind: Operator,
        function: AsyncFunction[Any, Any] | None = None,
        ordered: bool = True,
        capacity: int = 3,
        timeout_ms: int = 100,
        retries: AsyncRetryStrategy[Any] | None = None,
        restored: list[Any] | None = None,
        batched: bool = False,
        in_loop: bool = False,
    ) -> None:
        self.calls = Calls()
        self.function = function or Ask()
        self.operator = Restored(
            restored or [],
            "ask",
            UserFunction.of_object(self.function, "async_invoke"),
            timeout_ms,
            capacity,
            ordered,
            retries or AsyncRetryStrategy.no_restart(),
        )
        open_loop = self.calls.open
        super().__init__(self.operator, *behind, senders=1, batched=batched, open_event_loop=open_loop, in_loop=in_loop)

    def answers(self, asked: Any, *results: Any) -> Asking:
        self.handle(self.calls.end(asked, list(results)))
        return self

    def fails(self, asked: Any, error: BaseException) -> Asking:
        self.handle(self.calls.end(asked, error=error))
        return self

    @property
    def in_flight(self) -> list[Any]:
        return list(self.calls.asked)

    def held(self) -> list[Any]:
        return [item for one in self.operator.lists() if one.name == IN_FLIGHT for item in one.items]


def test_results_in_order() -> None:
    """A result would overtake that of an earlier record."""
    host = Asking()
    host.sends(0, (["a", "b"], [1, 2])).works()
    assert host.in_flight == ["a", "b"]
    assert host.answers("b", "B").flushed() == []
    assert host.answers("a", "A", "A2").flushed() == ["A", "A2", "B"]


def test_results_as_they_come() -> None:
    """A slow call would hold up all that come after it."""
    host = Asking(ordered=False)
    host.sends(0, ["a", "b"]).works()
    assert host.answers("b", "B").flushed() == ["B"]
    assert host.answers("a").flushed() == [] and not host.held()


def test_calls_keep_a_loop_alive() -> None:
    """A loop would end while the answer to a record of it is on its way."""
    host = Asking(in_loop=True)
    host.sends(0, ["a"]).handle(ProbeLoop(1)).works()
    assert not host.asks()
    host.answers("a", "A").works()
    assert host.asks() == [LoopQuiet(1, 0, 1, sent=0, received=1)]


@pytest.mark.parametrize("ordered", [True, False])
def test_watermarks_and_statuses_keep_their_places(ordered: bool) -> None:
    """Results would be late behind a watermark, or early before one that belongs to what came before them."""
    host = Asking(ordered=ordered, capacity=10)
    pause = [WatermarkStatus(False), WatermarkStatus(True)]
    host.sends(0, (["a", "b"], [1, 2]), Watermark(2), *pause, (["c"], [3]), Watermark(3)).works()
    assert host.in_flight == ["a", "b", "c"]
    assert host.answers("c", "C").flushed() == []
    assert host.answers("b", "B").flushed() == ([] if ordered else ["B"])
    left = host.answers("a", "A").flushed()
    assert left == [*(["A", "B"] if ordered else ["A"]), Watermark(2), *pause, "C", Watermark(3)]
    assert host.sends(0, Watermark(9)).works().left() == [Watermark(9)], "nothing is in flight"


def test_a_full_operator_waits_without_being_busy() -> None:
    """More calls than the capacity would be in flight, or the host would turn without end, or read on without limit."""
    host = Asking(capacity=2)
    host.sends(0, ["a", "b", "c", "d"], EndOfData()).works()
    assert host.in_flight == ["a", "b"]
    assert host.slot.waiting and not host.task.busy
    host.answers("b", "B").works()
    assert host.in_flight == ["a"], "what is complete is held until it may be emitted"
    assert host.answers("a", "A").works().left() == ["A", "B"]
    assert host.in_flight == ["c", "d"]
    host.answers("c", "C").works()
    assert host.slot.waiting and host.task.state is TaskState.RUNNING, "the end waits for what is in flight"
    assert host.answers("d", "D").works().left() == ["C", "D", EndOfData()]
    assert not host.slot.waiting and DataEnded(1, 0) in host.asks()


def test_what_is_behind_may_pause() -> None:
    """Results would be given to an operator that still holds others."""
    host = Asking(FlatMapOperator("many", UserFunction(lambda n: range(n), "flat_map")), ordered=False, capacity=2)
    host.slot.budget.step_bytes, host.slot.budget.chunk_records = 1, 2
    host.sends(0, ["a", "b", "c"]).works()
    host.answers("a", 5).answers("b", 3)
    assert host.flushed() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert host.answers("c", 1).flushed() == [0]


def test_the_time_of_a_record() -> None:
    """A call that never ends would hold up the stream, or what comes from it later would be emitted twice."""
    host = Asking(function=Default(), timeout_ms=100)
    host.sends(0, ["a", "b"]).works()
    host.answers("b", "B")
    assert host.slot.wake_at_ms() is not None
    host.now_ms += 99
    assert host.flushed() == ["a too late", "B"], "the buffer timeout has brought the clock over it"
    assert host.calls.cancelled == ["a"]
    assert host.slot.wake_at_ms() is None


class Followed:
    """A value of which it is known how many there are."""

    alive: ClassVar[weakref.WeakSet[Followed]] = weakref.WeakSet()

    def __new__(cls, *arguments: Any) -> Any:
        made = super().__new__(cls)
        cls.alive.add(made)
        return made

    def __init__(self, number: int) -> None:
        self.number = number


def test_a_slow_call_keeps_no_other_record_in_memory() -> None:
    """One call that hangs until its time is over would fill the memory with all records that come meanwhile."""
    host = Asking(ordered=False, timeout_ms=60_000)
    host.sends(0, ["slow"]).works()
    for number in range(20):
        host.sends(0, [Followed(number)]).works()
        (asked,) = (value for value in host.in_flight if value != "slow")
        assert host.answers(asked, number).flushed() == [number]
        del asked
    gc.collect()
    assert len(Followed.alive) <= 2
    assert host.slot.wake_at_ms() is not None, "the time of the slow one"


def test_a_call_that_ended_when_its_time_was_over() -> None:
    """The same record would have two results."""
    host = Asking(function=Default(), timeout_ms=100)
    host.sends(0, ["a"]).works()
    ended = host.calls.end("a", ["A"])
    host.now_ms += 100
    assert host.flushed() == ["a too late"]
    host.handle(ended)
    assert host.flushed() == []


def test_a_full_operator_notices_the_time() -> None:
    """A job whose service hangs would never say so."""
    host = Asking(function=Default(), capacity=1, timeout_ms=100)
    host.sends(0, ["a", "b"]).works()
    assert host.slot.waiting and host.slot.wake_at_ms() == host.now_ms + 100
    host.now_ms += 100
    assert host.flushed() == ["a too late"] and host.in_flight == ["b"]


def test_without_a_limit() -> None:
    """0 would be over at once."""
    host = Asking(timeout_ms=0)
    host.sends(0, ["a"]).works()
    assert host.slot.wake_at_ms() is None


def test_the_default_of_timeout_fails_the_job() -> None:
    """A record would be lost without a word."""
    host = Asking(timeout_ms=100)
    host.sends(0, (["a"], [7])).works()
    host.now_ms += 100
    with pytest.raises(
        UserFunctionError, match=r"(?s)operator 'ask', subtask 1 of 1, in Ask.timeout\n.*'a'   timestamp 7"
    ):
        host.works()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionError("no route"), "ConnectionError: no route"),
        (SystemExit(3), "ended by SystemExit: 3"),
        (KeyboardInterrupt(), "ended by KeyboardInterrupt"),
    ],
)
def test_an_error_names_operator_and_record(error: BaseException, expected: str) -> None:
    """The job would go on without the record, or wait for it for ever."""
    host = Asking()
    host.sends(0, ["a"]).works()
    with pytest.raises(UserFunctionError, match=f"(?s)operator 'ask'.*in Ask.async_invoke.*value 'a'.*{expected}"):
        host.fails("a", error)


@pytest.mark.parametrize("results", ["text", None, 7, {"a": 1}])
def test_results_are_a_list(results: Any) -> None:
    """The letters of a text would be records."""
    host = Asking()
    host.sends(0, ["a"]).works()
    with pytest.raises(UserFunctionError, match="a list"):
        host.handle(host.calls.end("a", results))


def test_retries_after_errors_and_results() -> None:
    """A service that is away for a moment would fail the job."""
    retries = AsyncRetryStrategy.fixed_delay(
        2, 10, result_predicate=lambda results: not results, exception_predicate=lambda e: isinstance(e, OSError)
    )
    host = Asking(retries=retries, timeout_ms=1000)
    host.sends(0, ["a"]).works()
    host.fails("a", ConnectionError()).works()
    assert not host.in_flight and host.slot.wake_at_ms() == host.now_ms + 10
    host.now_ms += 10
    assert host.works().in_flight == ["a"]
    host.answers("a").works()
    host.now_ms += 10
    assert host.works().in_flight == ["a"]
    assert host.answers("a").flushed() == [] and not host.held(), "the third answer counts, whatever it is"
    host.sends(0, ["b"]).works()
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        host.fails("b", ZeroDivisionError())


def test_the_time_of_a_record_that_waits_for_a_retry() -> None:
    """It would be called for again when it has its result."""
    retries = AsyncRetryStrategy.fixed_delay(9, 80, exception_predicate=lambda error: True)
    host = Asking(function=Default(), retries=retries, timeout_ms=100)
    host.sends(0, ["a"]).works()
    host.now_ms += 50
    host.fails("a", OSError()).works()
    host.now_ms += 50
    assert host.flushed() == ["a too late"]
    host.now_ms += 100
    assert host.flushed() == [] and host.calls.count == 1


def test_a_predicate_that_fails() -> None:
    """The record would be lost, and the user would not know where to look."""
    retries = AsyncRetryStrategy.fixed_delay(1, 1, exception_predicate=lambda error: 1 / 0 > 0)
    host = Asking(retries=retries)
    host.sends(0, ["a"]).works()
    with pytest.raises(UserFunctionError, match=r"(?s)predicate of FixedDelayRetryStrategy.*ZeroDivisionError"):
        host.fails("a", OSError())


def test_what_is_in_flight_is_in_the_snapshot_and_is_called_for_again() -> None:
    """Records would be lost by a restart."""
    host = Asking()
    host.sends(0, (["a", "b", "c"], [1, 2, 3])).works()
    host.answers("a", "A").answers("c", "C").works()
    assert host.flushed() == ["A"]
    host.sends(0, CheckpointBarrier(1, 0)).works()
    assert host.held() == [("b", 2), ("c", 3)], "c is complete, and not emitted"
    assert [type(effect) for effect in host.asks()] == [Acknowledge]

    again = Asking(restored=host.held(), capacity=1)
    again.sends(0, (["d"], [4])).works()
    assert again.in_flight == ["b"], "no more than there is room for"
    again.answers("b", "B").works()
    again.answers("c", "C").works()
    assert again.answers("d", "D").flushed() == ["B", "C", "D"]


def test_operator_state_of_the_function_is_its_own() -> None:
    """What is in flight would be given to the function as if it were its state, or lost with it."""
    host = Asking()
    own = NamedList("counts", Redistribution.UNION, [1])
    held = NamedList(IN_FLIGHT, Redistribution.SPLIT, [("a", 1)])
    host.operator.restore_lists([own, held])
    assert [one.name for one in host.operator.lists()] == ["counts", IN_FLIGHT]


def test_batched_results_are_in_order() -> None:
    """A task that runs twice would send other rows."""
    host = Asking(ordered=False, batched=True)
    host.sends(0, ["a", "b"]).works()
    assert host.answers("b", "B").works().left() == []


def test_functions_get_values_of_their_own() -> None:
    """A function that changes its value would change what a snapshot holds."""

    class Changes(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            value.append("changed")
            return await Answer(value[0])

    host = Asking(function=Changes())
    host.sends(0, [["a"]]).works()
    assert host.held() == [(["a"], None)]


def test_calls_end_before_the_function_is_closed() -> None:
    """They would use what `close` has taken away."""
    host = Asking()
    host.sends(0, ["a", "b", "c", "d"]).works()
    host.handle(Cancel())
    assert host.calls.closed and host.function.closed
    assert host.task.state is TaskState.FINISHED and not host.task.busy and not host.slot.waiting
