"""The Spark session of one job, for all of its attempts.

If a session that the user has started is lost, the job fails: penstock does not know what the user had set up in it. A
session that penstock has started is replaced by the next attempt. If the replacement does not start, that attempt
fails, and the restart strategy decides about the next one.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.errors import MasterUnreachableError, NotEnoughSlotsError, SparkLostError
from penstock.hosts.logs.settings import LogSettings
from penstock.hosts.spark.driver import session as sessions
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.failures import cause_in
from penstock.hosts.spark.internals.jvm import is_alive, jvm_has_ended, was_stopped_by_spark
from penstock.hosts.spark.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send_bundle(session: SparkSession, bundle: Path | None) -> None:
    """Have Spark send a job's bundle to each executor of this session that runs a task, including later executors.

    `bundle`: None if the job has no bundle. May be called again.
    """
    if bundle is None:
        return
    context = session.sparkContext
    # Equal names mean equal content, and Spark rejects a second file with the same name.
    if not any(uri.rsplit("/", 1)[-1] == bundle.name for uri in context.listFiles):
        context.addFile(str(bundle))


_NO_FILES = JobFiles()
_log = logging.getLogger(__name__)


class JobSession:
    """Provide the Spark session of a job, which needs at least `slots` slots.

    `files`: the files that workers set up; `bundle`: the file that contains them; `logs`: the settings of the job's
    logs.
    """

    def __init__(
        self,
        session: SparkSession,
        configuration: Configuration,
        *,
        files: JobFiles = _NO_FILES,
        bundle: Path | None = None,
        logs: LogSettings | None = None,
        slots: int = 0,
    ) -> None:
        self.files = files
        self._is_replaceable = session is sessions.started_session
        """Whether penstock has started the session."""
        self._settings = sessions.spark_settings(configuration)
        self._start_timeout_s = sessions.start_timeout_s(configuration)
        self._bundle = bundle
        self._logs = logs
        self._slots = slots
        self._use(session)

    def current(self) -> SparkSession:
        """Return a session that runs. Takes seconds if it starts a new one.

        Raises SessionLostError if the user's session was stopped or has lost its JVM, or if the program has stopped
        penstock's session; SparkLostError, MasterUnreachableError or NotEnoughSlotsError if a new session did not
        start. The next call tries again then.
        """
        with HELD_SLOTS.lock:
            if self._is_replaceable:
                self._replace_if_lost()
            else:
                _check(self._session)
            return self._session

    def running(self) -> SparkSession:
        """Return the session without replacing a lost one, which only the next attempt does. For any thread.

        Raises SparkLostError if the session is lost.
        """
        session = sessions.started_session if self._is_replaceable else self._session
        if session is None or jvm_has_ended() or not is_alive(session):
            raise SparkLostError("the Spark session of the job is lost; its next attempt starts one")
        return session

    def _replace_if_lost(self) -> None:
        """Use the session that penstock has started, or start a new one. Another job may have replaced a lost one."""
        started = sessions.started_session
        if started is not None and jvm_has_ended():
            _log.warning("Spark's JVM has ended (killed, or out of memory): starting a new session")
            sessions.forget_started_session()
            started = None
        elif started is not None and was_stopped_by_spark(started):
            _log.warning("Spark has stopped the session, as when its master is lost: starting a new one")
            started = None
        if started is not None and not is_alive(started):
            raise sessions.session_lost("was stopped")
        if started is self._session:
            return
        try:
            slots = max(HELD_SLOTS.total, self._slots)
            timeout_s = self._start_timeout_s
            self._use(started or sessions.start_session(slots, self._settings, logs=self._logs, timeout_s=timeout_s))
        except (MasterUnreachableError, NotEnoughSlotsError):
            raise
        except Exception as error:
            # Not a configuration error: the previous session was started with the same settings.
            text = f"a new Spark session could not be started: {cause_in(str(error))}"
            raise SparkLostError(text) from error

    def _use(self, session: SparkSession) -> None:
        send_bundle(session, self._bundle)
        self._session = session


def _check(session: SparkSession) -> None:
    """Raise SessionLostError if a session of the user's is lost."""
    if was_stopped_by_spark(session):
        raise sessions.session_lost("was stopped by Spark, as when its master is lost")
    if not is_alive(session):
        raise sessions.session_lost("was stopped")
    if jvm_has_ended():
        raise sessions.session_lost(sessions.JVM_LOST)
