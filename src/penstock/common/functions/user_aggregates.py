"""Calls of an `ArrayAggregateFunction`, which a user has written: with many keys, or as on rows with one.

Here, accumulators are a list of arrays in the order of their declaration, and the accumulator of one key is a tuple of
Python's numbers. The user's methods have them as attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from types import SimpleNamespace
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.fitted import fitted
from penstock.common.columns.typed_values import reader_of
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.user_calls import PASSED_ON, RAISED, MethodError
from penstock.common.typeinfo import TypeInformation, Types

Array = numpy.ndarray[Any, numpy.dtype[Any]]
_KINDS = {"b": "a boolean", "i": "an integer", "u": "an integer", "f": "a float"}
_INTEGERS = (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG())
_FLOATS = (Types.FLOAT(), Types.DOUBLE())


class UserAggregate:
    """A user's function, with the name of its result and the `fields` that it reads.

    Raises TypeError or ValueError if its declaration of accumulators or results can't be used.
    """

    def __init__(self, name: str, fields: tuple[str, ...], function: Any) -> None:
        self.name = name
        self.fields = fields
        self.function = function
        self.class_name = type(function).__name__
        self._starts = _starts(f"{name!r}: {self.class_name}.accumulator", getattr(function, "accumulator", None))
        self.result_type = _result_type(f"{name!r}: {self.class_name}", function)
        self._value_types: list[Any] = [None] * len(fields)
        """The NumPy type of each field: None if it is not declared."""

    def of_types(self, types: Mapping[str, TypeInformation]) -> UserAggregate:
        """Return it for records whose fields have these types. Raises TypeError if they are not numbers."""
        found = UserAggregate(self.name, self.fields, self.function)
        for index, field in enumerate(self.fields):
            declared = types[field]
            if declared not in (*_INTEGERS, *_FLOATS):
                raise TypeError(
                    f"{self.name!r}: {self.class_name} reads integers and floats, and the field {field!r} is "
                    f"{declared!r}"
                )
            found._value_types[index] = numpy.int64 if declared in _INTEGERS else numpy.float64
        return found

    @property
    def accumulators(self) -> dict[str, Any]:
        """Name of each array -> its NumPy type."""
        return {name: start.dtype for name, start in self._starts.items()}

    @property
    def in_any_order(self) -> bool:
        """Whether the order in which records are added does not matter."""
        return bool(self.function.in_any_order)

    def __str__(self) -> str:
        """Return what snapshots depend on: class, fields and accumulators."""
        kind = type(self.function)
        arrays = ", ".join(f"{name}: {dtype}" for name, dtype in self.accumulators.items())
        return f"{kind.__module__}.{kind.__qualname__}({', '.join(self.fields)}; {arrays})"

    # Many keys.

    def new(self, keys: int) -> list[Array]:
        """Return the accumulators of keys without records."""
        return [numpy.full(keys, start, start.dtype) for start in self._starts.values()]

    def add(self, arrays: Sequence[Array], slots: Array, values: Sequence[Array]) -> list[Array]:
        """Return the accumulators with records added. The arrays change, even if it raises MethodError."""
        given = self._attributes(arrays)
        with self._called("add"):
            self.function.add(given, _read_only(slots), *map(_read_only, values))
            return self._arrays_of(given, len(arrays[0]))

    def add_steps(self, arrays: Sequence[Array], counts: Sequence[int], values: Sequence[Array]) -> list[Array]:
        """Add records in steps. Return the accumulators of each record's key after it.

        A step adds a record to each of the first keys of `arrays`; `counts`: to how many, which never rises. `values`
        has the records of the first step, then those of the second one, and so on. The arrays change, even if it raises
        MethodError.
        """
        after = [numpy.empty(len(values[0]), array.dtype) for array in arrays]
        values = [_read_only(each) for each in values]
        given, slots = self._attributes(arrays), _read_only(numpy.arange(len(arrays[0])))
        first = 0
        with self._called("add"):
            # What many rows of one key cost: everything that steps have in common is made once.
            for count in counts:
                if count != len(slots):
                    arrays, slots = [array[:count] for array in arrays], slots[:count]
                    given = self._attributes(arrays)
                rows = slice(first, first + count)
                self.function.add(given, slots, *[each[rows] for each in values])
                attributes = vars(given)
                if attributes.keys() != self._starts.keys() or not all(map(is_, attributes.values(), arrays)):
                    for array, replaced in zip(arrays, self._arrays_of(given, count), strict=True):
                        array[:] = replaced
                    given = self._attributes(arrays)
                for each, array in zip(after, arrays, strict=True):
                    each[rows] = array
                first = rows.stop
        return after

    def merge(self, arrays: Sequence[Array], slots: Array, others: Sequence[Array]) -> list[Array]:
        """Return the accumulators with others merged. The arrays change, even if it raises MethodError."""
        given = self._attributes(arrays)
        with self._called("merge"):
            self.function.merge(given, _read_only(slots), self._attributes(map(_read_only, others)))
            return self._arrays_of(given, len(arrays[0]))

    def results(self, arrays: Sequence[Array]) -> pyarrow.Array:
        """Return the result of each key, as a column of the declared type. Raises MethodError."""
        with self._called("get_result"):
            found = self.function.get_result(self._attributes(map(_read_only, arrays)))
            column = found if isinstance(found, (pyarrow.Array, pyarrow.ChunkedArray)) else pyarrow.array(found)
            if isinstance(column, pyarrow.ChunkedArray):
                column = column.combine_chunks()
            if len(column) != len(arrays[0]):
                raise ValueError(f"expected {len(arrays[0])} results, one for each key, got {len(column)}")
            return fitted(column, pyarrow.field(self.name, self.result_type.to_arrow()))

    # One key.

    def add_record(self, accumulator: Any, value: Any) -> Any:
        """Return the accumulator of a key, None at first, with a record added: its value, if it has several a tuple."""
        values = (value,) if len(self.fields) == 1 else value
        if any(one is None for one in values):
            return accumulator
        columns = [
            self._value(field, one, kind)
            for field, one, kind in zip(self.fields, values, self._value_types, strict=True)
        ]
        return _of_one(self.add(self._arrays_of_one(accumulator), numpy.zeros(1, numpy.int64), columns))

    def merge_two(self, first: Any, second: Any) -> Any:
        """Return the accumulator of the records of two."""
        others = self._arrays_of_one(second)
        return _of_one(self.merge(self._arrays_of_one(first), numpy.zeros(1, numpy.int64), others))

    def result(self, accumulator: Any) -> Any:
        """Return the result of a key with records, as columns would have it as a row."""
        column = self.results(self._arrays_of_one(accumulator))
        read: Callable[[pyarrow.Array], Any] = reader_of(column.type, self.result_type)
        (value,) = read(column)
        return value

    def _arrays_of_one(self, accumulator: Any) -> list[Array]:
        if accumulator is None:
            return self.new(1)
        return [
            numpy.array([value], start.dtype) for value, start in zip(accumulator, self._starts.values(), strict=True)
        ]

    def _value(self, field: str, value: Any, kind: Any) -> Array:
        array = numpy.asarray([value])
        if array.ndim != 1 or array.dtype.kind not in "if" or (kind is numpy.int64 and array.dtype.kind == "f"):
            expected = "an integer" if kind is numpy.int64 else "an integer or a float"
            raise TypeError(f"{self.name!r}: expected {expected} of 64 bits in the field {field!r}, got {value!r:.200}")
        return array.astype(kind or (numpy.int64 if array.dtype.kind == "i" else numpy.float64))

    # Calls.

    def _attributes(self, arrays: Any) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(self._starts, arrays, strict=True)))

    def _arrays_of(self, given: SimpleNamespace, keys: int) -> list[Array]:
        """Return the arrays that the user has changed or replaced. Raises TypeError for others than are declared."""
        unknown = vars(given).keys() ^ self._starts.keys()
        if unknown:
            raise TypeError(f"the accumulators are {', '.join(self._starts)}, and not {', '.join(sorted(unknown))}")
        arrays = []
        for name, start in self._starts.items():
            array = numpy.asarray(getattr(given, name))
            if array.shape != (keys,) or not numpy.can_cast(array.dtype, start.dtype, "same_kind"):
                raise TypeError(
                    f"expected {keys} values of {start.dtype} in the accumulator {name!r}, got an array of "
                    f"{array.dtype} with the shape {array.shape}"
                )
            arrays.append(array.astype(start.dtype, copy=False))
        return arrays

    @contextmanager
    def _called(self, method: str) -> Iterator[None]:
        try:
            yield
        except PASSED_ON:
            raise
        except RAISED as error:
            raise MethodError(f"{self.class_name}.{method}", without_our_frames(error)) from error


def _of_one(arrays: Sequence[Array]) -> tuple[Any, ...]:
    return tuple(array.item() for array in arrays)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _starts(where: str, declared: Any) -> dict[str, Any]:
    """Return the value that each accumulator begins with."""
    if not isinstance(declared, Mapping) or not declared:
        raise TypeError(f'{where}: expected names and types, such as {{"sum": numpy.float64}}, got {declared!r}')
    starts: dict[str, Any] = {}
    for name, given in declared.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"{where}: expected a name that can be an attribute, got {name!r}")
        try:
            start = numpy.zeros((), given) if isinstance(given, (type, str, numpy.dtype)) else numpy.asarray(given)
        except TypeError as error:
            raise TypeError(f"{where}: {name!r} has {given!r}, which is not a type of NumPy") from error
        if start.ndim or start.dtype.kind not in _KINDS or start.dtype.itemsize > numpy.dtype(numpy.int64).itemsize:
            raise TypeError(
                f"{where}: {name!r} must be a boolean, an integer or a float of at most 64 bits, as a type such as "
                f"numpy.float64 or as the value to begin with, got {given!r}"
            )
        starts[name] = start[()]
    return starts


def _result_type(where: str, function: Any) -> TypeInformation:
    declared = getattr(function, "result_type", None)
    if not isinstance(declared, TypeInformation):
        raise TypeError(f"{where}.result_type must be a type of Types, e.g. Types.DOUBLE(), got {declared!r}")
    if declared.to_arrow() is None:
        raise TypeError(f"{where}.result_type is {declared!r}, which has no column type: declare another type")
    return declared
