"""The process of a cluster: one Spark application, a dispatcher, and REST. `penstock cluster start` starts it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, PenstockError
from penstock.common.values.decoding import from_json
from penstock.hosts.logs.format import LogFormat
from penstock.hosts.spark.driver.session import start_session
from penstock.service.cluster.high_availability.services import is_highly_available
from penstock.service.cluster.running_cluster import RunningCluster, announce, withdraw
from penstock.service.dispatcher.candidate import Candidate
from penstock.service.dispatcher.cluster_settings import SETTINGS, ClusterSettings
from penstock.service.dispatcher.job_store import JobStore
from penstock.service.dispatcher.leader import rest_server, run_leader

_LOCK_S = 0.2
_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
_log = logging.getLogger(__name__)


def main() -> None:
    """Run the process.

    Its settings are in the environment, as JSON: every user of the machine can see a command line.
    """
    settings = from_json(os.environ.pop(SETTINGS), ClusterSettings)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormat(_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        run(settings)
    except PenstockError as error:
        print(f"penstock.{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def run(settings: ClusterSettings) -> None:
    """Serve until SIGTERM, or until Spark's JVM ends. Raises PenstockError if the process can't start."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    configuration = Configuration.from_dict(settings.high_availability)
    try:
        if is_highly_available(configuration):
            Candidate(settings, configuration, ended).run()
        else:
            _run_alone(settings, ended)
    finally:
        withdraw(os.getpid())
    # Do not wait for threads of Spark and Py4J; the JVM ends with this process.
    logging.shutdown()
    os._exit(0 if ended.is_set() else 1)


def _run_alone(settings: ClusterSettings, ended: threading.Event) -> None:
    if settings.standby:
        # Start Spark before the lock is free, so that it is ready when it is needed.
        session = start_session(settings.slots, settings.spark)
        standing_by = _stand_by(settings, ended)
        if standing_by is not None:
            run_leader(session, standing_by, rest_server(standing_by, settings), settings, ended=ended)
        return
    store = JobStore(Path(settings.directory))
    # Before Spark, whose start takes seconds, so that an error about ports is reported at once.
    server = rest_server(store, settings)
    try:
        session = start_session(settings.slots, settings.spark)
    except BaseException:
        server.close()
        raise
    run_leader(session, store, server, settings, ended=ended)


def _stand_by(settings: ClusterSettings, ended: threading.Event) -> JobStore | None:
    """Wait until the cluster has no leader. None: this process must end."""
    announce(RunningCluster(os.getpid(), settings.directory, None))
    _log.info("this process is a standby of the cluster with the jobs in %s", settings.directory)
    while not ended.wait(_LOCK_S):
        with contextlib.suppress(ConfigurationError):
            return JobStore(Path(settings.directory))
    return None


if __name__ == "__main__":
    main()
