"""A function that returns, or is given, what does not fit: the user reads where it is, and what to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Time
from penstock.common.errors import UserFunctionError
from penstock.datastream import CoFlatMapFunction, KeyedProcessFunction, ProcessFunction
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import KeyedOneInputHarness, KeyedTwoInputHarness, OneInputHarness, OperatorHarness

HERE = __file__


def first(value: Any) -> Any:
    return value


class Keyed(KeyedProcessFunction):
    def __init__(self, result: Any, of_timer: Any = None) -> None:
        self.result, self.of_timer = result, of_timer

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(5)
        return self.result

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.of_timer


class Plain(ProcessFunction):
    def __init__(self, result: Any) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result


class OfWindow(ProcessWindowFunction):
    def __init__(self, result: Any) -> None:
        self.result = result

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return self.result


def windowed(result: Any) -> OperatorHarness:
    return OperatorHarness(
        lambda stream: (
            stream.key_by(first).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(OfWindow(result))
        )
    )


def failure(harness: Any, timestamp: int | None = 1) -> str:
    with harness, pytest.raises(UserFunctionError) as raised:
        harness.push(1, timestamp)
        harness.watermark(10_000)
    return str(raised.value)


MAKERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "keyed": ("Keyed.process_element", lambda result: KeyedOneInputHarness(Keyed(result), first)),
    "timer": ("Keyed.on_timer", lambda result: KeyedOneInputHarness(Keyed(None, result), first)),
    "not keyed": ("Plain.process_element", lambda result: OneInputHarness(Plain(result))),
    "window": ("OfWindow.process", windowed),
}
WAYS = pytest.mark.parametrize("way", MAKERS)


@WAYS
@pytest.mark.parametrize("timestamp", [1, None])
def test_one_value_in_place_of_a_collection(way: str, timestamp: int | None) -> None:
    """`return v`, the first mistake of most: the error would name an int that no line of the user's iterates over."""
    method, make = MAKERS[way]
    if timestamp is None and way == "window":
        pytest.skip("records without a timestamp are in no such window")
    text = failure(make(7), timestamp)
    assert f"in {method}" in text and "'int' object is not iterable" in text
    assert f"{method} emits by `yield value`, or returns a list of values; without one, None" in text
    assert f'File "{HERE}", line' in text and "/operators/" not in text and "/windows/" not in text


@WAYS
@pytest.mark.parametrize("value", ["late", b"late"])
def test_text_in_place_of_a_collection(way: str, value: Any) -> None:
    """The job would emit l, a, t, e."""
    method, make = MAKERS[way]
    text = failure(make(value))
    assert f"in {method}" in text and "it returned the text" in text and "yield it" in text
    assert f'File "{HERE}", line' in text


def test_a_flat_map_may_split_text() -> None:
    """A string is a collection of its characters: programs that count letters rely on it."""

    class Both(CoFlatMapFunction):
        def flat_map1(self, value: str) -> str:
            return value

        flat_map2 = flat_map1

    for program in (lambda s: s.flat_map(str), lambda s: s.key_by(first).flat_map(str)):
        with OperatorHarness(program) as harness:
            harness.push("ab")
            assert harness.outputs() == ["a", "b"]
    with KeyedTwoInputHarness(Both(), first, first) as both:
        both.push1("ab")
        both.push2("cd")
        assert both.outputs() == ["a", "b", "c", "d"]


def add(one: int, other: int) -> int:
    return one + other


add.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # Nobody can tell before what it takes.


def test_a_function_with_other_parameters() -> None:
    """The user would see our frames, and none of the function that is called."""
    text = failure(OperatorHarness(lambda stream: stream.map(add)))
    assert "add() missing 1 required positional argument: 'other'" in text
    line = add.__code__.co_firstlineno
    assert f'File "{HERE}", line {line}, in add' in text and "stateless" not in text
    assert "yield" not in text


def test_a_flat_map_that_returns_one_value() -> None:
    """As for a process function."""
    text = failure(OperatorHarness(lambda stream: stream.flat_map(lambda value: value)))
    assert "emits by `yield value`" in text and f'File "{HERE}", line' in text


def test_an_error_within_the_function_is_shown_as_it_is() -> None:
    """Advice on what a function returns would hide the line that failed."""

    def iterates(value: int) -> list[int]:
        return [part + 1 for part in value]  # type: ignore[attr-defined]

    text = failure(OperatorHarness(lambda stream: stream.flat_map(iterates)))
    assert "for part in value" in text and "yield" not in text


class LaterThanItself(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + value)


@pytest.mark.parametrize(("value", "timestamp", "is_said"), [(1, None, True), (None, 1, False)])
def test_a_record_without_a_timestamp(value: Any, timestamp: int | None, is_said: bool) -> None:
    """`unsupported operand type(s) for +` says nothing of the watermark strategy that is missing."""
    with KeyedOneInputHarness(LaterThanItself(), first) as harness, pytest.raises(UserFunctionError) as raised:
        harness.push(value, timestamp)
    assert "NoneType" in str(raised.value)
    assert ("The record has no timestamp" in str(raised.value)) == is_said
