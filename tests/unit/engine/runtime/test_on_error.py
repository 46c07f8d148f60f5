"""`on_error` of map, flat_map, filter and process: records on which a function fails are skipped, or emitted."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from penstock.common.errors import UserFunctionError
from penstock.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    FailedRecord,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
)
from penstock.datastream.functions import CoProcessFunction, FilterFunction, FlatMapFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import KeyedOneInputHarness, OperatorHarness, TwoInputHarness

FAILED = OutputTag("failed")


class Inverse(MapFunction):
    def map(self, value: int) -> float:
        return 12 / value


class Split(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[Any]:
        yield "begin"
        yield 12 / value


class Large(FilterFunction):
    def filter(self, value: int) -> bool:
        return 12 / value > 3


class Process(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[float]:
        yield 12 / value


class Counted(KeyedProcessFunction):
    """Counts the records of a key, failed ones included; fails on 0, and in timers of the key 4."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, float]]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10)
        yield self.count.value(), 12 / value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{12 / (4 - ctx.get_current_key())}"


def split(value: int) -> list[float]:
    return [12 / value]


Program = Callable[[Any, Any], Any]
UNKEYED: dict[str, tuple[Program, list[Any]]] = {
    "map, a lambda": (lambda stream, policy: stream.map(lambda value: 12 / value, on_error=policy), [6.0, 3.0]),
    "map": (lambda stream, policy: stream.map(Inverse(), on_error=policy), [6.0, 3.0]),
    "flat_map, a list": (lambda stream, policy: stream.flat_map(split, on_error=policy), [6.0, 3.0]),
    # What was emitted before the error stays.
    "flat_map, a generator": (
        lambda stream, policy: stream.flat_map(Split(), on_error=policy), ["begin", 6.0, "begin", "begin", 3.0]),
    "filter, a lambda": (lambda stream, policy: stream.filter(lambda value: 12 / value > 3, on_error=policy), [2]),
    "filter": (lambda stream, policy: stream.filter(Large(), on_error=policy), [2]),
    "process": (lambda stream, policy: stream.process(Process(), on_error=policy), [6.0, 3.0]),
}  # fmt: skip
KEYED: dict[str, tuple[Program, list[Any]]] = {
    "keyed map, a lambda": (UNKEYED["map, a lambda"][0], [6.0, 3.0]),
    "keyed map": (UNKEYED["map"][0], [6.0, 3.0]),
    "keyed flat_map": (UNKEYED["flat_map, a generator"][0], UNKEYED["flat_map, a generator"][1]),
    "keyed filter": (UNKEYED["filter"][0], [2]),
    "keyed process": (lambda stream, policy: stream.process(Counted(), on_error=policy), [(1, 6.0), (3, 3.0)]),
}

HAS_KEY = ("keyed map", "keyed flat_map", "keyed filter", "keyed process")


def harness_of(call: str, policy: Any) -> OperatorHarness:
    if call in UNKEYED:
        return OperatorHarness(lambda stream: UNKEYED[call][0](stream, policy))
    return OperatorHarness(lambda stream: KEYED[call][0](stream.key_by(lambda value: 1), policy))


def errors_of(harness: OperatorHarness) -> int | float:
    harness.operator.function.metrics.collect()  # type: ignore[attr-defined]
    return harness.counters.user["numRecordsInErrors"]


@pytest.mark.parametrize("call", [*UNKEYED, *KEYED])
@pytest.mark.parametrize("policy", ["skip", FAILED], ids=["skip", "emit"])
@pytest.mark.parametrize("timestamp", [None, 7])
def test_failed_records_are_skipped_or_emitted(call: str, policy: Any, timestamp: int | None) -> None:
    """One record in a million that a function can't handle would end the job, or be lost without a trace."""
    with harness_of(call, policy) as harness:
        for value in (2, 0, 4):
            harness.push(value, timestamp)

        assert harness.outputs() == {**UNKEYED, **KEYED}[call][1]
        assert errors_of(harness) == 1
        if policy is FAILED:
            (failed,) = harness.side_outputs(FAILED)
            assert failed.record == 0
            assert failed.timestamp == timestamp
            assert failed.error == "ZeroDivisionError: division by zero"
            assert failed.traceback.startswith("Traceback") and "12 / value" in failed.traceback
            assert "guarded.py" not in failed.traceback
            assert failed.key == (
                1 if call in ("keyed map", "keyed flat_map", "keyed filter", "keyed process") else None
            )
            assert pickle.loads(pickle.dumps(failed)) == failed


@pytest.mark.parametrize("call", [*UNKEYED, *KEYED])
def test_without_it_the_job_fails(call: str) -> None:
    """A failed record would be skipped although nobody asked for it."""
    with harness_of(call, "fail") as harness, pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        harness.push(0)


def test_failed_timers() -> None:
    """A timer that fails would end the job although the records of its key may fail."""
    with KeyedOneInputHarness(Counted(), lambda value: value) as harness, pytest.raises(UserFunctionError):
        harness.push(4, 1)
        harness.watermark(20)
    with OperatorHarness(lambda stream: stream.key_by(abs).process(Counted(), on_error=FAILED)) as harness:
        harness.push(4, 1)
        harness.push(2, 2)
        harness.watermark(20)

        assert harness.outputs() == [(1, 3.0), (1, 6.0), "6.0"]
        (failed,) = harness.side_outputs(FAILED)
        assert (failed.record, failed.key, failed.timestamp) == (None, 4, 10)


