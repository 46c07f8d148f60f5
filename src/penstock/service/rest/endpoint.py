"""The REST endpoint of a program: one for all of its jobs, as in Flink's application mode.

Its own thread answers requests from what jobs publish, and never waits for the job master's thread.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration, rest_options
from penstock.common.time.wall_clock import now_ms
from penstock.service.rest.job_sampling import sample_of
from penstock.service.rest.meter import SAMPLE_EVERY_S
from penstock.service.rest.served_jobs import JobEntry, ServedJobs
from penstock.service.rest.server_certificate import ServerCertificate
from penstock.service.rest.token_server import TokenServer

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

_log = logging.getLogger(__name__)
_REQUEST_S = 10.0
_LAST_ANSWER_S = 10.0
"""How long (seconds) a job's end waits for the client that stopped it to read the savepoint's path, as in Flink."""


class RestEndpoint:
    """Bind one of the ports, write the token's file, and serve until closed. Raises ConfigurationError.

    `pages`: routes in addition to those of REST; None: our own page. `sample_every_s`: how often counters are sampled,
    from which rates are computed. `request_s`: the time in which a request must arrive. `tls`: None: without TLS.
    """

    def __init__(
        self,
        ports: str,
        environ: Mapping[str, str] = os.environ,
        pages: Sequence[BaseRoute] | None = None,
        sample_every_s: float = SAMPLE_EVERY_S,
        request_s: float = _REQUEST_S,
        tls: ServerCertificate | None = None,
    ) -> None:
        self.jobs = ServedJobs()
        self._server = TokenServer(ports, environ, request_s, tls=tls)
        self.token = self._server.token
        self.address = self._server.address
        self._pages = pages
        self._server.start(self._application, self._sample, sample_every_s)

    def job_ended(self, entry: JobEntry) -> None:
        """Wait a few seconds for clients that still need the path of their savepoint; then the process may end."""
        entry.triggers.wait_until_read(_LAST_ANSWER_S)
        entry.checkpoint_triggers.wait_until_read(_LAST_ANSWER_S)

    def close(self) -> None:
        """Stop serving; the token's file is removed. Does nothing in a process that was forked from this one."""
        self._server.close()

    def _application(self) -> ASGIApp:
        # Imported here: it takes time, in which Spark's JVM starts.
        from penstock.service.rest.application import application

        return application(self.jobs, self.token, self._server.cookie, self._pages)

    def _sample(self) -> None:
        now_s = time.monotonic()
        for entry in self.jobs.all():
            if not entry.graph.status.is_terminal_state():
                add_sample(entry, now_s)


def add_sample(entry: JobEntry, now_s: float) -> None:
    """Sample the counters of a job, and its figures over time if it is time. `now_s`: of a steady clock."""
    entry.meter.sample(now_s)
    if entry.history.is_due(now_s):
        entry.history.add(sample_of(entry, now_ms()), now_s)


_of_process: RestEndpoint | None = None
_lock = threading.Lock()


def _forked() -> None:
    global _of_process, _lock
    # Jobs of the new process have an endpoint of their own.
    _of_process, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)


def endpoint_of(configuration: Configuration, otherwise: str | None) -> RestEndpoint | None:
    """Return the endpoint of this process, created for the first job that wants one; None: the job wants none.

    `otherwise`: the ports of a job that sets none. Raises ConfigurationError if no port is free, or its certificate
    can't be used.
    """
    global _of_process
    ports = configuration.get(rest_options.REST_BIND_PORT)
    ports = otherwise if ports is None else ports
    if not ports:
        return None
    with _lock:
        if _of_process is None:
            try:
                _of_process = RestEndpoint(ports, tls=ServerCertificate.of(configuration))
            except OSError as error:
                # The job itself does not need the endpoint.
                _log.warning("the job has no REST endpoint: %s", error)
                return None
            atexit.register(_of_process.close)
        return _of_process


def close_endpoint_of_process() -> None:
    """Forget the endpoint: the next job that wants one gets another."""
    global _of_process
    with _lock:
        endpoint, _of_process = _of_process, None
    if endpoint is not None:
        atexit.unregister(endpoint.close)
        endpoint.close()
