"""The last control events of a task or a job master, printed with internal errors."""

from __future__ import annotations

from collections import deque
from typing import Any

_KEPT = 200


class Journal:
    """Keeps the last events, newest last."""

    def __init__(self) -> None:
        self._lines: deque[tuple[int, Any]] = deque(maxlen=_KEPT)

    def note(self, now_ms: int, what: Any) -> None:
        """Keep an event. It becomes text only when the journal is printed."""
        self._lines.append((now_ms, what))

    def __str__(self) -> str:
        return "\n".join(f"  {now_ms} ms  {what}" for now_ms, what in self._lines)
