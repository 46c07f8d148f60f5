"""A non-blocking TCP client connection."""

from __future__ import annotations

import errno
import os
import select
import socket

_READ_BYTES = 64 * 1024
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class Connection:
    """Starts to connect when constructed, trying the addresses of `host` in order. Raises OSError."""

    def __init__(self, host: str, port: int) -> None:
        self._addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._socket = self._begin()
        self.connected = False

    def read(self) -> bytes | None:
        """Return received bytes, b"" if there are none, or None if the peer closed the connection.

        Raises OSError if the connection failed or was lost.
        """
        if not self.connected and not self._connect():
            return b""
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        return data or None

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()

    def _begin(self) -> socket.socket:
        family, kind, protocol, _, address = self._addresses.pop(0)
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        code = connecting.connect_ex(address)
        if code in _UNDER_WAY:
            return connecting
        connecting.close()
        return self._next(code)

    def _next(self, code: int) -> socket.socket:
        if not self._addresses:
            raise OSError(code, os.strerror(code))
        return self._begin()

    def _connect(self) -> bool:
        ready = select.poll()
        ready.register(self._socket, select.POLLOUT)
        if not ready.poll(0):
            return False
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._socket.close()
            self._socket = self._next(code)
            return False
        self.connected = True
        return True
