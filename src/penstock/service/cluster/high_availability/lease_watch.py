"""Decide whether the leader that renews a lease is alive, from what a standby sees of the lease. No I/O.

Clocks are not compared: a lease has expired when a standby has watched it for its whole time without a change.
"""

from __future__ import annotations

from typing import NamedTuple


class LeaseObservation(NamedTuple):
    """An observation of a lease."""

    term: int
    """The newest claimed term; 0: none."""
    text: bytes
    """The last content that the leader of that term has written; empty: nothing yet."""
    is_over: bool = False
    """Whether the leader has resigned, or the kernel reports that its process is gone."""
    lasts_ms: int = 0
    """For how long the leader relies on the lease, as it states itself; 0: unknown."""


class LeaseWatch:
    """The watch of one standby. `lease_ms`: how long a lease may stay unchanged, unless it states more itself."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._last: LeaseObservation | None = None
        self._since_ms = 0

    def vacant(self, observation: LeaseObservation, began_ms: int, ended_ms: int) -> int | None:
        """Return the next term if the observation between these times shows that there is no leader, else None."""
        if observation.term == 0 or observation.is_over:
            return observation.term + 1
        if observation != self._last:
            # The content may have been written as late as at the end of the read.
            self._last, self._since_ms = observation, ended_ms
        return observation.term + 1 if began_ms - self._since_ms >= max(self._lease_ms, observation.lasts_ms) else None
