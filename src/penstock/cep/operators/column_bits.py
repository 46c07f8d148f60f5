"""The bits of the rows of a batch: which simple conditions each row meets, and which rows may be dropped by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy
import pyarrow

from penstock.cep.automaton import Automaton
from penstock.cep.operators.column_predicates import Evaluate, Mask, holds, on_columns

BITS_MAX = 62
"""More conditions than a whole number of NumPy has bits for: records decide."""
_TABLE_BITS = 8
"""With so few conditions a table has what happens to rows with their bits. Otherwise the bits of a chunk are sorted."""
_UNKNOWN, _DROPPED, _KEPT = range(3)

Bits: TypeAlias = "numpy.ndarray[Any, Any]"


class ColumnBits:
    """Computes the bits of rows. `predicates`: one condition per bit."""

    def __init__(self, predicates: Sequence[Evaluate]) -> None:
        self._predicates = predicates
        self._type: Any = numpy.uint8 if len(predicates) <= _TABLE_BITS else numpy.int64

    def of(self, batch: pyarrow.RecordBatch) -> Bits:
        """Return the bits of each row."""
        bits = numpy.zeros(batch.num_rows, self._type)
        for position, predicate in enumerate(self._predicates):
            bits |= numpy.left_shift(holds(predicate, batch), position, dtype=self._type)
        return bits


def column_bits(automaton: Automaton[Any], schema: pyarrow.Schema) -> ColumnBits | None:
    """Return what computes the bits of a pattern's rows; None if records decide."""
    found = [on_columns(one, schema) for one in automaton.predicates]
    known = [one for one in found if one is not None]
    return ColumnBits(known) if len(known) == len(found) <= BITS_MAX else None


class NeededRows:
    """Which rows a pattern needs, by their bits. `may_drop`: of an event's bits."""

    def __init__(self, may_drop: Callable[[int], bool]) -> None:
        self._may_drop = may_drop
        self._table = numpy.full(1 << _TABLE_BITS, _UNKNOWN, numpy.uint8)

    def mask(self, bits: Bits) -> Mask | None:
        """Return which rows are needed; None if all are."""
        if bits.dtype == numpy.uint8:
            kept = self._by_table(bits)
        else:
            needed = [one for one in numpy.unique(bits).tolist() if not self._may_drop(one)]
            kept = numpy.isin(bits, numpy.array(needed, bits.dtype))
        return None if kept.all() else kept

    def _by_table(self, bits: Bits) -> Mask:
        found = self._table[bits]
        if not found.all():
            for one in numpy.unique(bits[found == _UNKNOWN]).tolist():
                self._table[one] = _DROPPED if self._may_drop(one) else _KEPT
            found = self._table[bits]
        kept: Mask = found == _KEPT
        return kept
