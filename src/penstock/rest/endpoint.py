"""The REST endpoint of this process: its port on the loopback, its token, its thread.

One for all jobs of a program, as in Flink's application mode. Requests are answered by its own thread from what jobs
publish; the job master's thread is never waited for.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import logging
import os
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cluster.rest_address import RestAddress, write_token
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.common.job_threads import start_thread
from penstock.rest.meter import SAMPLE_EVERY_S
from penstock.rest.ports import ports_in
from penstock.rest.served_jobs import JobEntry, ServedJobs
from penstock.spark.driver.java import cache_directory

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_STOP_S = 2.0
_REQUEST_S = 10.0
_CONNECTIONS_MOST = 100
"""A page of ours has six, as browsers do; each takes a file descriptor of the driver."""
_LAST_ANSWER_S = 10.0
"""How long a job's end waits for the client that has stopped it to ask for the savepoint's path. Flink's waits, too."""


class RestEndpoint:
    """Binds one of the ports, writes the token's file, and serves until it is closed. Raises ConfigurationError.

    `pages`: what is served beside the paths of REST; None: our own page. `sample_every_s`: how often counters are
    noted, from whose growth rates follow. `request_s`: the time in which a request has to arrive.
    """

    def __init__(
        self,
        ports: str,
        environ: Mapping[str, str] = os.environ,
        pages: Sequence[BaseRoute] | None = None,
        sample_every_s: float = SAMPLE_EVERY_S,
        request_s: float = _REQUEST_S,
    ) -> None:
        self.jobs = ServedJobs()
        self.token = secrets.token_hex(32)
        self._socket = _bound(ports)
        port = self._socket.getsockname()[1]
        self._token_file: Path = write_token(cache_directory(environ) / "rest", port, self.token)
        self.address = RestAddress(f"http://{_HOST}:{port}", str(self._token_file))
        self._cookie = f"penstock-{port}"
        self._pages = pages
        self._sample_every_s = sample_every_s
        self._process = os.getpid()
        self._request_s = request_s
        self._stop = threading.Event()
        self._wake: Callable[[], object] = lambda: None
        """Lets the thread see that it is to stop."""
        _open.add(self)
        self._thread = start_thread(f"penstock-rest-{port}", self._run, self._failed)

    def job_ended(self, entry: JobEntry) -> None:
        """The process may end now. Waits a few seconds for clients that have asked for a savepoint and not its path."""
        entry.triggers.wait_until_read(_LAST_ANSWER_S)

    def close(self) -> None:
        """Stop serving; the token is gone. A process that was forked from this one has nothing to stop."""
        if os.getpid() != self._process:
            return
        self._stop.set()
        with contextlib.suppress(RuntimeError):  # its loop has ended already
            self._wake()
        self._thread.join(_STOP_S)
        self._socket.close()
        with contextlib.suppress(OSError):
            self._token_file.unlink(missing_ok=True)

    def forked(self) -> None:
        """This process was forked by a user's program: it does not serve, and must not keep the port."""
        self._socket.close()

    def _failed(self, error: BaseException) -> None:
        _log.warning("the REST endpoint %s serves no more: %s", self.address.url, error)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(woken.set)
        # Imported here: it takes a quarter of a second, in which Spark's JVM starts.
        import uvicorn

        from penstock.rest.application import application
        from penstock.rest.connection import Connection

        config = uvicorn.Config(
            application(self.jobs, self.token, self._cookie, self._pages),
            http=partial(Connection, request_s=self._request_s, most=_CONNECTIONS_MOST),  # type: ignore[arg-type]
            loop="asyncio",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        while not serving.done() and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), self._sample_every_s)
            self._sample()
        server.should_exit = True
        await serving

    def _sample(self) -> None:
        now_s = time.monotonic()
        for entry in self.jobs.all():
            if not entry.graph.status.is_terminal_state():
                entry.meter.sample(now_s)


_open: weakref.WeakSet[RestEndpoint] = weakref.WeakSet()


def _forked() -> None:
    global _of_process, _lock
    for endpoint in _open:
        endpoint.forked()
    # Jobs of the new process have an endpoint of its own.
    _of_process, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)


def _bound(ports: str) -> socket.socket:
    taken: OSError | None = None
    for port in ports_in(ports):
        # With the protocol named, or asyncio leaves Nagle's algorithm on: each answer would take 40 ms.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
            # From here on nobody else gets it. Requests wait until the thread serves.
            listening.listen()
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            taken = error
            continue
        return listening
    raise ConfigurationError(
        f"{options.REST_BIND_PORT.key}: no port of {ports} is free: {taken}. Name another one, or several, as "
        "9000-9010; --rest-port off serves nothing"
    )


_of_process: RestEndpoint | None = None
_lock = threading.Lock()


def endpoint_of(configuration: Configuration, otherwise: str | None) -> RestEndpoint | None:
    """The endpoint of this process, made for its first job that asks for one; None: the job asks for none.

    `otherwise`: the ports of a job that sets none. Raises ConfigurationError if no port is free.
    """
    global _of_process
    ports = configuration.get(options.REST_BIND_PORT)
    ports = otherwise if ports is None else ports
    if not ports:
        return None
    with _lock:
        if _of_process is None:
            try:
                _of_process = RestEndpoint(ports)
            except OSError as error:
                # The job itself needs nothing here.
                _log.warning("the job is not served over REST: %s", error)
                return None
            atexit.register(_of_process.close)
        return _of_process


def close_endpoint_of_process() -> None:
    """The next job that asks for one gets another."""
    global _of_process
    with _lock:
        endpoint, _of_process = _of_process, None
    if endpoint is not None:
        atexit.unregister(endpoint.close)
        endpoint.close()
