"""Flink's minimum and maximum timestamps: int milliseconds of 64 bits."""

from typing import Final

MIN_TIMESTAMP: Final = -(2**63)
MAX_TIMESTAMP: Final = 2**63 - 1

MAX_LONG_VALUE: Final = MAX_TIMESTAMP
MIN_LONG_VALUE: Final = MIN_TIMESTAMP
"""PyFlink's names for both."""
