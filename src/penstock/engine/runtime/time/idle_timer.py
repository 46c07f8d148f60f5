"""How long a split has been quiet, as far as anybody has looked.

Source: Flink docs, "Generating Watermarks", Dealing With Idle Sources. What Flink's idleness timer says of a split that
nobody could read, this one does not: while a machine sleeps, its clock is set or a function takes long, records wait.
"""

from __future__ import annotations

from collections.abc import Callable

_LATE = 2
"""A look that comes after this many intervals is late."""


class IdleTimer:
    """Sums up the time between looks without a record.

    A late look may come before what arrived in the meantime is read: it does not make a split idle, and one that comes
    later than the whole timeout begins anew. The second late look of a row counts like any: a task may be slow always.
    """

    __slots__ = ("_interval_ms", "_looked_ms", "_now_ms", "_quiet_ms", "_timeout_ms", "_was_late")

    def __init__(self, timeout_ms: int, interval_ms: int, now_ms: Callable[[], int]) -> None:
        self._timeout_ms = timeout_ms
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._looked_ms = now_ms()
        self._quiet_ms = 0
        self._was_late = False

    def record(self) -> None:
        """There was a record just now."""
        self._quiet_ms = 0
        self._looked_ms = self._now_ms()

    def look(self) -> bool:
        """Whether the split has been quiet for the idle timeout."""
        now_ms = self._now_ms()
        # A clock may have been set back.
        passed_ms = max(0, now_ms - self._looked_ms)
        late = passed_ms > _LATE * self._interval_ms
        first_late, self._was_late, self._looked_ms = late and not self._was_late, late, now_ms
        self._quiet_ms = 0 if first_late and passed_ms >= self._timeout_ms else self._quiet_ms + passed_ms
        return self._quiet_ms >= self._timeout_ms and not first_late
