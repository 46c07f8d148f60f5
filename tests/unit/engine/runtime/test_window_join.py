"""Window joins and co-groups: which records meet, what of one stream alone comes out, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
)
from penstock.engine.plan.transformations import OperatorTransformation

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


def key_of(record: Any) -> Any:
    return record["k"]


def first(record: Any) -> Any:
    return record[0]


def streams() -> tuple[Any, Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([1]), env.from_collection([2])


@pytest.fixture
def window_of(rig: Any) -> Callable[..., Any]:
    """A rig around the window operator of a program of two streams; `push` tags records as the program does."""

    def make(program: Callable[[Any, Any], Any]) -> Any:
        transformation = program(*streams())._transformation
        assert isinstance(transformation, OperatorTransformation)
        (hashed,) = transformation.inputs
        (union,) = hashed.inputs
        tags = [tag.operator for tag in union.inputs]
        transformation.operator.name = transformation.name
        one = rig(transformation.operator)

        def push(stream: int, *records: Any, at: int) -> None:
            tagged = [tags[stream].function.call(record) for record in records]
            one.process(*tagged, at=[at] * len(records))

        one.push = push
        return one

    return make


def joined(function: Any, windows: Any = TEN, **settings: Any) -> Callable[[Any, Any], Any]:
    def program(one: Any, other: Any) -> Any:
        join = one.join(other).where(key_of).equal_to(first).window(windows)
        for name, value in settings.items():
            join = getattr(join, name)(value)
        return join.apply(function)

    return program


class Pair(JoinFunction):
    def join(self, first, second):
        return first["k"], first["n"], second[1]


class Repeated(FlatJoinFunction):
    def join(self, first, second):
        return [second[1]] * first["n"] if first["n"] else None


class FlatRecord(FlatJoinFunction):
    def join(self, first, second):
        return first


class Both(CoGroupFunction):
    def co_group(self, first, second):
        yield [record["n"] for record in first], [record[1] for record in second]


@pytest.mark.parametrize(
    "function", [Pair(), lambda one, other: (one["k"], one["n"], other[1])], ids=["class", "plain"]
)
def test_records_of_one_key_and_window_are_joined(window_of: Any, function: Any) -> None:
    """Records of different keys or windows would be paired, or some pairs missing."""
    one = window_of(joined(function))
    one.push(0, {"k": "a", "n": 1}, {"k": "b", "n": 2}, at=3)
    one.push(1, ("a", "x"), ("a", "y"), ("c", "z"), at=9)
    one.push(1, ("b", "too late"), at=10)
    one.push(0, {"k": "a", "n": 3}, at=0)
    assert one.until(9)[:-1] == [
        (("a", 1, "x"), 9), (("a", 1, "y"), 9), (("a", 3, "x"), 9), (("a", 3, "y"), 9),
    ]  # fmt: skip
    assert one.until(100) == [("watermark", 100)]


def test_a_flat_join_gives_any_number_of_results(window_of: Any) -> None:
    """A join that filters would need a second operator."""
    one = window_of(joined(Repeated()))
    one.push(0, {"k": "a", "n": 2}, {"k": "a", "n": 0}, at=3)
    one.push(1, ("a", "x"), at=4)
    assert one.until(9)[:-1] == [("x", 9), ("x", 9)]


def test_a_flat_join_that_returns_a_record_is_refused(window_of: Any) -> None:
    """The names of its fields would be emitted."""
    one = window_of(joined(FlatRecord()))
    one.push(0, {"k": "a", "n": 2}, at=3)
    one.push(1, ("a", "x"), at=4)
    with pytest.raises(UserFunctionError, match="it returned the dict"):
        one.until(9)


def test_a_co_group_has_what_is_alone_too(window_of: Any) -> None:
    """An outer join could not be written."""
    one = window_of(lambda a, b: a.co_group(b).where(key_of).equal_to(first).window(TEN).apply(Both()))
    one.push(0, {"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 3}, at=3)
    one.push(1, ("a", "x"), ("c", "z"), at=5)
    assert sorted(one.until(9)[:-1]) == [(([], ["z"]), 9), (([1, 3], ["x"]), 9), (([2], []), 9)]


def test_sessions_span_both_streams(window_of: Any) -> None:
    """Records of one stream that connect two of the other would not."""
    one = window_of(joined(Pair(), EventTimeSessionWindows.with_gap(Time.milliseconds(10))))
    one.push(0, {"k": "a", "n": 1}, at=0)
    one.push(0, {"k": "a", "n": 2}, at=16)
    one.push(1, ("a", "x"), at=8)
    assert one.until(100)[:-1] == [(("a", 1, "x"), 25), (("a", 2, "x"), 25)]


def test_settings_are_those_of_the_window(window_of: Any) -> None:
    """A trigger, an evictor or the allowed lateness would be ignored."""
    one = window_of(joined(Pair(), GlobalWindows.create(), trigger=CountTrigger.of(3), evictor=CountEvictor.of(2)))
    one.push(0, {"k": "a", "n": 1}, {"k": "a", "n": 2}, at=1)
    one.push(1, ("a", "x"), at=2)
    assert [value for value, _ in one.log] == [("a", 2, "x")]

    late = window_of(joined(Pair(), allowed_lateness=5))
    late.push(0, {"k": "a", "n": 1}, at=1)
    late.until(12)
    late.push(1, ("a", "x"), at=2)
    assert (("a", 1, "x"), 9) in late.log


def test_a_failure_names_the_function(window_of: Any) -> None:
    """A user would search for the mistake in the window."""
    one = window_of(joined(Pair()))
    one.push(0, {"k": "a"}, at=1)
    one.push(1, ("a", "x"), at=2)
    with pytest.raises(UserFunctionError, match=r"operator 'Window Join', subtask 2 of 4, in Pair\.join\n  key 'a'"):
        one.until(9)


def test_a_key_selector_fails_with_the_record(rig: Any) -> None:
    """A record without its key would have to be searched for in both streams."""
    stream = joined(Pair())(*streams())
    one = rig(stream._transformation.operator)
    with pytest.raises(UserFunctionError, match=r"in key selector\n.*\(0, \{'n': 1\}\)"):
        one.process((0, {"n": 1}), at=[1])


def test_mistakes_are_refused_where_they_are_made() -> None:
    """They would be found by a worker, or never."""
    one, other = streams()
    with pytest.raises(TypeError, match="expected a stream for join, got 3"):
        one.join(3)
    with pytest.raises(TypeError, match="expected a stream for co_group, got 3"):
        one.co_group(3)
    with pytest.raises(ValueError, match="must have keys of one type"):
        one.join(other).where(first, Types.INT()).equal_to(first, Types.STRING())
    with pytest.raises(TypeError, match="a key selector must be a callable"):
        one.co_group(other).where(0)
    with_keys = one.join(other).where(first).equal_to(first)
    with pytest.raises(TypeError, match="expected a WindowAssigner"):
        with_keys.window(10)
    with pytest.raises(TypeError, match=r"create one with Pair\(\)"):
        with_keys.window(TEN).apply(Pair)
    assert with_keys.window(TEN).apply(Pair(), Types.STRING()).get_type() == Types.STRING()
    assert with_keys.window(TEN).apply(Pair()).get_name() == "Window Join"
