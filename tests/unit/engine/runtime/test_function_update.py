"""Other functions for a running task: opened beside those that are called, put in their places by a barrier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.engine.runtime.hosted_task import Host

from penstock.common import Duration, Types
from penstock.datastream.functions import CoMapFunction, KeyedProcessFunction, MapFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.engine.plan import program_pickler
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.network.buffer import CheckpointBarrier
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.operators.stateless import MapOperator
from penstock.engine.runtime.task.events import (
    Acknowledge,
    Cancel,
    CheckpointComplete,
    DropUpdate,
    Opaque,
    PrepareUpdate,
    UpdatePrepared,
)
from penstock.engine.runtime.task.function_update import NewFunctions

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


class Tag(MapFunction):
    """Says which version it is."""

    def __init__(self, version: str, fails_in: str = "") -> None:
        self.version = version
        self.fails_in = fails_in

    def open(self, runtime_context: Any) -> None:
        self._note("open")

    def map(self, value: Any) -> Any:
        return self.version, value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note(f"complete {checkpoint_id}")

    def close(self) -> None:
        self._note("close")

    def _note(self, what: str) -> None:
        CALLS.append(f"{self.version} {what}")
        if what == self.fails_in:
            raise ValueError(f"no {what}")


class Listed(Tag):
    """Keeps operator state."""

    def initialize_state(self, context: Any) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.seen = sum(self._state.get())
        CALLS.append(f"{self.version} finds {self.seen}")

    def map(self, value: Any) -> Any:
        self.seen += value
        return self.version, self.seen

    def snapshot_state(self, context: Any) -> None:
        self._state.update([self.seen])


class Sum(KeyedProcessFunction):
    """A sum of each key."""

    def __init__(self, version: str, *descriptors: Any) -> None:
        self.version = version
        self.descriptors = descriptors

    def open(self, runtime_context: Any) -> None:
        for descriptor in self.descriptors:
            kind = type(descriptor).__name__.removesuffix("StateDescriptor").lower()
            get = runtime_context.get_state if kind == "value" else getattr(runtime_context, f"get_{kind}_state")
            self.state = get(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if isinstance(self.descriptors[0], ReducingStateDescriptor):
            self.state.add(value)
            yield self.version, self.state.get()
        else:
            self.state.update((self.state.value() or 0) + value)
            yield self.version, self.state.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield self.version, timestamp


def mapping(function: Any) -> MapOperator:
    return MapOperator("map", UserFunction(function, "map"))


def summing(function: Any) -> KeyedProcessOperator:
    return KeyedProcessOperator("sum", lambda value: 0, UserFunction(function, "process_element"))


def new(function: Any, method: str = "map", number: int = 1, **more: Any) -> PrepareUpdate:
    """The update of a task with one operator."""
    pickled = program_pickler.dumps([UserFunction(function, method)])
    return PrepareUpdate(number, Opaque([NewFunctions(0, pickled)]), **more)


def barrier(checkpoint_id: int = 1, update: int = 1) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0, CheckpointOptions(update=update))


def answer(host: Host) -> str:
    """Why an update is not prepared; empty: it is."""
    (prepared,) = [effect for effect in host.asks() if isinstance(effect, UpdatePrepared)]
    return prepared.error


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("unaligned_after_ms", [None, 0])
def test_the_barrier_is_where_one_ends_and_the_other_begins(exactly_once: bool, unaligned_after_ms: int | None) -> None:
    """Records that a savepoint here would have as processed by the old function would meet the new one, or twice."""
    host = Host(mapping(Tag("old")), exactly_once=exactly_once, unaligned_after_ms=unaligned_after_ms)
    host.handle(new(Tag("new")))
    assert answer(host) == ""
    host.sends(0, [1], barrier(), [2]).sends(1, [3])
    assert host.flushed() == [("old", 1), ("old", 3)], "what is behind the barrier waits for the other channel"
    host.sends(1, [4], barrier(), [5])
    assert host.flushed() == [("old", 4), barrier(), ("new", 2), ("new", 5)]
    assert [type(effect) for effect in host.asks()] == [Acknowledge]
    assert CALLS == ["old open", "new open", "old close"]
    host.handle(CheckpointComplete(1))
    host.handle(Cancel())
    assert CALLS[3:] == ["new complete 1", "new close"]


def test_a_function_that_does_not_open_leaves_the_job_as_it_was() -> None:
    """A job that runs would fail by a mistake in the program that was to take its place."""
    host = Host(mapping(Tag("old")))
    host.handle(new(Tag("new", fails_in="open")))
    assert "ValueError: no open" in answer(host) and "operator 'map'" not in CALLS
    assert CALLS == ["old open", "new open", "new close"], "it may have opened a part"
    host.sends(0, [1], barrier()).sends(1, barrier(), [2])
    assert host.flushed() == [("old", 1), barrier(), ("old", 2)]


def test_what_can_not_be_unpickled_is_told() -> None:
    """The worker would die, and its job with it."""
    host = Host(mapping(Tag("old")))
    host.handle(PrepareUpdate(1, Opaque([NewFunctions(0, b"nonsense")])))
    assert "a worker can't unpickle the new function of operator 'map'" in answer(host)
    assert host.sends(0, [1]).flushed() == [("old", 1)]


def test_an_update_that_is_dropped_leaves_nothing_open() -> None:
    """Connections of a function that never counted would stay until the job ends."""
    host = Host(mapping(Tag("old")))
    host.handle(new(Tag("new", fails_in="close")))
    host.handle(DropUpdate(1))
    assert CALLS == ["old open", "new open", "new close"], "what it fails by is no failure of the job"
    host.sends(0, barrier(), [1]).sends(1, barrier())
    assert ("old", 1) in host.flushed()
    host.handle(new(Tag("newer"), number=2))
    host.handle(Cancel())
    assert CALLS[3:] == ["newer open", "newer close", "old close"]


def test_messages_that_arrive_twice_or_late_change_nothing() -> None:
    """A function would be opened again behind the barrier, and never closed."""
    host = Host(mapping(Tag("old")))
    update = new(Tag("new"))
    host.handle(update).handle(update)
    host.sends(0, barrier(), [1]).sends(1, barrier())
    assert ("new", 1) in host.flushed()
    host.handle(update).handle(DropUpdate(1))
    assert CALLS == ["old open", "new open", "old close"]
    host.sends(0, barrier(2, update=2), [2]).sends(1, barrier(2, update=2))
    assert ("new", 2) in host.flushed(), "the barrier of an update for other tasks"


def test_a_function_that_fails_at_the_barrier_acknowledges_nothing() -> None:
    """The checkpoint would complete with functions that are not there."""
    host = Host(mapping(Tag("old", fails_in="close")))
    host.handle(new(Tag("new")))
    host.asks()
    host.sends(0, barrier()).sends(1, barrier())
    with pytest.raises(Exception, match="no close"):
        host.works()
    assert not host.asks()


def test_operator_state_passes_from_one_to_the_other() -> None:
    """A function that keeps what it has seen would begin anew, or with what it had at the last checkpoint."""
    host = Host(mapping(Listed("old")))
    host.handle(new(Listed("new")))
    assert answer(host) == "" and CALLS == ["old finds 0", "old open"], "not before the old one has written it"
    host.sends(0, [3], barrier(), [1]).sends(1, [4], barrier())
    assert host.flushed() == [("old", 3), ("old", 7), barrier(), ("new", 8)]
    assert CALLS[2:] == ["new finds 7", "new open", "old close"]


@pytest.mark.parametrize("fails_in", ["", "open"])
def test_a_function_with_operator_state_is_closed_if_it_was_opened(fails_in: str) -> None:
    """One that never was would be told to close what is not there; one that failed half way would leave it open."""
    host = Host(mapping(Listed("old")))
    host.handle(new(Listed("new", fails_in)))
    if not fails_in:
        host.handle(DropUpdate(1))
        assert CALLS == ["old finds 0", "old open"]
        return
    host.asks()
    host.sends(0, barrier()).sends(1, barrier())
    with pytest.raises(Exception, match="no open"):
        host.works()
    assert not host.asks(), "the checkpoint is not taken"
    host.handle(Cancel())
    assert CALLS[2:] == ["new finds 0", "new open", "new close", "old close"]


def test_keyed_state_and_timers_stay() -> None:
    """All that a job has counted would be gone."""
    descriptor = ValueStateDescriptor("sum", Types.INT())
    host = Host(summing(Sum("old", descriptor)))
    host.handle(new(Sum("new", ValueStateDescriptor("sum", Types.INT())), "process_element"))
    assert answer(host) == ""
    host.sends(0, [1, 2], barrier(), [3]).sends(1, barrier())
    assert host.flushed() == [("old", 1), ("old", 3), barrier(), ("new", 6)]


def test_the_function_of_a_descriptor_is_new_from_the_barrier_on() -> None:
    """Values would be reduced by the old function for ever, or by the new one too early."""
    old = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT())
    host = Host(summing(Sum("old", old)))
    host.handle(new(Sum("new", ReducingStateDescriptor("sum", lambda a, b: a * b, Types.INT())), "process_element"))
    assert answer(host) == ""
    host.sends(0, [2, 3], barrier(), [10]).sends(1, barrier())
    assert host.flushed() == [("old", 2), ("old", 5), barrier(), ("new", 50)]


def timed(seconds: int) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("sum", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(seconds)).build())
    return descriptor


@pytest.mark.parametrize(
    ("old", "now", "why"),
    [
        (ValueStateDescriptor("sum", Types.INT()), ValueStateDescriptor("sum", Types.STRING()), "was written as"),
        (ValueStateDescriptor("sum", Types.INT()), ListStateDescriptor("sum", Types.INT()), "sum"),
        (ValueStateDescriptor("sum", Types.INT()), ValueStateDescriptor("total", Types.INT()), "does not request"),
        (timed(5), timed(6), "cannot change the time to live of the state 'sum'"),
    ],
)
def test_state_that_would_be_lost_or_read_as_something_else_is_refused(old: Any, now: Any, why: str) -> None:
    """A job would go on with sums of nothing."""
    host = Host(summing(Sum("old", old)))
    host.sends(0, [1]).flushed()
    host.handle(new(Sum("new", now), "process_element"))
    assert why in answer(host)
    assert host.sends(0, [2]).flushed() == [("old", 3)]


def test_state_may_be_left_over_if_the_user_says_so() -> None:
    """There would be no way to be rid of a state but a new start."""
    host = Host(summing(Sum("old", ValueStateDescriptor("sum", Types.INT()))))
    other = Sum("new", ValueStateDescriptor("total", Types.INT()))
    host.handle(new(other, "process_element", allow_non_restored=True))
    assert answer(host) == ""
    host.sends(0, [2], barrier(), [3]).sends(1, barrier())
    assert host.flushed() == [("old", 2), barrier(), ("new", 3)]


def test_metrics_go_on() -> None:
    """What a function has counted would be zero again, though nothing was started again."""

    class Counting(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.counter = runtime_context.get_metrics_group().counter("seen")

        def map(self, value: Any) -> Any:
            self.counter.inc()
            return self.counter.get_count()

    host = Host(mapping(Counting()))
    host.handle(new(Counting()))
    host.sends(0, [1, 2], barrier(), [3]).sends(1, barrier())
    assert host.flushed() == [1, 2, barrier(), 3]


def test_both_methods_of_one_object_are_replaced() -> None:
    """One input would meet the new function, the other one the old."""
    from penstock.engine.runtime.operators.function_adapters import CoMap
    from penstock.engine.runtime.operators.two_inputs import CoProcessOperator

    class Two(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        map2 = map1

    operator = CoProcessOperator(
        "two", UserFunction.of_object(CoMap(Two()), "process_element1"), UserFunction.of_object(CoMap(Two()), "map2")
    )
    assert [(place.attribute, place.is_opened) for place in operator.function_places()] == [
        ("function", True),
        ("second", False),
    ]
