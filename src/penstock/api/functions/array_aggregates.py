"""The interface of aggregates over arrays, for `aggregate({...})`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from penstock.common.typeinfo import TypeInformation


class ArrayAggregateFunction(ABC):
    """An AggregateFunction whose methods compute many records at a time, in NumPy arrays.

    It is an aggregate of `aggregate({"price": (("price", "amount"), WeightedMean())})`: of the fields, which are
    integers or floats, and the function. On columns `add` is called once for a batch, on rows once for each record, so
    its result must not depend on how records are divided into calls. Floats that are added in another order may differ
    in their last bits; `numpy.add.at` adds in the order of the records. A record with None in one of the fields is not
    added, and a key without other records has the result None. A copy is pickled to each subtask. This is not in
    PyFlink, whose vectorized aggregates (pandas) are of SQL.
    """

    accumulator: Mapping[str, Any]
    """Name of each array -> its type, such as `numpy.float64`, whose values begin with 0, or the value that a new key
    begins with, such as `numpy.float64("inf")`. Types are booleans, integers and floats of NumPy."""

    result_type: TypeInformation
    """The type of the results, such as `Types.DOUBLE()`."""

    in_any_order: bool = False
    """Whether results are the same, bit by bit, in whatever order records are added and merged. If True, which needs
    `merge`, sessions are computed on columns, windows on columns may aggregate before the exchange, and running
    aggregates on columns merge the records of a key that is frequent in a batch."""

    @abstractmethod
    def add(self, accumulators: Any, slots: Any, *values: Any) -> None:
        """Add records.

        `accumulators`: its attributes are the declared arrays, which have one value for each key that is added to; they
        may be changed in place or replaced. `slots`: for each record the position of its key in them (int64), which may
        be there several times: `accumulators.sum[slots] += values` would add one of them, `numpy.add.at(
        accumulators.sum, slots, values)` adds all. `values`: for each field an array with its value for each record,
        int64 or float64, without nulls. `slots` and `values` are read-only.
        """

    def merge(self, accumulators: Any, slots: Any, others: Any) -> None:
        """Merge other accumulators into those at `slots`. The records of `others` came later.

        The attributes of `others` are arrays as well, whose value at a position belongs to the slot at that position.
        They are read-only. Session windows need it, since they merge; all else calls it only if `in_any_order` is True.
        """
        raise NotImplementedError

    @abstractmethod
    def get_result(self, accumulators: Any) -> Any:
        """Return the results of all keys in `accumulators`, an array of NumPy or Arrow with one value for each.

        A masked value, or a null, is None; NaN stays NaN. `accumulators` are read-only, and are added to afterwards.
        """
