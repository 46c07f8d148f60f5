"""The contents of a window: all of its records, their reduction, or an accumulator.

`add_records` is the hot path of windows. Per record: one dict lookup, one call of the user's function, one assignment.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.functions.result_kinds import awaited
from penstock.common.functions.user_calls import RAISED
from penstock.common.typeinfo import TypeInformation
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import FunctionPlace
from penstock.engine.runtime.windows.slicing import is_plain
from penstock.engine.state.aggregates_schema import aggregates_schema
from penstock.engine.state.schema import TableSchema

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slice
    from penstock.engine.state.tables import Layer


class Contents(ABC):
    """Creates and updates contents: `first` from a record, `add` by another record. Both may return the same object.

    If a record belongs to several windows, the contents of each get a copy, because functions may keep and change it.
    Lists of records need no copies: the window function gets copies later.
    """

    method: str
    """The name in errors of the user's function that is called for records."""
    type_info: TypeInformation | None
    """The declared type of a record, of the reduced value, or of the accumulator."""
    keeps_records = False
    """Whether contents are a list of all records. A table of lists stores them, and appends without reading."""

    result_is_computed = False
    """Whether `result` calls a user's function, which may change the contents."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""

    def close(self, context: OperatorContext) -> None:
        """Close the user's function."""

    def schema(self) -> TableSchema | None:
        """Return the schema of a table of such contents, if a restored one may differ from it."""
        return None

    def function_places(self) -> Sequence[FunctionPlace]:
        """Return the places of functions; see Operator."""
        return ()

    def functions_replaced(self) -> None:
        """Recompute attributes after functions were replaced; see Operator."""

    @abstractmethod
    def first(self, value: Any) -> Any:
        """Return the contents of a window with one record."""

    @abstractmethod
    def add(self, value: Any, contents: Any) -> Any:
        """Return the contents with a record added."""

    @abstractmethod
    def merge(self, contents: Any, others: Any) -> Any:
        """Merge the contents of two windows. May change or return either argument."""

    @abstractmethod
    def result(self, contents: Any) -> Any:
        """Return the result of a window without a window function."""

    # For loops, which would otherwise pay for one more call per slice or key.

    @property
    def merge_function(self) -> Callable[[Any, Any], Any]:
        """The function that `merge` calls."""
        return self.merge

    @property
    def result_function(self) -> Callable[[Any], Any]:
        """The function that `result` calls."""
        return self.result

    @abstractmethod
    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, new_keys: list[Layer]) -> None:
        """Add each value to the contents of its key in `table`. Keys that are new there go into all `new_keys`."""

    @property
    def combines(self) -> bool:
        """Whether contents of parts of the records, in any order, can be merged to those of all."""
        return False

    def combiner(self, name: str, key_selector: Callable[[Any], Any]) -> Operator | None:
        """Return an operator that adds records to contents before the exchange, and sends these; None without one."""
        return None

    may_be_shared = False
    """Whether overlapping windows can share such contents, for some functions."""

    @property
    def shares(self) -> bool:
        """Whether overlapping windows share the contents of slices, and merge them when they fire."""
        return False

    @property
    def carries(self) -> bool:
        """Whether cumulative windows carry contents from one to the next: then merging gives the same in any order."""
        return self.shares

    def can_merge(self) -> bool:
        """Return whether contents can be merged. Called after `open`, if windows share restored contents."""
        return True

    def were_shared(self) -> bool:
        """Return whether overlapping windows shared these contents up to manifest version 3. Called after `open`."""
        return True

    @abstractmethod
    def elements(self, contents: Any) -> list[Any]:
        """Return the elements for the window function."""

    @abstractmethod
    def elements_of(self, values: list[Any]) -> list[Any]:
        """Return the elements for the window function from all records of the window, which are copies."""


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

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, new_keys: list[Layer]) -> None:
        get, own, put = table.current.get, table.get_mutable, table.put
        for key, value in zip(keys, values):  # noqa: B905
            before = get(key)
            if before is None:
                before = own(key)
            if before is None:
                put(key, [value])
                for waiting in new_keys:
                    waiting[key] = True
            else:
                before.append(value)

    def elements(self, contents: list[Any]) -> list[Any]:
        # A copy: the window may fire again, and the function may change the list that it is called with.
        return contents[:]

    def elements_of(self, values: list[Any]) -> list[Any]:
        return values


class Reduced(Contents):
    """The reduced records: a single value."""

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

    @property
    def combines(self) -> bool:
        return bool(getattr(self.function.instance, "is_combinable", False))

    def result(self, contents: Any) -> Any:
        return contents

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, new_keys: list[Layer]) -> None:
        layer, older, reduce = table.current, table.older, self.function.call
        get = layer.get
        for key, value in zip(keys, values):  # noqa: B905
            before = get(key)
            if before is None:
                before = older(key)
            if before is None:
                layer[key] = value
                for waiting in new_keys:
                    waiting[key] = True
            else:
                layer[key] = reduce(before, value)
        # Checked once per chunk: a function that returns a coroutine does so for each record.
        awaited(layer[key])

    def elements(self, contents: Any) -> list[Any]:
        return [contents]

    def elements_of(self, values: list[Any]) -> list[Any]:
        return [awaited(functools.reduce(self.function.call, values))] if values else []


class Aggregated(Contents):
    """An accumulator. The window function gets its result."""

    may_be_shared = True
    result_is_computed = True

    def __init__(self, function: UserFunction, type_info: TypeInformation | None = None) -> None:
        self.function = function
        self.type_info = type_info
        self.functions_replaced()

    def __getstate__(self) -> dict[str, Any]:
        # Pickle only one of the references to the function: with two, a worker would get two functions.
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

    def schema(self) -> TableSchema | None:
        function = self.instance
        return aggregates_schema(function.aggregates) if isinstance(function, FieldAggregates) else None

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

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, new_keys: list[Layer]) -> None:
        layer, older = table.current, table.older
        get, add, create = layer.get, self.instance.add, self.instance.create_accumulator
        for key, value in zip(keys, values):  # noqa: B905
            before = get(key)
            if before is None:
                before = older(key)
            if before is None:
                before = awaited(create())
                for waiting in new_keys:
                    waiting[key] = True
            layer[key] = add(value, before)
        # Checked once per chunk, as above.
        awaited(layer[key])

    @property
    def shares(self) -> bool:
        return bool(getattr(self.instance, "shares_slices", False))

    @property
    def combines(self) -> bool:
        return self.shares

    @property
    def carries(self) -> bool:
        function = self.instance
        return function.in_any_order if isinstance(function, FieldAggregates) else self.shares

    def can_merge(self) -> bool:
        # Many programs do not implement `merge`: try it on two empty accumulators.
        return self._merged_empty() is not None

    def were_shared(self) -> bool:
        # They were shared if `merge` was implemented and its arguments could be copied at little cost.
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
