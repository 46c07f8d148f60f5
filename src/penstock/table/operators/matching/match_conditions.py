"""Conditions of DEFINE on more than the row in question: on rows before it, and on aggregates over them.

What they read is carried by partial matches as accumulators: the last and the first rows of a variable, and states of
aggregates. So a condition costs the same for each row, however long the match is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.cep.accumulators import Accumulator
from penstock.common.functions.user_calls import RAISED, MethodError
from penstock.engine.runtime.task.context import OperatorContext
from penstock.table.operators.matching.match_parts import ALL, Aggregated, MatchPart, MatchTime, Row, RowValue
from penstock.table.operators.matching.scalar_expressions import ScalarExpression

Reader = Callable[[Row, Any], Any]
"""From the row in question and the context of the partial match to a value."""


class Carried:
    """The accumulators of a pattern, as the parts that its conditions read ask for them."""

    def __init__(self, parts: Sequence[tuple[str, MatchPart]]) -> None:
        """`parts`: each with the variable whose condition reads it."""
        depths: dict[tuple[str, bool], int] = {}
        aggregates: list[Aggregated] = []
        for defined, part in parts:
            if isinstance(part, RowValue):
                depth = part.offset + (0 if not part.is_first and _has_current(part.variable, defined) else 1)
                side = (part.variable, part.is_first)
                depths[side] = max(depths.get(side, 0), depth)
            elif isinstance(part, Aggregated) and part not in aggregates:
                aggregates.append(part)
        sides = [side for side, depth in depths.items() if depth]
        self._places: dict[Any, int] = {key: place for place, key in enumerate([*sides, *aggregates])}
        ends = [Accumulator((), _EndRows(depths[side], is_first=side[1]), _steps(side[0])) for side in sides]
        sums = [Accumulator(one.aggregate.zero, one.aggregate.add, _steps(one.variable)) for one in aggregates]
        self.accumulators = (*ends, *sums)

    def reader(self, part: MatchPart, defined: str) -> Reader:
        """Return the function that reads a part for the condition of the variable `defined`."""
        if isinstance(part, MatchTime):
            return lambda row, context: part.of({}, context.timestamp())
        has_current = _has_current(part.variable, defined)
        if isinstance(part, Aggregated):
            return _aggregate_reader(part, self._places[part], has_current)
        place = self._places.get((part.variable, part.is_first), -1)
        return _first_reader(part, place, has_current) if part.is_first else _last_reader(part, place, has_current)


class RowCondition:
    """A condition of the variable `defined`: an expression over values of the partial match. Picklable before `open`.

    `parts`: the values. The condition holds if the expression is true, not if it is NULL.
    """

    def __init__(
        self, expression: ScalarExpression, parts: Sequence[MatchPart], carried: Carried, defined: str
    ) -> None:
        self._expression = expression
        self._parts = tuple(parts)
        self._carried = carried
        self._defined = defined
        self._readers: list[Reader] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": None}

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions."""
        self._expression.open(context)

    def close(self) -> None:
        """Close the user's functions."""
        self._expression.close()

    def __call__(self, row: Row, context: Any) -> bool:
        """Return whether the row may be one of the variable."""
        readers = self._readers
        if readers is None:
            readers = self._readers = [self._carried.reader(part, self._defined) for part in self._parts]
        values = [read(row, context) for read in readers]
        try:
            return self._expression.value(values, context.current_processing_time()) is True
        except MethodError:
            raise
        except RAISED as error:
            what = f"DEFINE {self._defined}, a condition of {self._expression.sql}"
            raise MethodError(what, error, values) from error


class _EndRows:
    """Keeps the first or the last rows: in order, or the last one in front."""

    def __init__(self, count: int, *, is_first: bool) -> None:
        self._count = count
        self._is_first = is_first

    def __call__(self, rows: tuple[Row, ...], row: Row) -> tuple[Row, ...]:
        if self._is_first:
            return rows if len(rows) >= self._count else (*rows, row)
        return (row, *rows[: self._count - 1])


def _has_current(variable: str, defined: str) -> bool:
    """Return whether the row in question is among those of a variable."""
    return variable in (ALL, defined)


def _steps(variable: str) -> tuple[str, ...] | None:
    return None if variable == ALL else (variable,)


def _last_reader(part: RowValue, place: int, has_current: bool) -> Reader:
    column, offset = part.place, part.offset - has_current
    if offset < 0:
        return lambda row, context: row[column]

    def read(row: Row, context: Any) -> Any:
        rows = context.accumulated(place)
        return rows[offset][column] if offset < len(rows) else None

    return read


def _first_reader(part: RowValue, place: int, has_current: bool) -> Reader:
    column, offset = part.place, part.offset

    def read(row: Row, context: Any) -> Any:
        rows = context.accumulated(place)
        if offset < len(rows):
            return rows[offset][column]
        return row[column] if has_current and offset == len(rows) else None

    return read


def _aggregate_reader(part: Aggregated, place: int, has_current: bool) -> Reader:
    add, value = part.aggregate.add, part.aggregate.value
    if has_current:
        return lambda row, context: value(add(context.accumulated(place), row))
    return lambda row, context: value(context.accumulated(place))
