"""The report of a run: one line per event, a digest of all of them, and how to replay it."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.engine.rpc.messages import SlotFailed
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import decode_header
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    CheckpointComplete,
    Event,
    Result,
    TriggerCheckpoint,
)

_KEPT = 60
_HEADINGS = f"{'step':>6} {'ms':>9}  {'who':<12} {'event':<44} effects"


class SimulationError(AssertionError):
    """A seed failed. The message is the whole report."""


class Trace:
    """The events of a run, with the latest ones in full."""

    def __init__(self, echo: Callable[[str], None] | None = None) -> None:
        self._echo = echo
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self.steps = 0
        self.digest = 0
        self._now_ms: Callable[[], int] = int
        if echo is not None:
            echo(_HEADINGS)

    def use_clock(self, now_ms: Callable[[], int]) -> None:
        """Set the clock shown in the lines."""
        self._now_ms = now_ms

    def add(self, who: str, event: str, effects: str = "") -> None:
        """Record one event."""
        line = f"{self.steps:>6} {self._now_ms():>9}  {who:<12} {event:<44} {effects}".rstrip()
        self.steps += 1
        self.digest = zlib.crc32(line.encode(), self.digest)
        self._lines.append(line)
        if self._echo is not None:
            self._echo(line)

    def __str__(self) -> str:
        return "\n".join([_HEADINGS, *self._lines])


def failure(seed: int | None, what: str, program: str, trace: Trace) -> SimulationError:
    """Return the error that reports a failing seed."""
    if seed is None:
        head = f"simulation: {what}"
    else:
        head = f"seed {seed}: {what}\n  Replay: make sim SEED={seed}"
    return SimulationError(f"{head}\n{program}\n{trace}")


def name_of(slot: SlotId) -> str:
    """Return the name of a slot in event lines."""
    return f"slot {slot[0]}/{slot[1]}"


def row_line(row: bytes) -> str:
    """Return a short description of a row."""
    if not row:
        return "push"
    header = decode_header(row)
    return f"edge {header.edge} {header.sender}->{header.target} #{header.sequence}"


def event_line(event: Event) -> str:
    """Return a short description of a task's event."""
    if isinstance(event, (TriggerCheckpoint, AbortCheckpoint, CheckpointComplete)):
        return f"{type(event).__name__}({event.checkpoint_id})"
    return type(event).__name__


def report_line(message: Any) -> str:
    """Return a short description of a report to the job master."""
    if isinstance(message, Result):
        return f"Result({len(message.values.value)} of sink {message.sink_id})"
    if isinstance(message, SlotFailed):
        return f"SlotFailed({message.message.splitlines()[0] if message.message else message.kind})"
    if isinstance(message, Acknowledge):
        return f"Acknowledge({message.checkpoint_id}) of v{message.vertex}"
    return repr(message)
