"""The work of the process that leads a cluster: it runs the jobs, and serves REST."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.hosts.spark.driver.executors import Executors
from penstock.hosts.spark.internals.executor_pool import ExecutorPool
from penstock.hosts.spark.internals.jvm import jvm_has_ended
from penstock.service.cluster.running_cluster import RunningCluster, announce
from penstock.service.dispatcher.application import application
from penstock.service.dispatcher.cluster_log import keep_bounded
from penstock.service.dispatcher.cluster_settings import ClusterSettings
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.job_store import JobStore
from penstock.service.dispatcher.leadership_lease import LeadershipLease
from penstock.service.dispatcher.program_runs import kill_waiting_programs
from penstock.service.rest.ports import preferring
from penstock.service.rest.server_certificate import ServerCertificate
from penstock.service.rest.token_server import TokenServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUEST_S = 600.0
"""Clients may send the bundles of large programs over slow networks."""
_LOOK_S = 1.0
_log = logging.getLogger(__name__)


def rest_server(store: JobStore, settings: ClusterSettings) -> TokenServer:
    """Return a server that owns its port from now on.

    Raises ConfigurationError if no port is free, or TLS is unusable.
    """
    tls = ServerCertificate.of(Configuration.from_dict(settings.ssl))
    return TokenServer(
        ports=preferring(store.port(), settings.ports),
        environ=os.environ,
        request_s=_REQUEST_S,
        token=store.token(),
        tls=tls,
    )


def run_leader(
    session: SparkSession,
    store: JobStore,
    server: TokenServer,
    settings: ClusterSettings,
    *,
    ended: threading.Event,
    lease: LeadershipLease | None = None,
    deposed: Callable[[str], object] = lambda why: None,
    publish: Callable[[str], object] = lambda url: None,
) -> None:
    """Run and serve jobs until `ended` is set, Spark's JVM has ended, or the dispatcher has failed.

    `lease`, `deposed`: see DispatcherHost. `publish` is called with the URL of REST as soon as it is served.
    """
    try:
        store.keep_port(server.port)
        host = DispatcherHost(session, store, lease=lease, deposed=deposed, executors=_executors(session, settings))
        host.log_directory = Path(settings.directory)
        host.start()
        server.start(lambda: application(host, server, settings.spark), lambda: None, _LOOK_S)
        announce(RunningCluster(os.getpid(), settings.directory, server.address))
        publish(server.address.url)
        _log.info("serving at %s, with %d slots; jobs are in %s", server.address.url, host.slots, store.directory)
        while not ended.wait(_LOOK_S):
            with contextlib.suppress(OSError):
                keep_bounded(host.log_directory)
            if jvm_has_ended():
                _log.error("Spark's JVM has ended: killed, or out of memory. The next start resumes the jobs")
                break
            if host.has_ended:
                _log.error("the cluster has failed with the error above. The next start resumes the jobs")
                break
        host.close()
    finally:
        server.close()
        kill_waiting_programs()


def _executors(session: SparkSession, settings: ClusterSettings) -> Executors | None:
    return Executors(ExecutorPool(session), settings.slots, settings.most_slots) if settings.most_slots else None
