"""The clock of this machine, for hosts. Tasks and the JobMaster do not read it: their hosts pass them the time."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the milliseconds since the epoch (1970-01-01, UTC)."""
    return time.time_ns() // 1_000_000
