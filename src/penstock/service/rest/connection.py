"""A connection of a client: limits the time for a request, and closes idle connections when there are too many.

Every process that reaches the port can connect, with or without a token, and each connection takes a file descriptor of
the process, in which the job's master also runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """`request_s`: the time in which a whole request must arrive. `most`: the largest number of connections."""

    def __init__(self, *, request_s: float, most: int, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._request_s = request_s
        self._most = most
        self._since_s = 0.0
        self._progress_timer: asyncio.TimerHandle | None = None

    @property
    def _waits(self) -> bool:
        """Whether the client must send next: no request is waiting for its answer."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection that has waited longest for its client, if there are too many."""
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._schedule_progress_check()
        if len(self.connections) > self._most:
            others = [other for other in self.connections if isinstance(other, Connection) and other._waits]
            # This new connection is one of them, so the list is never empty.
            oldest = min(others, key=lambda other: other._since_s)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer: either side has closed the connection."""
        if self._progress_timer is not None:
            self._progress_timer.cancel()
        super().connection_lost(exc)

    def _schedule_progress_check(self) -> None:
        self._progress_timer = self.loop.call_later(self._request_s, self._check_progress, self.cycle)

    def _check_progress(self, before: object) -> None:
        if self._waits and self.cycle is before:
            # No request has been completed since the last check.
            self.transport.close()
        else:
            self._schedule_progress_check()
