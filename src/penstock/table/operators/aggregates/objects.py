"""Aggregates row by row, over Python values: those that need all values of a key, because some are retracted."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.plain_objects import PlainObjects

_DIGITS_MAX = 38


class ObjectAggregate(Aggregate):
    """Base: `create`, `add` and `value` of one key."""

    def __init__(self, result_type: pyarrow.DataType) -> None:
        self._objects = PlainObjects(copy.deepcopy)
        super().__init__(result_type, [self._objects])

    @abstractmethod
    def create(self) -> Any:
        """Return the state of a new key."""

    @abstractmethod
    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        """Add a row, or retract it. Return the state, which may be the same object."""

    @abstractmethod
    def value(self, state: Any) -> Any:
        """Return the result."""

    @abstractmethod
    def merged(self, state: Any, other: Any) -> Any:
        """Return the state of both, and leave `other` as it is."""

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs, states = rows.runs, self._objects.values
        arguments = list(zip(*map(python_values, rows.values), strict=True))
        signs, ends = rows.signs.tolist(), runs.ends.tolist()
        results: list[Any] = []
        for slot, start, end in zip(runs.slots.tolist(), runs.starts.tolist(), ends, strict=True):
            state = states[slot]
            if state is None:
                state = self.create()
            for row in range(start, end + 1):
                if signs[row]:
                    state = self.add(state, arguments[row], signs[row])
                results.append(self.value(state))
            states[slot] = state
        return pyarrow.array(results, self.result_type)

    def results(self, slots: Integers) -> pyarrow.Array:
        found = [
            self.value(self.create() if state is None else state) for state in self._objects.values[slots].tolist()
        ]
        return pyarrow.array(found, self.result_type)

    def merge(self, slots: Integers, other: Aggregate, other_slots: Integers) -> None:
        assert isinstance(other, ObjectAggregate)
        states = self._objects.values
        for slot, more in zip(slots.tolist(), other._objects.values[other_slots].tolist(), strict=True):
            if more is not None:
                states[slot] = copy.deepcopy(more) if states[slot] is None else self.merged(states[slot], more)


class DecimalSum(ObjectAggregate):
    """SUM, $SUM0 and AVG of decimals: (sum, count). A result with too many digits is NULL."""

    def __init__(self, result_type: pyarrow.DataType, kind: str) -> None:
        super().__init__(result_type)
        self._kind = kind

    def create(self) -> Any:
        return Decimal(0), 0

    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        with localcontext(prec=2 * _DIGITS_MAX):
            return state[0] + sign * values[0], state[1] + sign

    def value(self, state: Any) -> Any:
        total, count = state
        if not count and self._kind != "$SUM0":
            return None
        with localcontext(prec=2 * _DIGITS_MAX):
            found = total / count if self._kind == "AVG" else total
            found = found.quantize(Decimal(1).scaleb(-self.result_type.scale), ROUND_HALF_UP)
        return found if abs(found) < 10 ** (self.result_type.precision - self.result_type.scale) else None

    def merged(self, state: Any, other: Any) -> Any:
        return state[0] + other[0], state[1] + other[1]


class RetractedExtreme(ObjectAggregate):
    """MIN and MAX with retraction: how often each value is there, and the best one."""

    def __init__(self, result_type: pyarrow.DataType, *, is_max: bool) -> None:
        super().__init__(result_type)
        self._best = max if is_max else min

    def create(self) -> Any:
        return {}, None

    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        counts, best = state
        (value,) = values
        count = counts.get(value, 0) + sign
        if count:
            counts[value] = count
        else:
            counts.pop(value, None)
        if count > 0 and sign > 0:
            best = value if best is None else self._best(best, value)
        elif count <= 0 and (best is None or value == best):
            present = [one for one, number in counts.items() if number > 0]
            best = self._best(present) if present else None
        return counts, best

    def value(self, state: Any) -> Any:
        return state[1]

    def merged(self, state: Any, other: Any) -> Any:
        for value, count in other[0].items():
            for _ in range(abs(count)):
                state = self.add(state, (value,), 1 if count > 0 else -1)
        return state


class ListedValues(ObjectAggregate):
    """FIRST_VALUE, LAST_VALUE and LISTAGG: the values in their order."""

    def __init__(self, result_type: pyarrow.DataType, kind: str) -> None:
        super().__init__(result_type)
        self._kind = kind

    def create(self) -> Any:
        return []

    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        row = tuple(values)
        if sign > 0:
            state.append(row)
        elif row in state:
            state.remove(row)
        return state

    def value(self, state: Any) -> Any:
        if not state:
            return None
        if self._kind == "LISTAGG":
            delimiter = state[-1][1] if len(state[-1]) > 1 else ","
            return delimiter.join(row[0] for row in state)
        return state[0 if self._kind == "FIRST_VALUE" else -1][0]

    def merged(self, state: Any, other: Any) -> Any:
        return [*state, *other]


class KeptValue(ObjectAggregate):
    """FIRST_VALUE and LAST_VALUE of values that are never retracted."""

    def __init__(self, result_type: pyarrow.DataType, *, is_first: bool) -> None:
        super().__init__(result_type)
        self._is_first = is_first

    def create(self) -> Any:
        return ()

    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        return state if state and self._is_first else (values[0],)

    def value(self, state: Any) -> Any:
        return state[0] if state else None

    def merged(self, state: Any, other: Any) -> Any:
        return state if not other or (state and self._is_first) else other


class SingleValue(ObjectAggregate):
    """SINGLE_VALUE: of a subquery that must have one row."""

    def create(self) -> Any:
        return []

    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        if sign > 0 and state:
            raise ValueError("SingleValueAggFunction received more than one element.")
        return [values[0]] if sign > 0 else []

    def value(self, state: Any) -> Any:
        return state[0] if state else None

    def merged(self, state: Any, other: Any) -> Any:
        return other or state


class Collect(ObjectAggregate):
    """COLLECT: a multiset."""

    def create(self) -> Any:
        return {}

    def add(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        count = state.get(values[0], 0) + sign
        if count:
            state[values[0]] = count
        else:
            state.pop(values[0], None)
        return state

    def value(self, state: Any) -> Any:
        return list(state.items())

    def merged(self, state: Any, other: Any) -> Any:
        for value, count in other.items():
            state = self.add(state, (value,), count)
        return state


class Distinct(Aggregate):
    """An aggregate of distinct values: a row counts if its values come first, or go last."""

    def __init__(self, inner: Aggregate, arguments: Sequence[pyarrow.DataType]) -> None:
        self._inner = inner
        self._arguments = tuple(arguments)
        self._seen = PlainObjects(dict)
        super().__init__(inner.result_type, [self._seen, *inner.arrays])

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs, seen = rows.runs, self._seen.values
        values = list(zip(*map(python_values, rows.values), strict=True))
        signs = rows.signs.tolist()
        effective = [0] * len(signs)
        for slot, start, end in zip(runs.slots.tolist(), runs.starts.tolist(), runs.ends.tolist(), strict=True):
            counts = seen[slot]
            if counts is None:
                counts = seen[slot] = {}
            for row in range(start, end + 1):
                sign = signs[row]
                if sign:
                    before = counts.get(values[row], 0)
                    count = before + sign
                    if count:
                        counts[values[row]] = count
                    else:
                        counts.pop(values[row], None)
                    effective[row] = int(count > 0) - int(before > 0)
        return self._inner.run(RunRows(runs, rows.values, numpy.array(effective, numpy.int64)))

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._inner.results(slots)

    def merge(self, slots: Integers, other: Aggregate, other_slots: Integers) -> None:
        assert isinstance(other, Distinct)
        seen = self._seen.values
        rows: list[tuple[int, tuple[Any, ...], int]] = []
        for slot, more in zip(slots.tolist(), other._seen.values[other_slots].tolist(), strict=True):
            counts = seen[slot] if seen[slot] is not None else {}
            seen[slot] = counts
            for values, number in (more or {}).items():
                before = counts.get(values, 0)
                counts[values] = before + number
                rows.append((slot, values, int(before + number > 0) - int(before > 0)))
        if rows:
            runs = Runs(numpy.array([slot for slot, _, _ in rows], numpy.int64))
            of_rows = [rows[place] for place in runs.order.tolist()]
            arguments = [
                pyarrow.array([values[place] for _, values, _ in of_rows], kind)
                for place, kind in enumerate(self._arguments)
            ]
            self._inner.run(RunRows(runs, arguments, numpy.array([sign for _, _, sign in of_rows], numpy.int64)))
