"""A range of a table's rows, by the values of a column, and a position in it."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.stored import stored_as

_log = logging.getLogger(__name__)


@stored_as("postgres-split")
class KeyRange(msgspec.Struct, frozen=True):
    """The rows whose column is at least `start` and less than `stop`; None means no bound.

    `skip`: how many rows with the value `start` were read, in the order of the table; None: all of them.
    """

    index: int
    start: Any = None
    stop: Any = None
    skip: int | None = 0

    @property
    def split_id(self) -> str:
        """Return `rows-<index>`."""
        return f"rows-{self.index}"

    def after(self, values: Sequence[Any]) -> KeyRange:
        """Return the position after rows with these values of the column, at least one, in order."""
        last, same = values[-1], _equal_at_end(values)
        # All values are equal: they may continue the rows with the value `start`.
        if same == len(values) and _equal(last, self.start) and self.skip is not None:
            same += self.skip
        return KeyRange(self.index, last, self.stop, same)

    def behind(self) -> KeyRange:
        """Return the position after all rows with the value `start`."""
        return KeyRange(self.index, self.start, self.stop, None)


class OrderedValues(Sequence[Any]):
    """Values of a column of which each access takes time. Equal ones are next to each other, also by Python's `==`."""

    def equal_at_end(self) -> int:
        """Return how many values at the end are equal to the last one."""
        last = self[-1]
        return len(self) - bisect_left(range(len(self)), True, key=lambda place: _equal(self[place], last))


def _equal_at_end(values: Sequence[Any]) -> int:
    if isinstance(values, OrderedValues):
        return values.equal_at_end()
    last = values[-1]
    same = 0
    for value in reversed(values):
        if not _equal(value, last):
            break
        same += 1
    return same


def _equal(one: Any, other: Any) -> bool:
    """Compare as databases do: NaN equals NaN."""
    return bool(one == other or (one != one and other != other))


def splits_between(first: Any, last: Any, count: int) -> list[KeyRange]:
    """Return at most `count` ranges of about equal length for all values of a column from `first` to `last`.

    Values are numbers, dates or timestamps. If a bound is infinite or NaN, return one range. Raise TypeError for other
    values.
    """
    if first is None:
        return []
    cuts = [_cut(first, last, part, count) for part in range(1, count)] if _is_finite(first, last) else []
    # Values that are close together give the same cut several times.
    between = sorted({cut for cut in cuts if first < cut <= last})
    bounds = [None, *between, None]
    return [KeyRange(index, bounds[index], bounds[index + 1]) for index in range(len(bounds) - 1)]


def _cut(first: Any, last: Any, part: int, count: int) -> Any:
    if isinstance(first, int) and isinstance(last, int):
        return first + (last - first) * part // count
    if isinstance(first, (int, float)) and isinstance(last, (int, float)):
        # Divide each bound first: the length of a range of floats may be infinite.
        return first / count * (count - part) + last / count * part
    length = last - first
    if isinstance(length, Decimal):
        # Python's arithmetic rounds a decimal to 28 digits; any value near the cut will do.
        return first + length * part / count
    return first + length * part // count


def _is_finite(first: Any, last: Any) -> bool:
    return all(
        one.is_finite() if isinstance(one, Decimal) else not isinstance(one, float) or math.isfinite(one)
        for one in (first, last)
    )


def splits_of(column: str, bounds: Sequence[Any], count: int) -> list[KeyRange]:
    """Return `splits_between` for `bounds` from a database: first and last value, and whether rows have NULL.

    Raise SourceError if no division of `column` covers all rows.
    """
    first, last, has_nulls = bounds
    if has_nulls:
        raise SourceError(f"{column} has NULL in some rows, which would not be read. Choose another column")
    try:
        splits = splits_between(first, last, count)
    except TypeError:
        odd = last if isinstance(first, (int, float, Decimal)) else first
        raise SourceError(
            f"{column} has values such as {odd!r}, which cannot be divided. A partition column must have numbers, "
            "dates or timestamps"
        ) from None
    if first is not None and not _is_finite(first, last):
        _log.warning("%s has values from %s to %s, so one subtask reads all rows", column, first, last)
    return splits
