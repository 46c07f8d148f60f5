"""Aggregates row by row, over Python values: those that need all values of a key, because some are retracted."""

from __future__ import annotations

import copy
import math
import pickle
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.values.exact_floats import exact
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.functions.errors import FunctionError
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.keyed.plain_objects import PlainObjects
from penstock.table.operators.keyed.row_identity import place_of


class ObjectAggregate(Aggregate):
    """Base: `create`, `with_row` and `value` of one key."""

    def __init__(self, result_type: pyarrow.DataType) -> None:
        self.objects = PlainObjects(self.copied)
        super().__init__(result_type, [self.objects], [pyarrow.binary()])

    @abstractmethod
    def create(self) -> Any:
        """Return the state of a new key."""

    def copied(self, state: Any) -> Any:
        """Return a copy that does not change with the state, made in one step: a thread may ask while it changes.

        Values of rows never change.
        """
        return copy.copy(state)

    def with_row(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        """Add a row, or retract it. Return the state, which may be the same object."""
        raise NotImplementedError

    @abstractmethod
    def value(self, state: Any) -> Any:
        """Return the result."""

    @abstractmethod
    def merged(self, state: Any, other: Any) -> Any:
        """Return the state of both, and leave `other` as it is."""

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs, states = rows.runs, self.objects.values
        arguments = list(zip(*map(python_values, rows.values), strict=True))
        signs, ends = rows.signs.tolist(), runs.ends.tolist()
        results: list[Any] = []
        for slot, start, end in zip(runs.slots.tolist(), runs.starts.tolist(), ends, strict=True):
            state = states[slot]
            if state is None:
                state = self.create()
            for row in range(start, end + 1):
                if signs[row]:
                    state = self.with_row(state, arguments[row], signs[row])
                results.append(self.value(state))
            states[slot] = state
        return pyarrow.array(results, self.result_type)

    def add(self, rows: RunRows) -> None:
        runs, states = rows.runs, self.objects.values
        arguments = zip(*map(python_values, rows.values), strict=True)
        slots = runs.of_runs(runs.slots).tolist()
        for slot, values, sign in zip(slots, arguments, rows.signs.tolist(), strict=True):
            if sign:
                state = states[slot]
                states[slot] = self.with_row(self.create() if state is None else state, values, sign)

    def results(self, slots: Integers) -> pyarrow.Array:
        found = [self.value(self.create() if state is None else state) for state in self.objects.values[slots].tolist()]
        return pyarrow.array(found, self.result_type)

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        states = self.objects.values[slots].tolist()
        return [pyarrow.array([None if one is None else pickle.dumps(one) for one in states], pyarrow.binary())]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        states = self.objects.values
        for slot, packed in zip(runs.of_runs(runs.slots).tolist(), columns[0].to_pylist(), strict=True):
            if packed is not None:
                # Subtasks of the same job have packed it.
                more = pickle.loads(packed)
                states[slot] = self.merged(self.create() if states[slot] is None else states[slot], more)


class ListedValues(ObjectAggregate):
    """FIRST_VALUE, LAST_VALUE and LISTAGG: the values in their order, and those retracted that are not there.

    Another subtask may have the values that are retracted. Source: Flink's ListAggWithRetractAggFunction.
    """

    def __init__(self, result_type: pyarrow.DataType, kind: str) -> None:
        super().__init__(result_type)
        self._kind = kind

    def create(self) -> Any:
        return [], []

    def copied(self, state: Any) -> Any:
        rows, missing = state
        return rows.copy(), missing.copy()

    def with_row(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        rows, missing = state
        row = tuple(values)
        if sign > 0:
            rows.append(row)
        elif (place := place_of(rows, row)) is not None:
            rows.pop(place)
        else:
            missing.append(row)
        return state

    def value(self, state: Any) -> Any:
        rows, _ = state
        if not rows:
            return None
        if self._kind == "LISTAGG":
            delimiter = rows[-1][1] if len(rows[-1]) > 1 else ","
            return delimiter.join(row[0] for row in rows)
        return rows[0 if self._kind == "FIRST_VALUE" else -1][0]

    def merged(self, state: Any, other: Any) -> Any:
        merged: tuple[list[Any], list[Any]] = [*state[0], *other[0]], []
        for row in (*state[1], *other[1]):
            self.with_row(merged, row, -1)
        return merged


class KeptValue(ObjectAggregate):
    """FIRST_VALUE and LAST_VALUE of values that are never retracted."""

    def __init__(self, result_type: pyarrow.DataType, *, is_first: bool) -> None:
        super().__init__(result_type)
        self._is_first = is_first

    def create(self) -> Any:
        return ()

    def with_row(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        return state if state and self._is_first else (values[0],)

    def value(self, state: Any) -> Any:
        return state[0] if state else None

    def merged(self, state: Any, other: Any) -> Any:
        return state if not other or (state and self._is_first) else other


class SingleValue(ObjectAggregate):
    """SINGLE_VALUE: of a subquery that must have one row."""

    def create(self) -> Any:
        return []

    def with_row(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        if sign > 0 and state:
            raise FunctionError("a subquery in place of a value gives more than one row: aggregate, or add LIMIT 1")
        return [values[0]] if sign > 0 else []

    def value(self, state: Any) -> Any:
        return state[0] if state else None

    def merged(self, state: Any, other: Any) -> Any:
        return other or state


class SquaredDeviations(ObjectAggregate):
    """WELFORD_M2: the sum of squared differences from the mean, of which the planner makes VAR and STDDEV.

    Keeps a count, a sum and a sum of squares, exactly: so rows may be retracted, and may come after their retraction.
    The last: how many values are not finite.
    """

    def create(self) -> Any:
        return 0, 0, 0, 0

    def with_row(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        value = values[0]
        if isinstance(value, float) and not math.isfinite(value):
            return self.merged(state, (sign, 0, 0, sign))
        exact = value if isinstance(value, int) else Fraction(value)
        return self.merged(state, (sign, sign * exact, sign * exact * exact, 0))

    def value(self, state: Any) -> Any:
        count, total, squares, not_finite = state
        if count <= 0:
            return None
        return math.nan if not_finite else float(squares - Fraction(total * total, count))

    def merged(self, state: Any, other: Any) -> Any:
        return tuple(one + more for one, more in zip(state, other, strict=True))


class Collect(ObjectAggregate):
    """COLLECT: a multiset. Its state has each value, and how often it is there, by a key that is equal for equal ones.

    The key is the value itself, if Python finds it by that, otherwise its text: of lists, rows, NaN and -0.0.
    """

    def create(self) -> Any:
        return {}

    def with_row(self, state: Any, values: Sequence[Any], sign: int) -> Any:
        return self._changed(state, values[0], sign)

    def value(self, state: Any) -> Any:
        return [one if isinstance(one, tuple) else (key, one) for key, one in state.items()]

    def merged(self, state: Any, other: Any) -> Any:
        for value, count in self.value(other):
            state = self._changed(state, value, count)
        return state

    def _changed(self, state: Any, value: Any, by: int) -> Any:
        is_key = not isinstance(value, (list, dict)) and exact(value) is value
        key = value if is_key else repr(value).encode()
        one = state.get(key, 0)
        count = (one[1] if isinstance(one, tuple) else one) + by
        if count:
            state[key] = count if is_key else (value, count)
        else:
            state.pop(key, None)
        return state
