"""What functions take: told before they are called where it can be, and not refused where it can't."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.functions.arity import accepts_arguments


def two(one: Any, other: Any) -> None: ...


def optional(one: Any, other: Any = 1) -> None: ...


class Callables:
    def method(self, one: Any) -> None: ...

    @staticmethod
    def plain(one: Any) -> None: ...

    def __call__(self, one: Any) -> None: ...


@functools.wraps(two)
def supplies_the_other(one: Any) -> None:
    two(one, 2)


@functools.wraps(two)
def passes_on(*arguments: Any) -> None:
    two(*arguments, 2)


def shows_another() -> None: ...


shows_another.__signature__ = inspect.Signature()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "function",
    [
        optional,
        functools.partial(two, 1),
        Callables().method,
        Callables.plain,
        Callables(),
        supplies_the_other,
        passes_on,
        shows_another,
        lambda *values: values,
        str,
        int,
        operator.itemgetter(0),
        "{} h".format,
    ],
)
def test_what_takes_one_argument_is_not_refused(function: Callable[..., Any]) -> None:
    """A program that runs would be refused, because of a decorator or a function in C."""
    assert accepts_arguments(function, 1)


@pytest.mark.parametrize("function", [two, lambda: 0, Callables.method, operator.add])
def test_what_takes_other_arguments_is_known(function: Callable[..., Any]) -> None:
    """It would be told in a worker, with the first record, or with the second one of a key."""
    assert not accepts_arguments(function, 1)
