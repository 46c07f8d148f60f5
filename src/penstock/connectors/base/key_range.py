"""A range of a table's rows, by the values of a column, and the position in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.stored import stored_as


@stored_as("postgres-split")
class KeyRange(msgspec.Struct, frozen=True):
    """The rows whose column is `start` or more, and less than `stop`; None: without that bound.

    `skip`: how many rows with the value `start` were read, in the order of the table; None: all of them.
    """

    index: int
    start: Any = None
    stop: Any = None
    skip: int | None = 0

    @property
    def split_id(self) -> str:
        """`rows-<index>`."""
        return f"rows-{self.index}"

    def after(self, values: Sequence[Any]) -> KeyRange:
        """The position behind rows with these values of the column, at least one, in order."""
        last = values[-1]
        same = 0
        for value in reversed(values):
            if not _equal(value, last):
                break
            same += 1
        # All of them: the value may be the one that was begun with.
        if same == len(values) and _equal(last, self.start) and self.skip is not None:
            same += self.skip
        return KeyRange(self.index, last, self.stop, same)

    def behind(self) -> KeyRange:
        """The position behind all rows with the value `start`."""
        return KeyRange(self.index, self.start, self.stop, None)


def _equal(one: Any, other: Any) -> bool:
    """As databases compare: what is no number is itself."""
    return bool(one == other or (one != one and other != other))


def splits_between(first: Any, last: Any, count: int) -> list[KeyRange]:
    """At most `count` ranges of nearly equal length, which cover all values; `first` and `last` are those of the table.

    Values are numbers, dates or timestamps. Raises TypeError for others.
    """
    if first is None:
        return []
    length = last - first
    exact = isinstance(length, float)
    cuts = [first + (length * part / count if exact else length * part // count) for part in range(1, count)]
    # Values that are close together give the same cut several times.
    between = sorted({cut for cut in cuts if first < cut <= last})
    bounds = [None, *between, None]
    return [KeyRange(index, bounds[index], bounds[index + 1]) for index in range(len(bounds) - 1)]


def splits_of(column: str, bounds: Sequence[Any], count: int) -> list[KeyRange]:
    """`splits_between`, with `bounds` as a database says them: first and last value, and whether rows have none.

    Raises SourceError, which says what is wrong with `column`, if it can't be divided so that all rows are read.
    """
    first, last, has_nulls = bounds
    if has_nulls:
        raise SourceError(f"{column} has rows without a value, which would not be read: take another column")
    try:
        return splits_between(first, last, count)
    except TypeError:
        raise SourceError(
            f"{column} has values such as {first!r}, which can't be divided: a partition column has numbers, "
            "dates or timestamps"
        ) from None
