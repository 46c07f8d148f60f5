"""What a run leaves behind: one line per event, a digest of all of them, and how to play it again."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable

_KEPT = 60
_HEADINGS = f"{'step':>6} {'ms':>9}  {'who':<12} {'event':<44} effects"


class SimulationError(AssertionError):
    """A seed failed. The message is the whole report."""


class Trace:
    """The events of a run, the last ones in full."""

    def __init__(self, echo: Callable[[str], None] | None = None) -> None:
        self._echo = echo
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self.steps = 0
        self.digest = 0
        self._now_ms: Callable[[], int] = int
        if echo is not None:
            echo(_HEADINGS)

    def use_clock(self, now_ms: Callable[[], int]) -> None:
        """Whose time the lines show."""
        self._now_ms = now_ms

    def add(self, who: str, event: str, effects: str = "") -> None:
        """One event."""
        line = f"{self.steps:>6} {self._now_ms():>9}  {who:<12} {event:<44} {effects}".rstrip()
        self.steps += 1
        self.digest = zlib.crc32(line.encode(), self.digest)
        self._lines.append(line)
        if self._echo is not None:
            self._echo(line)

    def __str__(self) -> str:
        return "\n".join([_HEADINGS, *self._lines])


def failure(seed: int | None, what: str, program: str, trace: Trace) -> SimulationError:
    """The error that a failing seed is reported by."""
    if seed is None:
        head = f"simulation: {what}"
    else:
        head = f"seed {seed}: {what}\n  Replay: make sim SEED={seed}"
    return SimulationError(f"{head}\n{program}\n{trace}")
