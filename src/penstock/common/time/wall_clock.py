"""The clock of this machine. Tasks and the control of jobs have none: their hosts tell them the time."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970 in UTC."""
    return time.time_ns() // 1_000_000
