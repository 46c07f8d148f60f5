"""What is kept of the records of a window: all of them, their reduction, or an accumulator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.runtime.operators.function import UserFunction

if TYPE_CHECKING:
    from penstock.runtime.context import OperatorContext


class Contents(ABC):
    """`first` makes contents of a record, `add` adds another. What they return is kept; it may be the same object."""

    method: str
    """How errors name the user's function that is called for a record."""

    def open(self, context: OperatorContext) -> None:
        """The place of the user's own `open`."""

    def close(self, context: OperatorContext) -> None:
        """The place of the user's own `close`."""

    @abstractmethod
    def first(self, value: Any) -> Any:
        """The contents of a window with one record."""

    @abstractmethod
    def add(self, value: Any, contents: Any) -> Any:
        """The contents with a record added."""

    @abstractmethod
    def merge(self, contents: Any, others: Any) -> Any:
        """The contents of two windows that have become one; both may be used up."""

    @abstractmethod
    def elements(self, contents: Any) -> list[Any]:
        """What the window function is given."""


class AllRecords(Contents):
    """All records, in the order of their arrival."""

    method = "window"

    def first(self, value: Any) -> list[Any]:
        return [value]

    def add(self, value: Any, contents: list[Any]) -> list[Any]:
        contents.append(value)
        return contents

    def merge(self, contents: list[Any], others: list[Any]) -> list[Any]:
        return contents + others

    def elements(self, contents: list[Any]) -> list[Any]:
        # A copy: the window may fire again, and who is given a list may sort or empty it.
        return contents[:]


class Reduced(Contents):
    """One value: the records reduced."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self.method = function.method

    def open(self, context: OperatorContext) -> None:
        self.function.open(context)

    def close(self, context: OperatorContext) -> None:
        self.function.close(context)

    @property
    def reduce(self) -> Callable[[Any, Any], Any]:
        """The user's function of the older and the newer value."""
        return self.function.call

    def first(self, value: Any) -> Any:
        return value

    def add(self, value: Any, contents: Any) -> Any:
        return self.function.call(contents, value)

    def merge(self, contents: Any, others: Any) -> Any:
        return self.function.call(contents, others)

    def elements(self, contents: Any) -> list[Any]:
        return [contents]


class Aggregated(Contents):
    """An accumulator, of which the window function is given the result."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self.instance = function.instance
        self.method = function.method

    def open(self, context: OperatorContext) -> None:
        self.function.open(context)

    def close(self, context: OperatorContext) -> None:
        self.function.close(context)

    def first(self, value: Any) -> Any:
        return self.instance.add(value, self.instance.create_accumulator())

    def add(self, value: Any, contents: Any) -> Any:
        return self.instance.add(value, contents)

    def merge(self, contents: Any, others: Any) -> Any:
        return self.instance.merge(contents, others)

    def elements(self, contents: Any) -> list[Any]:
        return [self.instance.get_result(contents)]
