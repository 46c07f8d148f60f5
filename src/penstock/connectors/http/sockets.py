"""Ends what a thread waits for on a socket: another thread calls it."""

from __future__ import annotations

import contextlib
import socket


def shut_down(sock: socket.socket | None) -> None:
    """Whoever reads or writes has an OSError, or the end, at once. None: there is nothing to end."""
    if sock is not None:
        with contextlib.suppress(OSError):
            # Of the socket below TLS, whose thread goes on with it.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
