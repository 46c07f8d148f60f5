"""Aggregates over arrays as users write them, for windows and for running aggregates."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.common import Types
from penstock.datastream import ArrayAggregateFunction


class WeightedMean(ArrayAggregateFunction):
    """The mean of floats with a weight each; None if all weights are zero. It changes arrays in place."""

    accumulator: ClassVar[dict[str, Any]] = {"weight": numpy.float64, "total": numpy.float64}
    result_type = Types.DOUBLE()

    def add(self, accumulators: Any, slots: Any, value: Any, weight: Any) -> None:
        """Add values."""
        with numpy.errstate(all="ignore"):
            numpy.add.at(accumulators.weight, slots, weight)
            numpy.add.at(accumulators.total, slots, value * weight)

    def merge(self, accumulators: Any, slots: Any, others: Any) -> None:
        """Merge sums."""
        with numpy.errstate(all="ignore"):
            numpy.add.at(accumulators.weight, slots, others.weight)
            numpy.add.at(accumulators.total, slots, others.total)

    def get_result(self, accumulators: Any) -> Any:
        """Return the means."""
        with numpy.errstate(all="ignore"):
            means = accumulators.total / accumulators.weight
        return numpy.ma.masked_array(means, accumulators.weight == 0)


class Spread(ArrayAggregateFunction):
    """The difference of the greatest and the least integer, in any order. It replaces an array."""

    accumulator: ClassVar[dict[str, Any]] = {
        "least": numpy.int64((1 << 63) - 1),
        "greatest": numpy.int64(-(1 << 63)),
        "rows": "int32",
        "any_odd": bool,
        "share": numpy.float32,
    }
    result_type = Types.LONG()
    in_any_order = True

    def add(self, accumulators: Any, slots: Any, n: Any) -> None:
        """Add integers."""
        numpy.minimum.at(accumulators.least, slots, n)
        numpy.maximum.at(accumulators.greatest, slots, n)
        accumulators.rows = accumulators.rows + numpy.bincount(slots, minlength=len(accumulators.rows))
        numpy.logical_or.at(accumulators.any_odd, slots, n % 2 == 1)
        numpy.maximum.at(accumulators.share, slots, (n % 10 / 10).astype(numpy.float32))

    def merge(self, accumulators: Any, slots: Any, others: Any) -> None:
        """Merge bounds."""
        numpy.minimum.at(accumulators.least, slots, others.least)
        numpy.maximum.at(accumulators.greatest, slots, others.greatest)
        numpy.add.at(accumulators.rows, slots, others.rows)
        numpy.logical_or.at(accumulators.any_odd, slots, others.any_odd)
        numpy.maximum.at(accumulators.share, slots, others.share)

    def get_result(self, accumulators: Any) -> Any:
        """Return the differences, as an array of Arrow; what else there is changes them slightly."""
        spread = accumulators.greatest - accumulators.least
        more = 1000 * accumulators.rows + accumulators.any_odd + (accumulators.share * 100).astype(numpy.int64)
        return pyarrow.array(spread + more)


AGGREGATES: dict[str, Any] = {
    "price": (("f", "n"), WeightedMean()),
    "count": "count",
    "spread": ("n", Spread()),
    "mean": ("n", "avg"),
}
IN_ANY_ORDER: dict[str, Any] = {"spread": ("n", Spread()), "count": "count", "total": ("n", "sum")}
NUMBERS = [None, 0, 1, -7, 33, 1 << 20]
