"""SUM, $SUM0 and AVG of decimals, as integers without their point: several arrays of 32 bits of each sum.

A result with more than 38 digits is NULL, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.engine.runtime.columns.field_arrays import NumberArray
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.aggregates.numbers import Count

_BITS = 32
_LOW = (1 << _BITS) - 1
_WIDE = 4
"""Limbs of sums that may have 38 digits."""
_DIGITS_MAX = 38
_SHORT_DIGITS = 18
"""Decimals of up to so many digits are integers of 64 bits."""
_QUOTIENT_BITS = 61
"""Numerators below this many bits are divided as arrays."""
_Limbs = list[Integers]
"""The lowest 32 bits first; the last one has the sign."""


class DecimalSum(Aggregate):
    """`argument`: the type of the values. `kind`: SUM, $SUM0 or AVG."""

    def __init__(self, argument: pyarrow.DataType, result_type: pyarrow.DataType, kind: str) -> None:
        self._limbs = [NumberArray(pyarrow.int64()) for _ in range(2 if argument.precision <= _SHORT_DIGITS else _WIDE)]
        self._count = Count()
        self._scale = argument.scale
        self._kind = kind
        super().__init__(result_type, [*self._limbs, *self._count.arrays], [pyarrow.int64()] * (_WIDE + 1))

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs = rows.runs
        sums = [
            runs.sums(limb * rows.signs) + runs.of_runs(before.numbers(runs.slots))
            for limb, before in zip(self._limbs_of(rows.values[0]), self._limbs, strict=True)
        ]
        _carry(sums)
        for array, limb in zip(self._limbs, sums, strict=True):
            array.put_numbers(runs.slots, limb[runs.ends])
        return self._finish(sums, self._count.run_counts(runs, rows.signs))

    def add(self, rows: RunRows) -> None:
        self._add(rows.runs, [limb * rows.signs for limb in self._limbs_of(rows.values[0])])
        self._count.add_counts(rows.runs, rows.signs)

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._finish([array.numbers(slots) for array in self._limbs], self._count.counts(slots))

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        # In the same form for all arguments: another aggregate may have sums of these as arguments, which are wider.
        limbs = [array.numbers(slots) for array in self._limbs]
        if len(limbs) == 2:
            low, high = limbs
            limbs = [low, high & _LOW, (high >> _BITS) & _LOW, high >> (2 * _BITS - 1)]
        return [*map(pyarrow.array, limbs), *self._count.partials(slots)]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        *limbs, counts = columns
        sums = [one.to_numpy(zero_copy_only=False) for one in limbs]
        self._add(runs, sums if len(self._limbs) == _WIDE else [sums[0], sums[1] + (sums[2] << _BITS)])
        self._count.add_partials(runs, [counts])

    def _add(self, runs: Runs, limbs: _Limbs) -> None:
        sums = [
            numpy.add.reduceat(limb, runs.starts) + before.numbers(runs.slots)
            for limb, before in zip(limbs, self._limbs, strict=True)
        ]
        _carry(sums)
        for array, limb in zip(self._limbs, sums, strict=True):
            array.put_numbers(runs.slots, limb)

    def _limbs_of(self, column: pyarrow.Array) -> _Limbs:
        words = numpy.frombuffer(column.buffers()[1], numpy.int64)[2 * column.offset :][: 2 * len(column)]
        low, high = words[0::2], words[1::2]
        if len(self._limbs) == 2:
            return [low & _LOW, low >> _BITS]
        return [low & _LOW, (low >> _BITS) & _LOW, high & _LOW, high >> _BITS]

    def _finish(self, sums: _Limbs, counts: Integers) -> pyarrow.Array:
        exist = numpy.ones(len(counts), numpy.bool_) if self._kind == "$SUM0" else counts != 0
        if self._kind == "AVG":
            return self._averages(sums, counts, exist)
        low, high, fits = _words(sums)
        found = _decimals(low, high, exist & fits, self._scale)
        return found if found.type == self.result_type else found.cast(self.result_type)

    def _averages(self, sums: _Limbs, counts: Integers, exist: Mask) -> pyarrow.Array:
        factor = 10 ** (self.result_type.scale - self._scale) if self.result_type.scale >= self._scale else 0
        # The top limb tells how large the sums are.
        limit = (1 << (_QUOTIENT_BITS - _BITS)) // factor if factor else 0
        if len(sums) == 2 and len(counts) and int(numpy.abs(sums[1]).max()) < limit:
            numerators, divisors = ((sums[1] << _BITS) + sums[0]) * factor, numpy.where(exist, counts, 1)
            size, by = numpy.abs(numerators), numpy.abs(divisors)
            quotients = (2 * size + by) // (2 * by) * numpy.sign(numerators) * numpy.sign(divisors)
            return _decimals(quotients, quotients >> 63, exist, self.result_type.scale).cast(self.result_type)
        return pyarrow.array(self._exact_averages(sums, counts, exist), self.result_type)

    def _exact_averages(self, sums: _Limbs, counts: Integers, exist: Mask) -> list[Any]:
        found: list[Any] = []
        unit, most = Decimal(1).scaleb(-self.result_type.scale), 10 ** (_DIGITS_MAX - self.result_type.scale)
        with localcontext(prec=2 * _DIGITS_MAX):
            for *limbs, count, is_one in zip(*(one.tolist() for one in sums), counts.tolist(), exist, strict=True):
                total = sum(limb << (_BITS * place) for place, limb in enumerate(limbs))
                one = (Decimal(total).scaleb(-self._scale) / count).quantize(unit, ROUND_HALF_UP) if is_one else None
                found.append(None if one is None or abs(one) >= most else one)
        return found


def _carry(limbs: _Limbs) -> None:
    for place in range(len(limbs) - 1):
        limbs[place + 1] = limbs[place + 1] + (limbs[place] >> _BITS)
        limbs[place] = limbs[place] & _LOW


def _words(limbs: _Limbs) -> tuple[Integers, Integers, Mask]:
    """Return the lower and the upper 64 bits of sums, and which have at most 38 digits."""
    if len(limbs) == 2:
        return limbs[0] | (limbs[1] << _BITS), limbs[1] >> _BITS, numpy.ones(len(limbs[0]), numpy.bool_)
    top = limbs[3]
    fits = (top >= -(1 << 31)) & (top < 1 << 31)
    return limbs[0] | (limbs[1] << _BITS), limbs[2] | (top << _BITS), fits


def _decimals(low: Integers, high: Integers, exist: Mask, scale: int) -> pyarrow.Array:
    words = numpy.empty(2 * len(low), numpy.int64)
    words[0::2], words[1::2] = low, high
    data, kind = pyarrow.py_buffer(words), pyarrow.decimal128(_DIGITS_MAX, scale)
    valid = pyarrow.py_buffer(numpy.packbits(exist, bitorder="little").tobytes())
    found = pyarrow.Array.from_buffers(kind, len(low), [None if exist.all() else valid, data])
    if len(high) and int(numpy.abs(high >> _BITS).max()) >= _LARGE:
        most = pyarrow.scalar(Decimal((0, (9,) * _DIGITS_MAX, -scale)), kind)
        is_within = compute.and_(compute.less_equal(found, most), compute.greater_equal(found, compute.negate(most)))
        found = compute.if_else(is_within, found, pyarrow.scalar(None, kind))
    return found


_LARGE = (10**_DIGITS_MAX >> 96) - 1
"""Sums whose upper 32 bits are smaller have at most 38 digits."""
