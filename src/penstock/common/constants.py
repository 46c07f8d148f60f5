"""The ends of time, as Flink has them: timestamps are int milliseconds in 64 bits."""

from typing import Final

MIN_TIMESTAMP: Final = -(2**63)
MAX_TIMESTAMP: Final = 2**63 - 1
