"""Whether a process still runs. Numbers of processes are used again, within minutes on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

_STATE, _BEGAN = 0, 19
"""Where its state and the time of its start stand in /proc/PID/stat, behind the name, which may have spaces in it."""
_ENDED = ("Z", "X")
"""States of one whose parent has not asked yet how it ended: in a container without an init, for ever."""


def beginning_of(pid: int) -> str:
    """What tells it from another process that has its number later; empty: nothing does, or it is gone."""
    return _stat_of(pid)[_BEGAN]


def is_alive(pid: int, beginning: str) -> bool:
    """Whether the process of that number runs, which began so."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    stat = _stat_of(pid)
    return stat[_STATE] not in _ENDED and (not beginning or stat[_BEGAN] == beginning)


def _stat_of(pid: int) -> list[str]:
    """With empty fields if it is gone."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # macOS has no /proc.
        found = []
    return found if len(found) > _BEGAN else [""] * (_BEGAN + 1)
