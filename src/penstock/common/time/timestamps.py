"""Times that users' code gives: of timers, of watermarks."""

from __future__ import annotations

import operator
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP


def as_timestamp(time: Any, what: str = "the time of a timer") -> int:
    """A time in milliseconds as an int of Python's, which a number of numpy becomes.

    Raises TypeError for what is no integer: a fraction of a millisecond would be lost, or never come. Raises ValueError
    for an integer beyond 64 bits, which is no time of Flink's either. `what` begins the message.
    """
    if type(time) is int and MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
        return time
    try:
        number = operator.index(time)
    except TypeError:
        raise TypeError(f"{what} is an int, in milliseconds, not {time!r:.80}") from None
    if not MIN_TIMESTAMP <= number <= MAX_TIMESTAMP:
        raise ValueError(f"{what} is an int of 64 bits, in milliseconds, not {number}")
    return number
