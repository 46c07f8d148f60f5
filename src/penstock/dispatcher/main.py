"""The process of a cluster: one Spark application, a dispatcher, and REST. `penstock cluster start` starts it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.types import ASGIApp

from penstock.cluster.running_cluster import RunningCluster, announce, withdraw
from penstock.common.errors import ConfigurationError, PenstockError
from penstock.dispatcher import job_paths, submission_paths
from penstock.dispatcher.host import DispatcherHost
from penstock.dispatcher.job_store import JobStore
from penstock.rest import own_page
from penstock.rest.application import guarded
from penstock.rest.ports import preferring
from penstock.rest.token_server import TokenServer
from penstock.spark.driver.session import start_session
from penstock.spark.internals.jvm import jvm_has_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUEST_S = 600.0
"""Bundles of large programs come from elsewhere."""
_LOOK_S = 1.0
_LOCK_S = 0.2
_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
_log = logging.getLogger(__name__)


class ClusterSettings(msgspec.Struct, frozen=True):
    """Of one cluster."""

    slots: int
    directory: str
    """Of its jobs."""
    ports: str
    spark: dict[str, str]
    """Settings of Spark."""
    standby: bool = False
    """Whether it waits until the cluster of that directory has ended, and takes its place."""


def main() -> None:
    """SETTINGS as JSON."""
    settings = msgspec.json.decode(sys.argv[1], type=ClusterSettings)
    logging.basicConfig(format=_FORMAT, level=logging.INFO, stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        run(settings)
    except PenstockError as error:
        print(f"penstock.{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def run(settings: ClusterSettings) -> None:
    """Serve until SIGTERM, or until Spark's JVM ends. Raises PenstockError if it can't begin."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        if settings.standby:
            # First: it is to have Spark when it is needed.
            session = start_session(settings.slots, settings.spark)
            store = _stand_by(settings, ended)
        else:
            store = JobStore(Path(settings.directory))
            session = start_session(settings.slots, settings.spark)
        if store is not None:
            _lead(session, store, settings, ended)
    finally:
        withdraw(os.getpid())
    # Neither Spark's nor py4j's threads are waited for; the JVM ends with this process.
    logging.shutdown()
    os._exit(0 if ended.is_set() else 1)


def _stand_by(settings: ClusterSettings, ended: threading.Event) -> JobStore | None:
    """Wait until nobody leads. None: this process is to end."""
    announce(RunningCluster(os.getpid(), settings.directory, None))
    _log.info("stands by for the cluster with the jobs in %s", settings.directory)
    while not ended.wait(_LOCK_S):
        with contextlib.suppress(ConfigurationError):
            return JobStore(Path(settings.directory))
    return None


def _lead(session: SparkSession, store: JobStore, settings: ClusterSettings, ended: threading.Event) -> None:
    server = TokenServer(preferring(store.port(), settings.ports), os.environ, _REQUEST_S, store.token())
    try:
        store.keep_port(server.port)
        host = DispatcherHost(session, store)
        host.start()
        server.start(lambda: _application(host, server), lambda: None, _LOOK_S)
        announce(RunningCluster(os.getpid(), settings.directory, server.address))
        _log.info("serves at %s, with %d slots; jobs are in %s", server.address.url, host.slots, store.directory)
        while not ended.wait(_LOOK_S):
            if jvm_has_ended():
                _log.error("Spark's JVM has ended: killed, or out of memory. The next start goes on with the jobs")
                break
            if host.has_ended:
                _log.error("the cluster can't go on, by the error above. The next start goes on with the jobs")
                break
        host.close()
    finally:
        server.close()


def _application(host: DispatcherHost, server: TokenServer) -> ASGIApp:
    app = guarded([*submission_paths.routes, *job_paths.routes, *own_page.routes], server.token, server.cookie)
    app.state.dispatcher = host
    return app


if __name__ == "__main__":
    main()
