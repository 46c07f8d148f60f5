"""Checks of times that users' code passes, such as timers and watermarks."""

from __future__ import annotations

import operator
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP


def as_timestamp(time: Any, what: str = "the time of a timer") -> int:
    """Return a time in milliseconds as a Python int. It may be an integer of numpy.

    Raises TypeError if it is not an integer, as a fraction of a millisecond would be lost, and ValueError if it does
    not fit into 64 bits, as in Flink. The message begins with `what`.
    """
    if type(time) is int and MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
        return time
    try:
        number = operator.index(time)
    except TypeError:
        raise TypeError(f"{what} must be an int of milliseconds, got {time!r:.80}") from None
    if not MIN_TIMESTAMP <= number <= MAX_TIMESTAMP:
        raise ValueError(f"{what} must be an int of milliseconds within 64 bits, got {number}")
    return number
