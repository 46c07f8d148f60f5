"""Speaks TLS for a PostgreSQL server whose build has none."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType

_SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class TlsProxy:
    """On a port of the loopback, from `with` on. Refuses those who do not ask for TLS."""

    def __init__(self, port: int, key_and_certificate: Path) -> None:
        """`port`: of the server."""
        self._server = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(key_and_certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> TlsProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            if client.recv(8, socket.MSG_WAITALL) != _SSL_REQUEST:
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as secured,
                socket.create_connection(("127.0.0.1", self._server)) as server,
            ):
                _relay(secured, server)


def _relay(client: ssl.SSLSocket, server: socket.socket) -> None:
    # One thread: two may not use one connection of TLS at a time.
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(1 << 16)
            if not data:
                return
            (server if source is client else client).sendall(data)
