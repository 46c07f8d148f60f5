"""The clock that measures leases."""

from __future__ import annotations

import time


def steady_ms() -> int:
    """Return milliseconds of a clock that all processes of this machine share, and that never goes back."""
    return time.monotonic_ns() // 1_000_000
