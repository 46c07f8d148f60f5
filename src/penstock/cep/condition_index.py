"""Which of many conditions an event meets, without evaluating each of them: conditions of rules differ in constants.

A condition is a list of parts that `and` joins. Parts that compare a field with a constant go into tables, one for each
field and kind of comparison, up to the first part of another form. A table tells, by the value of the field, which
conditions it does not rule out: a look-up, whatever their number. What no table rules out is met, or evaluated if it
has other parts. Sets of conditions are ints, with a bit for each condition.

The result is that of evaluating each condition, errors included: parts are evaluated from left to right as long as none
is false. Where a value is missing, None, or of a kind that tables lack, the conditions that compare it are evaluated,
unless their first part is false.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.cep.evaluation import compiled
from penstock.cep.expressions import FIELD, IN, VALUE, Expression, field
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED

Failures: TypeAlias = list[tuple[int, BaseException]]
"""Sets of conditions, and the error with which they fail."""

_NUMBERS: frozenset[type] = frozenset({int, float, bool})
_TEXTS: frozenset[type] = frozenset({str})
_PLAIN = _NUMBERS | _TEXTS
"""Types whose values compare as the constants of expressions do."""

_SWAPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Comparison(NamedTuple):
    """A part of a condition: a field, an operation and its constants."""

    field: str
    symbol: str
    constants: tuple[Any, ...]

    @property
    def table(self) -> tuple[str, str]:
        """The kind of table that it goes into, and the types of values that it compares."""
        if self.symbol in ("==", IN):
            return "equal", "plain"
        kind = "above" if self.symbol in (">", ">=") else "below"
        return kind, "text" if isinstance(self.constants[0], str) else "number"


class _Table(Protocol):
    """The conditions with a part that compares one field in one way."""

    types: frozenset[type]
    """The types of values that it knows."""
    members: int
    first: int
    """The members whose first part it is."""

    def passing(self, value: Any) -> int:
        """Return the conditions that the value does not rule out, which include all others than the members."""

    def compare(self, value: Any) -> None:
        """Compare a value of another type with a constant. Raises what a condition raises."""


class _Equal:
    """Conditions on equality with a constant, or with one of several."""

    types = _PLAIN

    def __init__(self, parts: Sequence[tuple[int, _Comparison]], members: int, first: int, every: int) -> None:
        self.members, self.first = members, first
        self._others = every & ~members
        self._passing: dict[Any, int] = {}
        for bit, part in parts:
            for constant in part.constants:
                self._passing[constant] = self._passing.get(constant, self._others) | bit

    def passing(self, value: Any) -> int:
        return self._passing.get(value, self._others)

    def compare(self, value: Any) -> None:
        pass


class _Ordered:
    """Conditions on a value above a constant, or on one below it."""

    def __init__(self, parts: Sequence[tuple[int, _Comparison]], members: int, first: int, every: int) -> None:
        self.members, self.first = members, first
        self._others = every & ~members
        kind, types = parts[0][1].table
        self.types = _TEXTS if types == "text" else _NUMBERS
        # Bounds of which a value v exceeds those that are at most (v, 0).
        strict = 1 if kind == "above" else 0
        ordered = sorted(
            (part.constants[0], strict if len(part.symbol) == 1 else 1 - strict, bit) for bit, part in parts
        )
        self._bounds = [(constant, flag) for constant, flag, _ in ordered]
        below = [self._others]
        for _, _, bit in ordered:
            below.append(below[-1] | bit)
        if kind == "below":
            below = [self._others]
            for _, _, bit in reversed(ordered):
                below.append(below[-1] | bit)
            below.reverse()
        self._passing = below
        symbol, constant = parts[0][1].symbol, parts[0][1].constants[0]
        self._compare: Callable[[Any], Any] = lambda value: _COMPARE[symbol](value, constant)

    def passing(self, value: Any) -> int:
        if value != value:
            return self._others
        return self._passing[bisect_right(self._bounds, (value, 0))]

    def compare(self, value: Any) -> None:
        self._compare(value)


class ConditionIndex:
    """Many conditions, by number."""

    def __init__(self, conditions: Sequence[Expression]) -> None:
        self._every = every = (1 << len(conditions)) - 1
        self._evaluate = [compiled(condition) for condition in conditions]
        self._single = 0
        """Conditions of one part."""
        self._evaluated = 0
        """Conditions with parts that no table has."""
        parts: dict[tuple[str, tuple[str, str]], dict[int, _Comparison]] = {}
        first: dict[tuple[str, tuple[str, str]], int] = {}
        for number, condition in enumerate(conditions):
            bit = 1 << number
            for position, part in enumerate(found := list(_parts(condition))):
                comparison = _comparison(part)
                if comparison is None:
                    # It might fail, and must then do so before a later part rules the condition out.
                    self._evaluated |= bit
                    break
                place = comparison.field, comparison.table
                if bit in parts.get(place, ()):
                    self._evaluated |= bit
                    continue
                parts.setdefault(place, {})[bit] = comparison
                if position == 0:
                    first[place] = first.get(place, 0) | bit
            if len(found) == 1:
                self._single |= bit
        tables: dict[str, list[_Table]] = {}
        for place, members in parts.items():
            given = list(members.items()), sum(members), first.get(place, 0), every
            table: _Table = _Equal(*given) if place[1][0] == "equal" else _Ordered(*given)
            tables.setdefault(place[0], []).append(table)
        self._fields = [(compiled(field(name)), found) for name, found in tables.items()]

    def met(self, event: Any) -> tuple[int, Failures]:
        """Return the conditions that the event meets, and those that fail on it, which it does not meet."""
        met = self._every
        failures: Failures = []
        suspects = 0
        seen: list[tuple[int, _Table]] = []
        for read, tables in self._fields:
            try:
                value = read(event)
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                for table in tables:
                    failures.append((table.first, error))
                    suspects |= table.members
                continue
            kind = type(value)
            for table in tables:
                if kind in table.types:
                    passing = table.passing(value)
                    met &= passing
                    seen.append((passing, table))
                    continue
                if value is None:
                    # Conditions of one part are unknown, which is not met.
                    met &= ~(table.members & self._single)
                    suspects |= table.members & ~self._single
                    continue
                suspects |= table.members
                if kind in _PLAIN:
                    try:
                        table.compare(value)
                    except RAISED as error:
                        failures.append((table.first, error))
        evaluated = met & self._evaluated
        if suspects:
            for failed, _ in failures:
                suspects &= ~failed
                met &= ~failed
            met &= ~suspects
            for passing, table in seen:
                suspects &= passing | ~table.first
            evaluated = (met & self._evaluated) | suspects
        return (met & ~evaluated) | self._evaluate_each(evaluated, event, failures) if evaluated else met, failures

    def _evaluate_each(self, conditions: int, event: Any, failures: Failures) -> int:
        """Return those of the conditions that the event meets, and note those that fail."""
        met = 0
        for number in numbers_in(conditions):
            try:
                if self._evaluate[number](event):
                    met |= 1 << number
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                failures.append((1 << number, error))
        return met


def numbers_in(conditions: int) -> Iterator[int]:
    """Return the numbers of the conditions in a set, in order."""
    while conditions:
        lowest = conditions & -conditions
        yield lowest.bit_length() - 1
        conditions ^= lowest


def _parts(condition: Expression) -> Iterator[Expression]:
    if condition.symbol == "and":
        for operand in condition.operands:
            yield from _parts(operand)
    else:
        yield condition


def _comparison(part: Expression) -> _Comparison | None:
    """Return a comparison of a field with constants; None for another part."""
    symbol, operands = part.symbol, part.operands
    if symbol == IN:
        name, constants = operands[0], tuple(one for one in operands[1] if one is not None)
        return _Comparison(name.operands[0], symbol, constants) if name.symbol == FIELD else None
    if symbol not in _SWAPPED:
        return None
    left, right = operands
    if left.symbol == VALUE:
        left, right, symbol = right, left, _SWAPPED[symbol]
    if left.symbol != FIELD or right.symbol != VALUE or right.operands[0] is None:
        return None
    return _Comparison(left.operands[0], symbol, (right.operands[0],))
