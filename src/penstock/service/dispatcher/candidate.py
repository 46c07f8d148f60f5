"""A process of a cluster with an elected leader: it is a standby, then leads, and ends when it no longer leads."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.job_id import JobID
from penstock.hosts.spark.driver.session import start_session
from penstock.hosts.spark.internals.shared_context import address_of, cancel_tagged
from penstock.hosts.spark.job_files import job_tag
from penstock.service.cluster.high_availability.election import Election
from penstock.service.cluster.high_availability.services import checked_folder, register_of
from penstock.service.cluster.running_cluster import RunningCluster, announce, withdraw
from penstock.service.dispatcher.cluster_settings import ClusterSettings
from penstock.service.dispatcher.events import SlotsAnswer, SlotsWanted
from penstock.service.dispatcher.job_states import FencedStates
from penstock.service.dispatcher.job_store import JobStore
from penstock.service.dispatcher.leader import rest_server, run_leader
from penstock.service.dispatcher.leadership_lease import LeadershipLease
from penstock.service.dispatcher.link import FromJob
from penstock.service.dispatcher.supervised_process import SupervisedProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S = 0.5
_log = logging.getLogger(__name__)


class Candidate:
    """`configuration`: of high availability. `ended`: set when the process must end.

    Raises ConfigurationError if a setting is missing.
    """

    def __init__(self, settings: ClusterSettings, configuration: Configuration, ended: threading.Event) -> None:
        self._settings = settings
        self._ended = ended
        self._folder = checked_folder(configuration)
        self._register = register_of(configuration)
        self._lease = LeadershipLease(self._register.lease_ms)
        self._warm_up: WarmUp | None = None
        self._terms: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run(self) -> None:
        """Return when the process must end. A leader that is deposed ends the process at once, with status 1."""
        # Start Spark before the election, so that a new leader has it at once.
        session = start_session(self._settings.slots, self._settings.spark)
        election = Election(self._register, self._terms.put, self._lease.extend, self._deposed)
        election.start()
        try:
            term = self._wait(session)
            if term is not None:
                if self._warm_up is not None:
                    self._warm_up.end()
                _log.info("this process leads the cluster, in term %d", term)
                store = JobStore(self._folder, FencedStates(self._folder, term, self._register.pointers()))
                server = rest_server(store, self._settings)
                run_leader(
                    session,
                    store,
                    server,
                    self._settings,
                    ended=self._ended,
                    lease=self._lease,
                    deposed=self._deposed,
                    publish=election.publish,
                )
        finally:
            # Leave the election last: by now the processes of jobs have ended.
            election.stop()

    def _wait(self, session: SparkSession) -> int | None:
        """Return the term that this process leads, or None if it must end."""
        known = None
        while not self._ended.is_set():
            with contextlib.suppress(queue.Empty):
                return self._terms.get(timeout=_LOOK_S)
            with contextlib.suppress(OSError):
                leader = self._register.leader()
                if leader is not None and leader != known:
                    if known is None and self._settings.warm_up:
                        self._warm_up = WarmUp(session, Path(self._settings.warm_up))
                    known = leader
                    announce(RunningCluster(os.getpid(), self._settings.directory, None))
                    _log.info(
                        "this process is a standby: term %d is led by process %d on %s",
                        leader.term,
                        leader.pid,
                        leader.host,
                    )
        return None

    def _deposed(self, why: str) -> None:
        _log.error(
            "this process no longer leads the cluster, and ends with the processes of its jobs: %s. The new leader "
            "resumes the jobs. If this process is restarted, it becomes a standby",
            why,
        )
        withdraw(os.getpid())
        logging.shutdown()
        sys.stderr.flush()
        # At once: nothing else may happen here. Processes of jobs end with their link, Spark with its driver.
        os._exit(1)


class WarmUp:
    """The warm-up of one process. `folder` has the job, as a client packs it. It starts immediately."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._id = str(JobID.generate())
        self._process: SupervisedProcess | None = None
        try:
            self._process = SupervisedProcess(
                id=self._id,
                folder=folder,
                working_directory=str(folder),
                jvm=address_of(session),
                until_ms=0,
                resumes="",
                received=self._received,
                ended=lambda how: None,
            )
        except OSError as error:
            # Without it, the first job only takes longer to start.
            _log.warning("the warm-up of this standby has failed: %s", error)

    def end(self) -> None:
        """Cancel it, if it still runs: its slot is needed."""
        if self._process is not None:
            self._process.kill()
            cancel_tagged(self._session, job_tag(self._id))

    def _received(self, message: FromJob) -> None:
        if isinstance(message, SlotsWanted) and self._process is not None:
            self._process.send(SlotsAnswer(self._id, True, 0))
