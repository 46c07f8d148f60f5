"""How fast a writer takes rows that it writes behind their checkpoint only."""

from __future__ import annotations

_FREELY_HELD = 100_000
_ROWS_PER_S = 20_000
_WAIT_MAX_S = 0.2
"""For one chunk: behind it a barrier may be next."""


class Intake:
    """Rows that are held, and how long to wait with a chunk.

    A source that is faster than the table would fill the memory: rows of a large interval make its checkpoint slow, in
    which more come than before. So a subtask takes `freely_held` rows as they come, and more of them only as fast as
    the table has taken the last batch.
    """

    def __init__(self, freely_held: int = _FREELY_HELD) -> None:
        self._freely_held = freely_held
        self._held = 0
        self._rows_per_s: float = _ROWS_PER_S
        self._owed_s = 0.0
        """What chunks before had to wait beyond their longest wait."""

    def taken(self, rows: int) -> float:
        """So many rows are held from now on. Returns the seconds to wait before the next."""
        self._held += rows
        if self._held <= self._freely_held:
            self._owed_s = 0.0
            return 0.0
        due_s = self._owed_s + rows / self._rows_per_s
        wait_s = min(due_s, _WAIT_MAX_S)
        self._owed_s = due_s - wait_s
        return wait_s

    def written(self, rows: int, seconds: float) -> None:
        """So many rows that were taken are written, within a time."""
        self._held -= rows
        if rows and seconds > 0:
            self._rows_per_s = rows / seconds
