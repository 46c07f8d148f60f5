"""The last control events of a task or a job master, printed with internal errors."""

from __future__ import annotations

from collections import deque
from typing import Any

_EVENTS_MAX = 200


class Journal:
    """Keeps the last events, newest last."""

    def __init__(self) -> None:
        self._lines: deque[tuple[int, Any]] = deque(maxlen=_EVENTS_MAX)

    def note(self, now_ms: int, event: Any) -> None:
        """Keep an event. It becomes text only when the journal is printed."""
        self._lines.append((now_ms, event))

    def __str__(self) -> str:
        return "\n".join(f"  {now_ms} ms  {event}" for now_ms, event in self._lines)
