"""Whether a process still runs. Numbers of processes are used again, within minutes on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

_BEGAN = 19
"""Where the time of the start stands in /proc/PID/stat, behind the name, which may have spaces in it."""


def beginning_of(pid: int) -> str:
    """What tells it from another process that has its number later; empty: nothing does, or it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_BEGAN]
    except (OSError, IndexError):
        # macOS has no /proc.
        return ""


def is_alive(pid: int, beginning: str) -> bool:
    """Whether the process of that number runs, which began so."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not beginning or beginning_of(pid) == beginning
