"""What a window keeps of its records: all of them, their reduction, or an accumulator.

`add_records` is the hot path of windows. Per record: one dict lookup, one call of the user's function, one assignment.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.result_kinds import awaited
from penstock.common.functions.user_calls import RAISED
from penstock.common.typeinfo import TypeInformation
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import FunctionPlace
from penstock.engine.runtime.windows.slicing import is_plain

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slice
    from penstock.engine.state.tables import Layer


class Contents(ABC):
    """`first` makes contents of a record, `add` adds another. What they return is kept; it may be the same object.

    A record that goes into several windows is in the contents of each as an object of its own, since functions may keep
    it there and change it; unless contents are lists of records, of which the window function has its own.
    """

    method: str
    """How errors name the user's function that is called for a record."""
    type_info: TypeInformation | None
    """Declared type of what is kept: of a record, of the reduced value, of the accumulator."""
    keeps_records = False
    """Whether contents are a list of all records: then a table of lists has them, which adds without reading."""

    result_is_computed = False
    """Whether `result` calls a function of the user's, which may change the contents."""

    def open(self, context: OperatorContext) -> None:
        """Calls the user's `open`."""

    def close(self, context: OperatorContext) -> None:
        """Calls the user's `close`."""

    def function_places(self) -> Sequence[FunctionPlace]:
        """As an operator's."""
        return ()

    def functions_replaced(self) -> None:
        """As an operator's."""

    @abstractmethod
    def first(self, value: Any) -> Any:
        """The contents of a window with one record."""

    @abstractmethod
    def add(self, value: Any, contents: Any) -> Any:
        """The contents with a record added."""

    @abstractmethod
    def merge(self, contents: Any, others: Any) -> Any:
        """The contents of two windows that have merged. Either argument may be changed or returned."""

    @abstractmethod
    def result(self, contents: Any) -> Any:
        """The result of a window without a window function."""

    # For loops, which would pay for a call in between with each slice or key.

    @property
    def merge_function(self) -> Callable[[Any, Any], Any]:
        """What `merge` calls."""
        return self.merge

    @property
    def result_function(self) -> Callable[[Any], Any]:
        """What `result` calls."""
        return self.result

    @abstractmethod
    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, newcomers: list[Layer]) -> None:
        """Add each value to the contents of its key in `table`; keys that are new there go into all `newcomers`."""

    may_be_shared = False
    """Whether there are functions for which windows that overlap share these contents."""

    @property
    def shares(self) -> bool:
        """Whether windows that overlap are put together from the contents of the slices that they share."""
        return False

    def can_merge(self) -> bool:
        """Whether contents can be merged. Asked after `open`, if windows share what was restored."""
        return True

    def were_shared(self) -> bool:
        """Whether windows that overlap shared these contents up to manifest version 3. Asked after `open`."""
        return True

    @abstractmethod
    def elements(self, contents: Any) -> list[Any]:
        """The elements that the window function is called with."""

    @abstractmethod
    def elements_of(self, values: list[Any]) -> list[Any]:
        """The elements that the window function is called with if these records, its own, are all of the window."""


class AllRecords(Contents):
    """All records, in the order of their arrival."""

    method = "window"
    keeps_records = True

    def __init__(self, type_info: TypeInformation | None = None) -> None:
        self.type_info = type_info

    def first(self, value: Any) -> list[Any]:
        return [value]

    def add(self, value: Any, contents: list[Any]) -> list[Any]:
        contents.append(value)
        return contents

    def merge(self, contents: list[Any], others: list[Any]) -> list[Any]:
        return contents + others

    def result(self, contents: list[Any]) -> list[Any]:
        return contents[:]

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, newcomers: list[Layer]) -> None:
        get, own, put = table.current.get, table.own, table.put
        for key, value in zip(keys, values):  # noqa: B905
            before = get(key)
            if before is None:
                before = own(key)
            if before is None:
                put(key, [value])
                for waiting in newcomers:
                    waiting[key] = True
            else:
                before.append(value)

    def elements(self, contents: list[Any]) -> list[Any]:
        # A copy: the window may fire again, and the function may change the list that it is called with.
        return contents[:]

    def elements_of(self, values: list[Any]) -> list[Any]:
        return values


