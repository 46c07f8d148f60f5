"""The Spark session of one job through all of its attempts.

A session of the user's that is gone is gone: nothing here knows what its user had set up in it. One that penstock has
started is started again for each attempt that finds none, and a start that fails is a failure of that attempt: whether
another one follows is the restart strategy's to decide.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.errors import MasterUnreachableError, NotEnoughSlotsError, SparkLostError
from penstock.hosts.logs.settings import LogSettings
from penstock.hosts.spark.driver import session as sessions
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.failures import cause_in
from penstock.hosts.spark.internals.jvm import is_alive, jvm_has_ended, was_stopped_by_spark
from penstock.hosts.spark.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Sends a job's bundle to the executors: by Spark, which gives it to each that runs a task, also to later ones.


def ship(session: SparkSession, bundle: Path | None) -> None:
    """Let executors of this session have the file from now on; None: there is none. May be called again."""
    if bundle is None:
        return
    context = session.sparkContext
    # By its name, which stands for its content: Spark refuses a second file of one name.
    if not any(uri.rsplit("/", 1)[-1] == bundle.name for uri in context.listFiles):
        context.addFile(str(bundle))


_NO_FILES = JobFiles()
_log = logging.getLogger(__name__)


class JobSession:
    """Of one job, which needs so many `slots` at least.

    `files`: what travels with the job; `bundle`: the file with it, if there is one; `logs`: of the job.
    """

    def __init__(
        self,
        session: SparkSession,
        configuration: Configuration,
        files: JobFiles = _NO_FILES,
        bundle: Path | None = None,
        logs: LogSettings | None = None,
        slots: int = 0,
    ) -> None:
        self.files = files
        self._is_own = session is sessions.own_session
        self._settings = sessions.spark_settings(configuration)
        self._start_timeout_s = sessions.start_timeout_s(configuration)
        self._bundle = bundle
        self._logs = logs
        self._slots = slots
        self._use(session)

    def now(self) -> SparkSession:
        """The session. Takes seconds if a new one is started.

        Raises SessionLostError if it is the user's own and was stopped, or has lost its JVM, and if the program has
        stopped one of penstock's own; SparkLostError, MasterUnreachableError or NotEnoughSlotsError if a new one could
        not be started: the next call tries it again.
        """
        with HELD.lock:
            if self._is_own:
                self._follow()
            else:
                _check(self._session)
            return self._session

    def running(self) -> SparkSession:
        """The session as it is, from any thread: a lost one is started by the next attempt alone, which waits for it.

        Raises SparkLostError if there is none.
        """
        session = sessions.own_session if self._is_own else self._session
        if session is None or jvm_has_ended() or not is_alive(session):
            raise SparkLostError("the Spark session of the job is lost; its next attempt starts one")
        return session

    def _follow(self) -> None:
        """Use penstock's own session as it is now: another job of this process may have replaced it already."""
        own = sessions.own_session
        if own is not None and jvm_has_ended():
            _log.warning("Spark's JVM has ended (killed, or out of memory): a new session is started")
            sessions.forget_own_session()
            own = None
        elif own is not None and was_stopped_by_spark(own):
            _log.warning("Spark has stopped the session, as when its master is lost: a new one is started")
            own = None
        if own is not None and not is_alive(own):
            raise sessions.lost("was stopped")
        if own is self._session:
            return
        try:
            slots = max(HELD.total, self._slots)
            timeout_s = self._start_timeout_s
            self._use(own or sessions.start_session(slots, self._settings, self._logs, timeout_s=timeout_s))
        except (MasterUnreachableError, NotEnoughSlotsError):
            raise
        except Exception as error:
            # Whatever it is: the session before was started with the same settings.
            text = f"a new Spark session could not be started: {cause_in(str(error))}"
            raise SparkLostError(text) from error

    def _use(self, session: SparkSession) -> None:
        ship(session, self._bundle)
        self._session = session


def _check(session: SparkSession) -> None:
    """Raise SessionLostError if a session of the user's is gone."""
    if was_stopped_by_spark(session):
        raise sessions.lost("was stopped by Spark, as when its master is lost")
    if not is_alive(session):
        raise sessions.lost("was stopped")
    if jvm_has_ended():
        raise sessions.lost(sessions.ENDED)
