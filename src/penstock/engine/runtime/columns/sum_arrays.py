"""Sums and averages as arrays. Sums of integers are exact, whatever their size.

Where sums could exceed 64 bits, they become `WideSums`. So there is no step to slow arithmetic for large values, such
as averages of times in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.engine.runtime.columns.aggregate_arrays import (
    CountArray,
    TooLargeError,
    ValueArray,
    check_integers,
    column_with,
)
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.wide_sums import WideSums
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.stored_columns import AVERAGE, VALUE, WIDE, WIDE_AVERAGE, StoredColumn

_EXACT_MAX = 1 << 62
"""Sums whose parts may add up to more become wide."""
_FLOAT_BITS = 53


class SumArray(ValueArray):
    """Sums. `may_widen`: whether sums of more than 64 bits have room; otherwise `check` refuses to add them."""

    may_widen = True

    def __init__(self, value_type: Any) -> None:
        # A sum of nothing but -0.0 is -0.0.
        self.nothing = -0.0 if value_type is numpy.float64 else 0
        super().__init__(value_type)
        self._bound = 0
        """The largest amount that any sum can have."""
        self._wide: WideSums | None = None
        """The sums if they may exceed 64 bits. `_values` stays what it was before: a snapshot may be reading it."""

    @property
    def _is_integer(self) -> bool:
        return bool(self._values.dtype == numpy.int64)

    def grow(self, room: int) -> None:
        super().grow(room)
        if self._wide is not None:
            self._wide = self._wide.grown(room)

    def check(self, slots: Integers, column: pyarrow.Array | None) -> bool:
        if column is None or not self._is_integer or self._wide is not None or len(column) == column.null_count:
            return False
        largest = _largest_of(column)
        amount = largest * len(column)
        if self._bound + amount > _EXACT_MAX:
            # Exactly, which takes longer: the largest sum so far, and the most rows of a key.
            self._bound = _largest(self._values)
            amount = largest * int(numpy.bincount(slots).max())
            if self._bound + amount > _EXACT_MAX:
                self._widened()
                return True
        self._bound += amount
        return False

    def _widened(self) -> WideSums:
        """Return the sums as wide ones, which they stay."""
        if not self.may_widen:
            raise TooLargeError
        if self._wide is None:
            self._wide = WideSums(self._values)
        return self._wide

    def _add(self, slots: Integers, values: Any) -> None:
        if self._wide is not None:
            self._wide.add(slots, values)
            return
        # inf - inf is NaN, as in Python, which does not warn.
        with numpy.errstate(invalid="ignore", over="ignore"):
            numpy.add.at(self._values, slots, values)

    def absorb(self, slots: Integers, column: StoredColumn) -> None:
        if column.form == WIDE:
            high, low, exists = column.parts
            self._widened().add_wide(slots, high, low)
            self._exists[slots[exists]] = True
            return
        values, exists = column.parts
        self.check(slots, pyarrow.array(values))
        super().absorb(slots, column)

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        return _column_of(*self._running(runs, column))

    def _running(self, runs: Runs, column: pyarrow.Array | None) -> tuple[Any, Mask | None]:
        """Add like `add_running`. Return the sums after each row, perhaps as wide ones, and whether they exist.

        None: all do.
        """
        if self._wide is None:
            return self._run_values(runs, column)
        assert column is not None
        values, valid = self._ordered(runs, column)
        after = self._wide.add_running(runs, values)
        return after.at(runs.places()), self._exist_after(runs, valid)

    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
        if self._is_integer:
            return runs.sums(values) + runs.of_runs(self._values[runs.slots])
        with numpy.errstate(invalid="ignore", over="ignore"):
            return self._accumulated(runs, numpy.add, values)

    def may_add_few(self, values: Sequence[Any] | None) -> bool:
        if not self._is_integer:
            return True
        bound = self._bound + sum([abs(value) for value in values or () if value is not None])
        if self._wide is not None or bound > _EXACT_MAX:
            return False
        self._bound = bound
        return True

    def clear(self, slots: Integers) -> None:
        super().clear(slots)
        if self._wide is not None:
            self._wide.put(slots, numpy.zeros(len(slots), numpy.int64))

    def keep(self, slots: Integers) -> None:
        super().keep(slots)
        if self._wide is not None:
            self._wide = self._wide.at(slots)

    def stored(self, slots: Integers) -> StoredColumn:
        wide = self._wide
        if wide is None:
            return super().stored(slots)
        return StoredColumn(WIDE, (wide.high[slots], wide.low[slots], self._exists[slots]))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        if column.form == WIDE:
            # Few programs have such sums, so Python may convert them.
            SumArray.load(self, slots, column.values())
            return
        super().restore(slots, column)
        if self._wide is not None:
            self._wide.put(slots, self._values[slots])
        elif self._is_integer and len(slots):
            self._note_bound(_largest(self._values[slots]))

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        if not self._is_integer:
            super().load(slots, values)
            return
        present = [value for value in values if value is not None]
        if any(type(value) is int and not -_EXACT_MAX <= value <= _EXACT_MAX for value in present):
            self._widened()
        if self._wide is None:
            super().load(slots, values)
            self._note_bound(max(map(abs, present), default=0))
            return
        check_integers(present)
        exists = numpy.array([value is not None for value in values], numpy.bool_)
        # As in `ValueArray.load`.
        self._wide.put(slots, numpy.zeros(len(slots), numpy.int64))
        self._wide.set(slots[exists], present)
        self._exists[slots] = exists

    def _note_bound(self, largest: int) -> None:
        self._bound = max(self._bound, largest)
        if self._bound > _EXACT_MAX:
            self._widened()

    def as_column(self, keys: int) -> pyarrow.Array:
        sums, exists = self._sums(keys)
        return _column_of(sums if isinstance(sums, WideSums) else sums.copy(), exists)

    def _sums(self, keys: int) -> tuple[Any, Mask]:
        sums = self._values[:keys] if self._wide is None else self._wide.at(slice(keys))
        return sums, self._exists[:keys]

    @property
    def bytes_per_key(self) -> int:
        return super().bytes_per_key + (0 if self._wide is None else 16)


class NarrowSumArray(SumArray):
    """Sums of at most 64 bits, for partial sums that are a column of integers."""

    may_widen = False


class AverageArray(SumArray):
    """Sums with the number of their values."""

    def __init__(self, value_type: Any) -> None:
        super().__init__(value_type)
        self._counts = CountArray()

    def grow(self, room: int) -> None:
        super().grow(room)
        self._counts.grow(room)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        super().add(slots, column)
        self._counts.add(slots, column)

    def absorb(self, slots: Integers, column: StoredColumn) -> None:
        *sums, counts = column.parts
        super().absorb(slots, StoredColumn(WIDE if column.form == WIDE_AVERAGE else VALUE, tuple(sums)))
        self._counts.absorb(slots, StoredColumn(column.form, (counts,)))

    def clear(self, slots: Integers) -> None:
        super().clear(slots)
        self._counts.clear(slots)

    def keep(self, slots: Integers) -> None:
        super().keep(slots)
        self._counts.keep(slots)

    def stored(self, slots: Integers) -> StoredColumn:
        sums = super().stored(slots)
        return StoredColumn(WIDE_AVERAGE if sums.form == WIDE else AVERAGE, (*sums.parts, self._counts.of_slots(slots)))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        *sums, counts = column.parts
        super().restore(slots, StoredColumn(WIDE if column.form == WIDE_AVERAGE else AVERAGE, tuple(sums)))
        self._counts.restore(slots, StoredColumn(column.form, (counts,)))

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        super().load(slots, [None if one is None else one[0] for one in values])
        self._counts.load(slots, [0 if one is None else one[1] for one in values])

    def part_at(self, slot: int) -> Any:
        total = super().part_at(slot)
        return None if total is None else (total, self._counts.part_at(slot))

    def put_at(self, slot: int, part: Any) -> None:
        if part is not None:
            total, count = part
            super().put_at(slot, total)
            self._counts.put_at(slot, count)

    def as_column(self, keys: int) -> pyarrow.Array:
        raise NotImplementedError("an average is two columns, so it is computed behind the exchange only")

    def results(self, keys: int) -> pyarrow.Array:
        return _means(*self._sums(keys), self._counts.of_slots(slice(keys)))

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        sums = self._running(runs, column)
        counts = self._counts.add_running(runs, column).to_numpy(zero_copy_only=False)
        return _means(*sums, counts)

    @property
    def bytes_per_key(self) -> int:
        return super().bytes_per_key + self._counts.bytes_per_key


def _largest_of(column: pyarrow.Array) -> int:
    """Return the largest amount in a column of integers with a value."""
    if not column.null_count:
        return _largest(column.to_numpy(zero_copy_only=False))
    bounds = compute.min_max(column).as_py()
    largest: int = max(abs(bounds["min"]), abs(bounds["max"]))
    return largest


def _largest(values: Integers) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))


def _column_of(sums: Any, exists: Mask | None) -> pyarrow.Array:
    """Return sums as a column. Raises TooLargeError if one has more than 64 bits."""
    values = sums.narrow() if isinstance(sums, WideSums) else sums
    if values is None:
        row = int(numpy.flatnonzero(sums.exceed(64))[0])
        raise TooLargeError(row, sums.at([row]).to_list()[0])
    return column_with(values, exists)


def _means(sums: Any, exists: Mask | None, counts: Integers) -> pyarrow.Array:
    """Return the quotients as Python computes them; null without values."""
    divisors = counts if exists is None else numpy.where(exists, counts, 1)
    if isinstance(sums, WideSums):
        means, large = sums.floats() / divisors, sums.exceed(_FLOAT_BITS + 1)
    else:
        with numpy.errstate(invalid="ignore", over="ignore"):
            means = sums / divisors
        is_integer = sums.dtype == numpy.int64
        large = (sums > 1 << _FLOAT_BITS) | (sums < -(1 << _FLOAT_BITS)) if is_integer else numpy.zeros(0, numpy.bool_)
    if large.any():
        # A sum beyond the integers that floats have: to round it, and then the quotient, would round twice.
        rows = numpy.flatnonzero(large)
        totals = sums.at(rows).to_list() if isinstance(sums, WideSums) else sums[rows].tolist()
        means[rows] = [total / count for total, count in zip(totals, divisors[rows].tolist(), strict=True)]
    return column_with(means, exists)
