"""One connection of a client: it has its time for a request, and is given up for others when there are too many.

Whoever reaches the port may connect, with or without a token, and each connection takes a file descriptor of the
process in which the job's master runs, too.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """`request_s`: the time in which a request has to arrive as a whole. `most`: how many connections there may be."""

    def __init__(self, *, request_s: float, most: int, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._request_s = request_s
        self._most = most
        self._since_s = 0.0
        self._looks: asyncio.TimerHandle | None = None

    @property
    def _waits(self) -> bool:
        """Whether it is the client's turn: no request has arrived that is not answered."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the place of the one that has waited longest for its client, if there are too many."""
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._look_later()
        if len(self.connections) > self._most:
            others = [other for other in self.connections if isinstance(other, Connection) and other._waits]
            # This one waits, too. The last to come is given up only if all others are being answered.
            oldest = min(others, key=lambda other: other._since_s)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed, by whoever."""
        if self._looks is not None:
            self._looks.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._looks = self.loop.call_later(self._request_s, self._look, self.cycle)

    def _look(self, before: object) -> None:
        if self._waits and self.cycle is before:
            # No request has come to its end since the last look.
            self.transport.close()
        else:
            self._look_later()
