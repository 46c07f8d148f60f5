"""The clock by which leads are counted."""

from __future__ import annotations

import time


def steady_ms() -> int:
    """Milliseconds of the clock that all processes of this machine share, which never goes back."""
    return time.monotonic_ns() // 1_000_000
