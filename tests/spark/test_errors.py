"""What a user reads when a function of theirs raises: whose it was, on what value, and their own line first."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import (
    BATCH,
    STREAMING,
    batched,
    collect,
    environment,
    failure_of,
    in_both_modes,
    no_worker_left,
    pipelined,
)

from penstock.common import Time, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.functions import KeyedProcessFunction, MapFunction, ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark


def refuse(value: Any) -> Any:
    if value == 777:
        raise ValueError(f"refuse {value}")  # the user's own line
    return value


class AtElement(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield refuse(value)


class AtTimer(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield refuse(timestamp)


class AtOpen(MapFunction[Any, Any]):
    def open(self, runtime_context: Any) -> None:
        refuse(777)

    def map(self, value: Any) -> Any:
        return value


class AtClose(MapFunction[Any, Any]):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        refuse(777)


class AtWindow(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield from map(refuse, elements)


class AtWrite:
    def invoke(self, value: Any) -> None:
        refuse(value)


def numbers(env: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    return env.from_source(NumberSequenceSource(0, 1_999), strategy, "numbers")


def generated(env: Any) -> Any:
    return env.from_source(DataGeneratorSource(refuse, 2_000), WatermarkStrategy.no_watermarks(), "the culprit")


def by_key(stream: Any) -> Any:
    return stream.key_by(lambda v: v % 10)


# name: (program, what the message says beside the operator's name)
CULPRITS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "map": (lambda s: s.map(refuse), ["value 777", "in refuse"]),
    "filter": (lambda s: s.rebalance().filter(refuse), ["value 777"]),
    "flat_map": (lambda s: s.flat_map(lambda v: [refuse(v)]), ["value 777"]),
    "process_element": (lambda s: by_key(s).process(AtElement()), ["value 777", "key 7", "AtElement.process_element"]),
    "on_timer": (lambda s: by_key(s).process(AtTimer()), ["key 7", "timestamp 777", "AtTimer.on_timer"]),
    "reduce": (lambda s: s.key_by(lambda v: v).reduce(lambda a, b: b).key_by(lambda v: 0).reduce(
        lambda a, b: refuse(b)), ["value 777"]),
    "window": (lambda s: by_key(s).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(AtWindow()),
               ["key 7", "AtWindow.process"]),
    "open": (lambda s: s.map(AtOpen()), ["AtOpen.open"]),
    "close": (lambda s: s.map(AtClose()), ["AtClose.close"]),
}  # fmt: skip


BATCHED = ("process_element", "on_timer", "window", "close")
"""Culprits of batch jobs: at a key, at a timer, in a window, and at the end of the input. The others fail in the same
places."""
PIPELINED = [name for name in CULPRITS if name not in BATCHED or name == "on_timer"]
"""Culprits of pipelined jobs in `make test`: the simulator has both kinds of jobs."""


def check_message(message: str, operator: str, *parts: str) -> None:
    assert f"operator '{operator}" in message
    assert "subtask" in message and " of 2" in message
    assert "ValueError: refuse 777" in message
    assert "# the user's own line" in message, "the line of the user's code"
    assert "org.apache" not in message and "py4j" not in message, "no Java stack"
    assert "/penstock/engine/runtime/" not in message, "no frames of penstock"
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("name", "mode"),
    first_of(
        len(PIPELINED) + len(BATCHED),
        [
            *((name, STREAMING) for name in PIPELINED),
            *((name, BATCH) for name in BATCHED),
            *((name, STREAMING) for name in CULPRITS if name not in PIPELINED),
        ],
    ),
)
def test_functions_that_raise(name: str, mode: RuntimeExecutionMode) -> None:
    """Who has twenty operators and a million records can't find the one that failed."""
    program, parts = CULPRITS[name]
    env = environment(mode)
    program(numbers(env)).name("the culprit").filter(lambda v: False).print()
    message = failure_of(env.execute)

    check_message(message, "the culprit", *parts)
    no_worker_left()


@pipelined
def test_key_selector_that_raises(mode: RuntimeExecutionMode) -> None:
    """The same for what is between two operators: the sender is named."""
    env = environment(mode)
    numbers(env).map(lambda v: v).name("the culprit").key_by(refuse).map(lambda v: v).print()
    message = failure_of(env.execute)

    check_message(message, "the culprit", "key selector", "value 777")


@batched
def test_source_that_raises(mode: RuntimeExecutionMode) -> None:
    """The same for a source's own function."""
    env = environment(mode)
    generated(env).filter(lambda v: False).print()
    message = failure_of(env.execute)

    check_message(message, "the culprit")


