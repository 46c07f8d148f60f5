"""Records whose fields are computed from their numbers, many at a time."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

from penstock.common.columns.fitted import fitted
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.base.split_mix import STEP, Words, mixed

Numbers = NDArray[numpy.int64]


class FieldGenerator(ABC):
    """Computes the values of a field from the numbers of the records."""

    @abstractmethod
    def values(self, numbers: Numbers, name: str) -> Any:
        """Return a value for each record, as an array of NumPy or Arrow. `name`: of the field."""


class FieldGenerators:
    """The generators of fields. Source: Flink docs, "DataGen SQL Connector": kinds of fields."""

    @staticmethod
    def sequence(start: int = 0, step: int = 1) -> FieldGenerator:
        """Return a generator of `start + step * number`.

        A record whose number is beyond 64 bits fails the job. Raise ValueError if one of the arguments is.
        """
        return _Sequence(start, step)

    @staticmethod
    def random(minimum: float, maximum: float, *, seed: int = 0) -> FieldGenerator:
        """Return a generator of random numbers: integers up to and with `maximum`, or floats below it.

        They are floats if one of the bounds is. Fields of different names have different numbers. Raise ValueError
        unless `minimum <= maximum`, and if an integer is beyond 64 bits or a float has no finite distance to the other.
        """
        return _Random(minimum, maximum, seed)

    @staticmethod
    def choice(values: Sequence[Any], *, seed: int = 0) -> FieldGenerator:
        """Return a generator of random elements of a list, which may contain None.

        Raise ValueError if it is empty, or if its elements are of several types.
        """
        return _Choice(values, seed)


class GeneratedFields:
    """The `generator_function` of a DataGeneratorSource that computes many records at a time.

    `record_type`: the columns, as in `DataStream.as_columns`: a `Types.ROW_NAMED`, a dataclass or NamedTuple, or a
    pyarrow.Schema. `fields`: for each of them a FieldGenerator, or a function from the numbers of the records (an array
    of int64) to an array of NumPy or Arrow with as many values, which depend only on their number. Raise TypeError or
    ValueError for anything else.

    With `as_columns` behind the source no Python object is made for a record, and only fields that are read are
    computed.
    """

    def __init__(
        self,
        record_type: RowTypeInfo | pyarrow.Schema | type[Any],
        fields: Mapping[str, FieldGenerator | Callable[[Numbers], Any]],
    ) -> None:
        self.columns = RecordColumns(record_type)
        self._fields = dict(fields)
        if set(self._fields) != set(self.columns.names):
            raise ValueError(
                f"expected a generator for each of {', '.join(self.columns.names)}, got {', '.join(self._fields)}"
            )
        for name, generator in self._fields.items():
            if not isinstance(generator, FieldGenerator) and not callable(generator):
                raise TypeError(f"the generator of {name!r} must be a FieldGenerator or a function, got {generator!r}")

    def batch(self, numbers: range, columns: RecordColumns | None = None) -> pyarrow.RecordBatch:
        """Return the records with these numbers, in some of the columns.

        Raise SourceError, which names the field.
        """
        schema = (columns or self.columns).schema
        of_records = numpy.arange(numbers.start, numbers.stop, numbers.step, dtype=numpy.int64)
        return pyarrow.RecordBatch.from_arrays([self._column(of_records, field) for field in schema], schema=schema)

    def _column(self, numbers: Numbers, field: pyarrow.Field) -> pyarrow.Array:
        generator = self._fields[field.name]
        if isinstance(generator, FieldGenerator):
            values = generator.values(numbers, field.name)
        else:
            values = generator(numbers.copy())
        column = values if isinstance(values, pyarrow.Array) else _array(values, field.name)
        if len(column) != len(numbers):
            raise SourceError(
                f"the generator of {field.name!r} returned {len(column)} values for {len(numbers)} records"
            )
        try:
            return fitted(column, field)
        except TypeError as error:
            raise SourceError(f"the generator of {field.name!r}: {error}") from error


def _array(values: Any, name: str) -> pyarrow.Array:
    try:
        return pyarrow.array(values)
    except (TypeError, pyarrow.ArrowException) as error:
        raise SourceError(f"the generator of {name!r} must return an array, got {values!r:.200}: {error}") from error


class _Sequence(FieldGenerator):
    def __init__(self, start: int, step: int) -> None:
        _check_64_bits("start", start)
        _check_64_bits("step", step)
        self._start = start
        self._step = step

    def values(self, numbers: Numbers, name: str) -> Any:
        if len(numbers):
            # NumPy's integers would begin again at the least.
            ends: list[float] = [self._start + self._step * int(number) for number in (numbers[0], numbers[-1])]
            if any(isinstance(end, int) and not _fits_64_bits(end) for end in ends):
                raise SourceError(f"the sequence of {name!r} is beyond 64 bits at the records up to {numbers[-1]:,}")
        return self._start + self._step * numbers


class _Random(FieldGenerator):
    def __init__(self, minimum: float, maximum: float, seed: int) -> None:
        if not minimum <= maximum:
            raise ValueError(f"minimum must be at most maximum, got {minimum} and {maximum}")
        self._are_integers = all(isinstance(bound, Integral) for bound in (minimum, maximum))
        self._minimum = int(minimum) if self._are_integers else float(minimum)
        self._maximum = int(maximum) if self._are_integers else float(maximum)
        if self._are_integers:
            _check_64_bits("minimum", self._minimum)
            _check_64_bits("maximum", self._maximum)
        elif not math.isfinite(self._maximum - self._minimum):
            raise ValueError(f"expected bounds with a finite distance, got {minimum} and {maximum}")
        _check_64_bits("seed", seed)
        self._seed = seed

    def values(self, numbers: Numbers, name: str) -> Any:
        words = _words(numbers, name, self._seed)
        if self._are_integers:
            span = self._maximum - self._minimum + 1
            # All 64 bits have one number more than the type.
            within = words if span > _WORD_MAX else words % numpy.uint64(span)
            return within.view(numpy.int64) + self._minimum
        return self._minimum + (words >> numpy.uint64(11)) * 2.0**-53 * (self._maximum - self._minimum)


class _Choice(FieldGenerator):
    def __init__(self, values: Sequence[Any], seed: int) -> None:
        if not len(values):
            raise ValueError("the list of values to choose from is empty")
        _check_64_bits("seed", seed)
        try:
            self._values = pyarrow.array(values)
        except (TypeError, pyarrow.ArrowException) as error:
            raise ValueError(f"cannot choose from {values!r:.200}: {error}") from error
        self._seed = seed

    def values(self, numbers: Numbers, name: str) -> Any:
        words = _words(numbers, name, self._seed)
        return self._values.take(pyarrow.array(words % numpy.uint64(len(self._values))))


_WORD_MAX = 2**64 - 1


def _fits_64_bits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _check_64_bits(name: str, number: float) -> None:
    if isinstance(number, int) and not _fits_64_bits(number):
        raise ValueError(f"{name} must be an integer of 64 bits, got {number}")


def _words(numbers: Numbers, name: str, seed: int) -> Words:
    """Return a random word for each number, from the sequence that the seed and the field select."""
    start = mixed(numpy.array([seed, zlib.crc32(name.encode())], numpy.int64).view(numpy.uint64) + STEP)
    return mixed(numbers.view(numpy.uint64) * STEP + (start[0] ^ start[1]))