class Reduced(Contents):
    """One value: the records reduced."""

    may_be_shared = True

    def __init__(self, function: UserFunction, type_info: TypeInformation | None = None) -> None:
        self.function = function
        self.type_info = type_info
        self.method = function.method

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function"),)

    def functions_replaced(self) -> None:
        self.method = self.function.method

    def open(self, context: OperatorContext) -> None:
        self.function.open(context)

    def close(self, context: OperatorContext) -> None:
        self.function.close(context)

    def first(self, value: Any) -> Any:
        return value

    def add(self, value: Any, contents: Any) -> Any:
        return awaited(self.function.call(contents, value))

    def merge(self, contents: Any, others: Any) -> Any:
        return awaited(self.function.call(contents, others))

    @property
    def merge_function(self) -> Callable[[Any, Any], Any]:
        return self.function.call

    def result(self, contents: Any) -> Any:
        return contents

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, newcomers: list[Layer]) -> None:
        layer, older, reduce = table.current, table.older, self.function.call
        get = layer.get
        for key, value in zip(keys, values):  # noqa: B905
            before = get(key)
            if before is None:
                before = older(key)
            if before is None:
                layer[key] = value
                for waiting in newcomers:
                    waiting[key] = True
            else:
                layer[key] = reduce(before, value)
        # Once a chunk: a function that returns a coroutine does so for each record.
        awaited(layer[key])

    # Windows that overlap do not share slices: the function sees the records of each in the order of their arrival, as
    # in Flink, and need not be commutative or associative.

    def elements(self, contents: Any) -> list[Any]:
        return [contents]

    def elements_of(self, values: list[Any]) -> list[Any]:
        return [awaited(functools.reduce(self.function.call, values))] if values else []


class Aggregated(Contents):
    """An accumulator, of which the window function is given the result."""

    may_be_shared = True
    result_is_computed = True

    def __init__(self, function: UserFunction, type_info: TypeInformation | None = None) -> None:
        self.function = function
        self.type_info = type_info
        self.functions_replaced()

    def __getstate__(self) -> dict[str, Any]:
        # It refers to the function by one way alone: another one would give a worker two of them.
        return {name: value for name, value in vars(self).items() if name not in ("instance", "method")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.functions_replaced()

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function"),)

    def functions_replaced(self) -> None:
        self.instance, self.method = self.function.instance, self.function.method

    def open(self, context: OperatorContext) -> None:
        self.function.open(context)

    def close(self, context: OperatorContext) -> None:
        self.function.close(context)

    def first(self, value: Any) -> Any:
        return awaited(self.instance.add(value, awaited(self.instance.create_accumulator())))

    def add(self, value: Any, contents: Any) -> Any:
        return awaited(self.instance.add(value, contents))

    def merge(self, contents: Any, others: Any) -> Any:
        return awaited(self.instance.merge(contents, others))

    def result(self, contents: Any) -> Any:
        return awaited(self.instance.get_result(contents))

    @property
    def merge_function(self) -> Callable[[Any, Any], Any]:
        return self.instance.merge  # type: ignore[no-any-return]

    @property
    def result_function(self) -> Callable[[Any], Any]:
        return self.instance.get_result  # type: ignore[no-any-return]

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, newcomers: list[Layer]) -> None:
        layer, older = table.current, table.older
        get, add, create = layer.get, self.instance.add, self.instance.create_accumulator
        for key, value in zip(keys, values):  # noqa: B905
            before = get(key)
            if before is None:
                before = older(key)
            if before is None:
                before = awaited(create())
                for waiting in newcomers:
                    waiting[key] = True
            layer[key] = add(value, before)
        # Once a chunk, as above.
        awaited(layer[key])

    @property
    def shares(self) -> bool:
        return bool(getattr(self.instance, "shares_slices", False))

    def can_merge(self) -> bool:
        """Tries `merge` on two empty accumulators: many programs leave it unwritten."""
        return self._merged_empty() is not None

    def were_shared(self) -> bool:
        """They were where `merge` was written, and what it is given could be copied at little cost."""
        merged = self._merged_empty()
        return merged is not None and is_plain(merged) and is_plain(self.instance.create_accumulator())

    def _merged_empty(self) -> Any:
        create = self.instance.create_accumulator
        try:
            return self.instance.merge(create(), create())
        except RAISED:
            return None

    def elements(self, contents: Any) -> list[Any]:
        return [self.result(contents)]

    def elements_of(self, values: list[Any]) -> list[Any]:
        accumulator = awaited(self.instance.create_accumulator())
        for value in values:
            accumulator = self.add(value, accumulator)
        return [self.result(accumulator)]