@pipelined
def test_sink_that_raises(mode: RuntimeExecutionMode) -> None:
    """The same for a sink."""
    env = environment(mode)
    numbers(env).rebalance().add_sink(AtWrite()).name("the culprit")
    message = failure_of(env.execute)

    check_message(message, "the culprit", "write")


@batched
def test_values_that_can_not_travel(mode: RuntimeExecutionMode) -> None:
    """A lock inside a record fails somewhere in pickle, without the name of the operator that made it."""
    env = environment(mode)
    stream = numbers(env).map(lambda v: threading.Lock() if v == 777 else v).name("the culprit")
    message = failure_of(lambda: collect(stream.rebalance().map(lambda v: v)))

    assert "operator 'the culprit'" in message
    assert "pickle" in message and "lock" in message
    assert "org.apache" not in message


ENDS = {
    "sys.exit": (lambda: sys.exit(3), "SystemExit: 3"),
    "os._exit": (lambda: os._exit(3), "ended itself with exit code 3"),
    "a signal": (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed from outside (SIGKILL"),
    "a crash": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "has crashed (SIGSEGV)"),
}


class Ends:
    """Ends its process at a value."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, value: int) -> int:
        if value == 777:
            ENDS[self.how][0]()
        return value


@pytest.mark.parametrize(
    ("how", "mode"),
    first_of(
        len(ENDS), [(how, (STREAMING, BATCH)[(place + turn) % 2]) for turn in (0, 1) for place, how in enumerate(ENDS)]
    ),
)
def test_functions_that_end_their_process(how: str, mode: RuntimeExecutionMode) -> None:
    """A worker went away: nobody would know in which of twenty operators, nor whether memory was the reason."""
    env = environment(mode)
    numbers(env).map(lambda v: v).rebalance().map(Ends(how)).name("the culprit").filter(lambda v: False).print()
    message = failure_of(env.execute)

    assert "'the culprit'" in message and ENDS[how][1] in message, message
    assert "org.apache" not in message
    if how == "a crash":
        assert "in __call__" in message, "where it was"


def forks(value: int) -> int:
    return -1 if value == 777 and os.fork() == 0 else value


@pipelined
def test_a_process_that_a_function_forks_ends_when_it_returns(mode: RuntimeExecutionMode) -> None:
    """Its results would come in the place of the worker's, or the job would fail with an error of Java."""
    env = environment(mode)
    assert sorted(collect(numbers(env).map(forks).rebalance().map(lambda v: v))) == sorted(collect(numbers(env)))


@batched
def test_results_that_can_not_travel(mode: RuntimeExecutionMode) -> None:
    """The same for what goes to the driver."""
    env = environment(mode)
    stream = numbers(env).map(lambda v: threading.Lock() if v == 777 else v).name("the culprit")
    message = failure_of(lambda: collect(stream))

    assert "operator 'the culprit'" in message or "operator 'Collect'" in message, message
    assert "can't be pickled" in message and "value <unlocked _thread.lock" in message, message


@pipelined
def test_keys_that_are_no_keys(mode: RuntimeExecutionMode) -> None:
    """A list or a set as key: equal ones would end up at different subtasks."""
    env = environment(mode)
    stream = numbers(env).map(lambda v: v).name("the culprit").key_by(lambda v: frozenset([v]) if v == 777 else v)
    message = failure_of(lambda: collect(stream.map(lambda v: v)))

    assert "operator 'the culprit'" in message
    assert "frozenset cannot be a key" in message
    assert "value 777" in message


def test_sparks_own_stack_on_demand() -> None:
    """The cause of an error of Spark's own could not be found."""
    settings = {"penstock.errors.show-spark-stack": "true"}
    env = environment(BATCH, settings=settings)
    numbers(env).map(refuse).name("the culprit").print()
    message = failure_of(env.execute)

    assert message.index("ValueError: refuse 777") < message.index("org.apache.spark"), "the user's error first"


@in_both_modes
def test_the_next_job_runs(mode: RuntimeExecutionMode) -> None:
    """One failed job spoils the session for those after it."""
    env = environment(mode)
    numbers(env).map(refuse).print()
    failure_of(env.execute)
    env = environment(mode)

    assert sorted(collect(numbers(env))) == [*range(2_000)]


def test_collecting_from_a_failed_job() -> None:
    """A loop over results would end as if all of them had come."""
    env = environment(STREAMING)
    message = failure_of(lambda: collect(numbers(env).map(refuse).name("the culprit")))

    check_message(message, "the culprit")
