"""A session that starts before the job that needs it is known, while its program still imports, parses and plans.

Most of a start is the JVM's, and then that of the process from which workers are forked: both start meanwhile.
Only on a local master: a cluster gives an application as many slots as its job needs.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration, options
from penstock.hosts.logs.settings import LogSettings
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.session import keeps_session, session_for, spark_settings
from penstock.hosts.spark.internals.settings import PER_QUERY
from penstock.hosts.spark.job_files import PRELOADED
from penstock.hosts.spark.worker.first_task import no_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTLE_S = 20.0
_log = logging.getLogger(__name__)


class EarlySession:
    """Starts a session in a thread, and then the process from which workers are forked. Raises nothing.

    A start that fails is tried again by the first job, which reports the error. A job with other settings of Spark, or
    with more slots, replaces the session. `logs`: of the first job. `preloaded`: modules that workers will import.
    """

    def __init__(self, configuration: Configuration, logs: LogSettings | None, preloaded: Sequence[str] = ()) -> None:
        self._configuration = configuration
        self._logs = logs
        self._preloaded = preloaded
        self._thread = threading.Thread(target=self._start, name="penstock-early-session", daemon=True)

    def begin(self) -> bool:
        """Return at once whether it starts. Jobs wait for the lock of HELD_SLOTS until there is a session."""
        starts = is_local(self._configuration)
        if starts:
            self._thread.start()
        return starts

    def settle(self) -> None:
        """Call this before the program ends: a kept JVM that is given back in the middle of a start would end."""
        if self._thread.is_alive() and keeps_session(self._configuration, os.environ):
            self._thread.join(_SETTLE_S)

    def _start(self) -> None:
        try:
            with HELD_SLOTS.lock:
                session = session_for(1, True, self._configuration, None, logs=self._logs)
                # Before a job has workers: Spark forks those with other variables from another process.
                session.sparkContext.environment[PRELOADED] = ",".join(self._preloaded)
            start_daemon(session)
        except Exception as error:
            _log.debug("a session that is started early was not started: %s", error)


def is_local(configuration: Configuration) -> bool:
    """Return whether jobs of this program run on Spark in its own JVM."""
    master = spark_settings(configuration).get("spark.master", "local")
    return configuration.get(options.TARGET) == "local" and master.startswith("local")


def start_daemon(session: SparkSession) -> None:
    """Run a task without rows, for which Spark starts the process that all workers with its variables are forked from.

    Its settings are those of pipelined jobs, as some become variables of workers.
    """
    for key, value in PER_QUERY.items():
        session.conf.set(key, value)
    rows = session.range(1, numPartitions=1).mapInArrow(no_rows, "id long")
    rows.write.format("noop").mode("overwrite").save()
