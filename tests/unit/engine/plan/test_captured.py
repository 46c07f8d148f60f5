"""What a function refers to and can't take along is named as the program names it."""

from __future__ import annotations

import functools
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.errors import ProgramError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment


class Client:
    def __init__(self) -> None:
        self.address = "localhost"
        self.lock = threading.Lock()

    def look_up(self, value: Any) -> Any:
        return value


def refusal(program: Callable[[StreamExecutionEnvironment, Any], Any]) -> str:
    env = StreamExecutionEnvironment()
    numbers = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")
    with pytest.raises(ProgramError) as raised:
        program(env, numbers)
    return str(raised.value)


def with_the_environment(env: Any, stream: Any) -> Any:
    return stream.map(lambda value: value * env.get_parallelism())


def with_a_stream_in_a_selector(env: Any, stream: Any) -> Any:
    other = stream.map(str)
    return stream.key_by(lambda value: value in other).map(str)


def with_a_list_of_streams(env: Any, stream: Any) -> Any:
    streams = {"all": [stream]}
    return stream.map(lambda value: (value, streams["all"]))


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (with_the_environment, "`env` (StreamExecutionEnvironment)"),
        (with_a_stream_in_a_selector, "`other` (DataStream)"),
        (with_a_list_of_streams, "`streams['all'][0]` (DataStream)"),
    ],
)
def test_what_builds_the_program_is_not_sent_with_it(program: Any, named: str) -> None:
    """The job would start, and a worker would fail with an error of Spark's, or with a stream that has no records."""
    text = refusal(program)
    assert f"can't be sent to workers: it refers to {named}" in text and "exists only in the driver" in text
    assert "call connect()" in text and "open()" not in text


def held_by_a_method(env: Any, stream: Any) -> Any:
    return stream.map(Client().look_up)


def held_by_a_partial(env: Any, stream: Any) -> Any:
    return stream.map(functools.partial(lambda client, value: value, Client()))


def held_by_a_default(env: Any, stream: Any) -> Any:
    client = Client()
    return stream.map(lambda value, connected=client: value)


def held_by_a_function_of_a_function(env: Any, stream: Any) -> Any:
    client = Client()

    def look_up(value: Any) -> Any:
        return client.look_up(value)

    return stream.map(lambda value: look_up(value))


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (held_by_a_method, "`self.lock` (lock)"),
        (held_by_a_partial, ".lock` (lock)"),
        (held_by_a_default, "`connected.lock` (lock)"),
        (held_by_a_function_of_a_function, "`client.lock` (lock)"),
    ],
)
def test_the_variable_behind_which_something_is_open_is_named(program: Any, named: str) -> None:
    """ "cannot pickle '_thread.lock' object": the user would search all that a function refers to."""
    text = refusal(program)
    assert named in text and "Open it in the function's open() instead" in text


class Stubborn:
    def __init__(self) -> None:
        self.fine = self

    def __reduce__(self) -> Any:
        raise RuntimeError("not me")

    def __call__(self, value: Any) -> Any:
        return value


def test_an_object_that_refuses_by_itself() -> None:
    """The search for what is to blame would go round in circles."""
    assert "RuntimeError: not me" in refusal(lambda env, stream: stream.map(Stubborn()))


def test_the_environment_can_not_be_pickled_elsewhere_either() -> None:
    """As a part of a record it would reach a worker all the same."""
    with pytest.raises(TypeError, match="exists only in the driver"):
        pickle.dumps(StreamExecutionEnvironment())
