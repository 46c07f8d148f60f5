"""Aggregates over the rows of a match, one row after the other, as values of Python.

A partial match has what its rows come to so far, so a condition on a sum costs the same for each row of a match.
States are shared by partial matches: none is changed in place. NULL is left out. Source: Flink's built-in aggregates.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Context
from typing import Any

from penstock.table.logical_types import INTEGER_NUMERIC, LogicalType
from penstock.table.planner.errors import UnsupportedPlanError

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_WIDE = Context(prec=100)
_DIGITS_MAX = 38


class MatchAggregate(ABC):
    """An aggregate of the values at `places` of rows."""

    zero: Any = None
    """The state before the first row."""

    def __init__(self, places: Sequence[int]) -> None:
        self.places = tuple(places)

    @abstractmethod
    def add(self, state: Any, row: Sequence[Any]) -> Any:
        """Return the state with one more row."""

    def value(self, state: Any) -> Any:
        """Return the result."""
        return state


class Count(MatchAggregate):
    """COUNT: of rows, or of those in which no argument is NULL."""

    zero = 0

    def add(self, state: int, row: Sequence[Any]) -> int:
        for place in self.places:
            if row[place] is None:
                return state
        return state + 1


class Sum(MatchAggregate):
    """SUM of integers, which wraps, of DOUBLE, and of decimals, which is NULL with more than 38 digits."""

    def __init__(self, places: Sequence[int], result: LogicalType) -> None:
        super().__init__(places)
        self._bits = BITS.get(result.root, 0)
        self._is_decimal = result.root == "DECIMAL"
        self._most = 10 ** (_DIGITS_MAX - result.scale) if self._is_decimal else 0

    def add(self, state: Any, row: Sequence[Any]) -> Any:
        value = row[self.places[0]]
        if value is None:
            return state
        if state is None:
            return value
        return _WIDE.add(state, value) if self._is_decimal else state + value

    def value(self, state: Any) -> Any:
        if state is None:
            return None
        if self._is_decimal:
            return None if abs(state) >= self._most else state
        return wrapped(state, self._bits) if self._bits else state


class SingleSum(MatchAggregate):
    """SUM of FLOAT: each sum has the precision of FLOAT."""

    def add(self, state: float | None, row: Sequence[Any]) -> float | None:
        value: float | None = row[self.places[0]]
        if state is None or value is None:
            return value if state is None else state
        return as_single(state + value)


class Extreme(MatchAggregate):
    """MIN or MAX."""

    def __init__(self, places: Sequence[int], *, is_max: bool) -> None:
        super().__init__(places)
        self._is_max = is_max

    def add(self, state: Any, row: Sequence[Any]) -> Any:
        value = row[self.places[0]]
        if state is None or value is None:
            return value if state is None else state
        return value if (value > state if self._is_max else value < state) else state


class EndValue(MatchAggregate):
    """FIRST_VALUE or LAST_VALUE: the first or last value that is not NULL."""

    def __init__(self, places: Sequence[int], *, is_first: bool) -> None:
        super().__init__(places)
        self._is_first = is_first

    def add(self, state: Any, row: Sequence[Any]) -> Any:
        value = row[self.places[0]]
        return state if value is None or (self._is_first and state is not None) else value


class Listed(MatchAggregate):
    """LISTAGG: texts with a delimiter between them."""

    def add(self, state: str | None, row: Sequence[Any]) -> str | None:
        value: str | None = row[self.places[0]]
        if value is None or state is None:
            return state if value is None else value
        delimiter = row[self.places[1]] if len(self.places) > 1 else ","
        return f"{state}{delimiter}{value}"


def match_aggregate(
    name: str, places: Sequence[int], arguments: Sequence[LogicalType], result: LogicalType
) -> MatchAggregate | None:
    """Return the aggregate of a function; None if it has no such name.

    `places`: where rows have the arguments, of the types `arguments`. Raises UnsupportedPlanError for arguments of a
    type that is not supported.
    """
    if name == "COUNT":
        return Count(places)
    if name == "SUM":
        if not {result.root, arguments[0].root} <= INTEGER_NUMERIC | {"DECIMAL", "FLOAT", "DOUBLE"}:
            raise UnsupportedPlanError(f"SUM of {arguments[0]} is not supported: cast the argument")
        return SingleSum(places) if result.root == "FLOAT" else Sum(places, result)
    if name in ("MIN", "MAX"):
        return Extreme(places, is_max=name == "MAX")
    if name in ("FIRST_VALUE", "LAST_VALUE"):
        return EndValue(places, is_first=name == "FIRST_VALUE")
    return Listed(places) if name == "LISTAGG" else None


def wrapped(number: int, bits: int) -> int:
    """Return an integer as Java has it with so many bits."""
    half = 1 << (bits - 1)
    return number if -half <= number < half else (number + half) % (2 * half) - half


def as_single(number: float) -> float:
    """Return the nearest number that FLOAT has."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
