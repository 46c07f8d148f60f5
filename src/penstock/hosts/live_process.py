"""Check whether a process still runs. Process ids are reused, within minutes on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

_STATE, _BEGAN = 0, 19
"""Positions of state and start time in /proc/PID/stat, after the name, which may contain spaces."""
_ENDED = ("Z", "X")
"""States of a process whose parent has not collected its exit: forever, in a container without an init."""


def start_mark_of(pid: int) -> str:
    """Return a mark that distinguishes a process from a later one with the same id; empty: unknown, or it is gone."""
    return _stat_of(pid)[_BEGAN]


def is_alive(pid: int, beginning: str) -> bool:
    """Return whether the process with this id and this mark runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    stat = _stat_of(pid)
    return stat[_STATE] not in _ENDED and (not beginning or stat[_BEGAN] == beginning)


def _stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat; empty ones if the process is gone."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # macOS has no /proc.
        found = []
    return found if len(found) > _BEGAN else [""] * (_BEGAN + 1)