def test_the_error_is_its_line_and_not_its_notes() -> None:
    """A table of errors would have a note, such as pydantic's or pandas', where the exception should be."""

    def noted(value: Any) -> Any:
        error = ValueError("bad\nvalue")
        error.add_note("a note")
        raise error

    with OperatorHarness(lambda stream: stream.map(noted, on_error=FAILED)) as harness:
        harness.push(1)

        (failed,) = harness.side_outputs(FAILED)
        assert failed.error == "ValueError: bad"
        assert failed.traceback.endswith("a note")


class BothMap(CoMapFunction):
    def map1(self, value: int) -> float:
        return 12 / value

    def map2(self, value: str) -> Any:
        return json.loads(value)


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value: int) -> list[float]:
        return [12 / value]

    def flat_map2(self, value: str) -> list[Any]:
        return [json.loads(value)]


class BothProcess(CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[float]:
        yield 12 / value

    def process_element2(self, value: str, ctx: Any) -> Iterator[Any]:
        yield json.loads(value)


class BothKeyed(KeyedCoProcessFunction):
    process_element1 = BothProcess.process_element1
    process_element2 = BothProcess.process_element2


TWO_INPUTS: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda one, two: one.connect(two).map(BothMap(), on_error=FAILED),
    "flat_map": lambda one, two: one.connect(two).flat_map(BothFlat(), on_error=FAILED),
    "process": lambda one, two: one.connect(two).process(BothProcess(), on_error=FAILED),
    "keyed process": lambda one, two: (
        one.connect(two).key_by(lambda value: 0, lambda value: 0).process(BothKeyed(), on_error=FAILED)
    ),
}


@pytest.mark.parametrize("call", list(TWO_INPUTS))
def test_both_inputs_of_connected_streams(call: str) -> None:
    """A rule that can't be parsed would end the job, although its stream shares a guarded function."""
    with TwoInputHarness(TWO_INPUTS[call]) as harness:
        harness.push1(0)
        harness.push2("{")
        harness.push1(4)
        harness.push2("[1]")

        assert harness.outputs() == [3.0, [1]]
        zero, brace = harness.side_outputs(FAILED)
        assert (zero.record, brace.record) == (0, "{")
        assert brace.error.startswith("json.decoder.JSONDecodeError: Expecting property name")


class Resourceful(MapFunction):
    """Counts its calls of open and close, and keeps operator state."""

    opened: ClassVar[list[str]] = []

    def open(self, runtime_context: Any) -> None:
        self.opened.append("open")

    def close(self) -> None:
        self.opened.append("close")

    def initialize_state(self, context: Any) -> None:
        self.opened.append("initialize")

    def map(self, value: int) -> float:
        return 12 / value


def test_a_function_without_python_code_has_no_lines_of_ours() -> None:
    """The traceback of `map(int)` would show lines of penstock, in an error and in a dead letter."""
    with OperatorHarness(lambda texts: texts.map(int, on_error=FAILED)) as harness:
        harness.push("x")
    (failed,) = harness.side_outputs(FAILED)
    assert failed.error == failed.traceback == "ValueError: invalid literal for int() with base 10: 'x'"
    with OperatorHarness(lambda texts: texts.map(int)) as harness, pytest.raises(UserFunctionError) as caught:
        harness.push("x")
    assert str(caught.value).splitlines()[1:] == ["  value 'x'", f"  {failed.error}"]


def test_the_function_keeps_its_life_cycle() -> None:
    """A guarded function would be called before it is opened, or lose its operator state."""
    Resourceful.opened.clear()
    with OperatorHarness(lambda stream: stream.map(Resourceful(), on_error="skip")) as harness:
        harness.push(2)

        assert harness.outputs() == [6.0]
    assert Resourceful.opened == ["initialize", "open", "close"]


@pytest.mark.parametrize("error", [MemoryError, SystemExit, KeyboardInterrupt])
def test_errors_that_no_record_causes_fail_the_job(error: type[BaseException]) -> None:
    """A worker out of memory would skip one record after the other."""

    def fail(value: Any) -> Any:
        raise error

    with (
        OperatorHarness(lambda stream: stream.map(fail, on_error="skip")) as harness,
        pytest.raises((UserFunctionError, error)),
    ):
        harness.push(1)


def test_stop_iteration_is_an_error_of_the_record() -> None:
    """A bare next() would end the loop over the chunk, and lose the records after it."""
    with OperatorHarness(lambda stream: stream.map(lambda value: next(iter(value)), on_error="skip")) as harness:
        for value in ([1], [], [3]):
            harness.push(value)

        assert harness.outputs() == [1, 3]
        assert errors_of(harness) == 1


def test_each_subtask_logs_its_first(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody who reads only the log would never learn that records are skipped, or read of nothing else."""
    with (
        caplog.at_level(logging.WARNING),
        OperatorHarness(lambda stream: stream.map(Inverse(), on_error="skip")) as harness,
    ):
        for _ in range(3):
            harness.push(0)

    (logged,) = caplog.messages
    assert logged.startswith("Map (1/1): Inverse.map failed on the record 0, which is skipped.")
    assert "ZeroDivisionError" in logged


@pytest.mark.parametrize(
    ("policy", "error"), [("ignore", ValueError), (None, TypeError), (print, TypeError)], ids=["text", "None", "print"]
)
def test_other_policies_are_refused(policy: Any, error: type[Exception]) -> None:
    """A misspelt policy would be found out with the first bad record, at night."""
    for call in ("map", "flat_map", "filter"):
        with pytest.raises(error, match="on_error must be 'fail', 'skip' or an OutputTag, got"):
            OperatorHarness(lambda stream, call=call: getattr(stream, call)(abs, on_error=policy))


def test_a_failed_record_is_public() -> None:
    """A program could not say what the side output contains: `OutputTag[FailedRecord]`."""
    assert FailedRecord(1, "ValueError: x", "Traceback").record == 1
