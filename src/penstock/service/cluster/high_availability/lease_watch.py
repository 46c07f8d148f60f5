"""Whether a leader that renews a lease still lives: what one who watches the lease makes of it. No I/O.

Clocks are not compared: a lease has run out when it was watched for its whole time and has not changed.
"""

from __future__ import annotations

from typing import NamedTuple


class Beat(NamedTuple):
    """What is seen of a lease."""

    term: int
    """The newest that was claimed; 0: none was."""
    text: bytes
    """What the leader of that term has written last; empty: nothing yet."""
    is_over: bool = False
    """Whether it has resigned, or the kernel says that its process is gone."""
    lasts_ms: int = 0
    """For how long its leader counts on it, as it says itself; 0: it says nothing."""


class LeaseWatch:
    """Of one that stands by. `lease_ms`: how long a lease may not change, unless it says more itself."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._beat: Beat | None = None
        self._since_ms = 0

    def vacant(self, beat: Beat, began_ms: int, ended_ms: int) -> int | None:
        """The next term, if nobody leads by what was read between these times; None: somebody does."""
        if beat.term == 0 or beat.is_over:
            return beat.term + 1
        if beat != self._beat:
            # It may have been written at the end of the time in which it was read, at the latest.
            self._beat, self._since_ms = beat, ended_ms
        return beat.term + 1 if began_ms - self._since_ms >= max(self._lease_ms, beat.lasts_ms) else None
