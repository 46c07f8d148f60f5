"""An HTTP server of this process: a port on the loopback, a token, and a thread that answers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import socket
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import rest_options
from penstock.common.errors import ConfigurationError
from penstock.common.files.cache_directory import cache_directory
from penstock.common.job_threads import start_thread
from penstock.service.cluster.rest_address import RestAddress, read_only_file, write_token
from penstock.service.cluster.rest_tls import keep_certificate
from penstock.service.rest.ports import ports_in
from penstock.service.rest.server_certificate import ServerCertificate

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_STOP_S = 2.0
HEAD_START_S = 5.0
"""Before that only a request makes it serve: until then the start of a job needs the process."""
_CONNECTIONS_MAX = 100
"""Most connections. A page of ours uses six, as browsers do; each takes a file descriptor of the process."""


class TokenServer:
    """Bind one of the ports, write the token's file, and serve from `start` until closed.

    Raises ConfigurationError if no port is free. `request_s`: the time in which a request must arrive. `token`: the
    required one; None: a new one. `tls`: None: without TLS.
    """

    def __init__(
        self,
        ports: str,
        environ: Mapping[str, str],
        request_s: float,
        token: str | None = None,
        tls: ServerCertificate | None = None,
    ) -> None:
        self.token = token or secrets.token_hex(32)
        self._socket = bound_socket(ports)
        self.port: int = self._socket.getsockname()[1]
        self._token_file: Path = write_token(cache_directory(environ) / "rest", self.port, self.token)
        self._certificate_file = keep_certificate(self.port, tls.certificate if tls is not None else None, environ)
        self._tls = tls
        scheme = "https" if tls is not None else "http"
        self.address = RestAddress(f"{scheme}://{_HOST}:{self.port}", str(self._token_file))
        self.cookie = f"penstock-{self.port}"
        """The name of the cookie that replaces the token in browsers. All ports share cookies."""
        self._name = f"penstock-rest-{self.port}"
        self._process = os.getpid()
        self._request_s = request_s
        self._stop = threading.Event()
        self._wake: Callable[[], object] = lambda: None
        """Asks the thread to stop."""
        self._thread: threading.Thread | None = None
        _open.add(self)

    def start(self, application: Callable[[], ASGIApp], tick: Callable[[], object], every_s: float) -> None:
        """Serve what `application` returns, and call `tick` at this interval (seconds), on the server's own thread.

        Earlier requests wait until then.
        """
        self._thread = start_thread(
            self._name, lambda: asyncio.run(self._serve(application, tick, every_s)), self._failed
        )

    def close(self) -> None:
        """Stop serving; the token's file is removed. Does nothing in a process that was forked from this one."""
        if os.getpid() != self._process:
            return
        self._stop.set()
        with contextlib.suppress(RuntimeError):  # its loop has ended already
            self._wake()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._socket.close()
        with contextlib.suppress(OSError):
            # A process in another network, with the same home, may serve at the same port.
            if self._token_file.read_text(encoding="ascii") == self.token:
                self._token_file.unlink(missing_ok=True)
                read_only_file(self._token_file).unlink(missing_ok=True)
            self._certificate_file.unlink(missing_ok=True)

    def forked(self) -> None:
        """In a process that a user's program forked: it does not serve, and must not keep the port."""
        self._socket.close()

    def _failed(self, error: BaseException) -> None:
        _log.warning("the REST endpoint %s has stopped serving: %s", self.address.url, error)

    async def _serve(self, application: Callable[[], ASGIApp], tick: Callable[[], object], every_s: float) -> None:
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(woken.set)
        await self._until_asked(woken, tick, every_s)
        if self._stop.is_set():
            return
        # Imported here: it takes a quarter of a second.
        import uvicorn

        from penstock.service.rest.connection import Connection

        config = uvicorn.Config(
            application(),
            http=partial(Connection, request_s=self._request_s, most=_CONNECTIONS_MAX),  # type: ignore[arg-type]
            loop="asyncio",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            ssl_certfile=self._tls.certificate if self._tls is not None else None,
            ssl_keyfile=self._tls.private_key if self._tls is not None else None,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        while not serving.done() and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), every_s)
            tick()
        server.should_exit = True
        await serving

    async def _until_asked(self, woken: asyncio.Event, tick: Callable[[], object], every_s: float) -> None:
        """Wait for the first request, at most some seconds: until then the start of a job needs this process."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + HEAD_START_S
        loop.add_reader(self._socket, woken.set)
        while not woken.is_set() and (left_s := until_s - loop.time()) > 0:
            try:
                await asyncio.wait_for(woken.wait(), min(every_s, left_s))
            except TimeoutError:
                if every_s <= left_s:
                    tick()
        loop.remove_reader(self._socket)
        woken.clear()


_open: weakref.WeakSet[TokenServer] = weakref.WeakSet()


def _forked() -> None:
    for server in _open:
        server.forked()


os.register_at_fork(after_in_child=_forked)


def bound_socket(ports: str) -> socket.socket:
    """Bind the first free one of these ports of the loopback. Raises ConfigurationError if none is free."""
    taken: OSError | None = None
    for port in ports_in(ports):
        # With the protocol named, or asyncio leaves Nagle's algorithm on: each answer would take 40 ms.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
            # From here on the port is this process's. Requests wait until the thread serves.
            listening.listen()
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            taken = error
            continue
        return listening
    raise ConfigurationError(
        f"{rest_options.REST_BIND_PORT.key} (--rest-port): no port of {ports} is free: {taken}. Name another one, or "
        "a range such as 9000-9010"
    )
