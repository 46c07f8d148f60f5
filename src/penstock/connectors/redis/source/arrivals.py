"""Waits for entries by XREAD, on a connection of its own, so that nothing else has to wait for its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.connectors.base.handover import Handover
from penstock.connectors.redis.server import RedisServer, redis
from penstock.connectors.redis.source.streams import as_key

_BLOCK_S = 1.0
"""After which time the server answers that nothing has come: streams may have been deleted, and it may be away."""
_LATE_S = 10.0


class Arrivals:
    """The methods raise what redis-py raises, or RedisError."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client: Any = None
        self._connection: Any = None
        self._asked_for: Mapping[str, str] | None = None
        """What the server has not answered yet."""
        self._late_s = 0.0

    def wait_for(self, positions: Mapping[str, str], handover: Handover[Any]) -> None:
        """Until there may be an entry behind one of the positions, by stream, or the handover's bell rings."""
        if self._asked_for is not None and self._asked_for != positions:
            # The question can't be taken back.
            self.close()
        if self._client is None:
            self._client = self._server.connect()
            self._connection = self._client.connection_pool.get_connection()
        if self._asked_for is None:
            streams = [*map(as_key, positions), *positions.values()]
            self._connection.send_command("XREAD", "COUNT", 1, "BLOCK", int(_BLOCK_S * 1000), "STREAMS", *streams)
            self._asked_for = dict(positions)
            self._late_s = time.monotonic() + _BLOCK_S + _LATE_S
        # redis-py has no other name for it.
        if handover.wait(self._connection._sock, max(0.0, self._late_s - time.monotonic())):
            self._asked_for = None
            self._connection.read_response()
        elif time.monotonic() >= self._late_s:
            raise redis().TimeoutError(f"the server has not answered for {_LATE_S:.0f} s")

    def close(self) -> None:
        """Leave the server."""
        client, self._client, self._connection, self._asked_for = self._client, None, None, None
        if client is not None:
            client.close()
