"""How fast a writer takes rows that it must not write yet."""

from __future__ import annotations

_UNLIMITED_ROWS = 100_000
_ROWS_PER_S = 20_000
_WAIT_MAX_S = 0.2
"""For one chunk: a barrier may follow it."""


class Intake:
    """Limit the speed at which a writer takes rows that it writes only after their checkpoint.

    A source that is faster than the table would fill the memory: rows of a long interval slow down its checkpoint,
    during which more arrive. So a subtask takes `unlimited_rows` rows at any speed, and more of them only as fast as
    the table accepted the last batch.
    """

    def __init__(self, unlimited_rows: int = _UNLIMITED_ROWS) -> None:
        self._unlimited_rows = unlimited_rows
        self._buffered = 0
        self._rows_per_s: float = _ROWS_PER_S
        self._missed_wait_s = 0.0
        """The time that earlier chunks did not wait because of the limit of a wait."""

    def buffered(self, rows: int) -> float:
        """Count `rows` buffered rows. Return the seconds to wait before the next."""
        self._buffered += rows
        if self._buffered <= self._unlimited_rows:
            self._missed_wait_s = 0.0
            return 0.0
        due_s = self._missed_wait_s + rows / self._rows_per_s
        wait_s = min(due_s, _WAIT_MAX_S)
        self._missed_wait_s = due_s - wait_s
        return wait_s

    def written(self, rows: int, seconds: float) -> None:
        """Record that `rows` counted rows were written within `seconds`."""
        self._buffered -= rows
        if rows and seconds > 0:
            self._rows_per_s = rows / seconds
