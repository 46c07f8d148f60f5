"""The job that a standby runs, so that its JVM has compiled what it needs before it leads."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.job_id import JobID
from penstock.hosts.spark.internals.shared_context import address_of, cancel_tagged
from penstock.hosts.spark.job_tag import job_tag
from penstock.service.dispatcher.events import SlotsAnswer, SlotsWanted
from penstock.service.dispatcher.link import FromJob
from penstock.service.dispatcher.supervised_process import SupervisedProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


class WarmUp:
    """The warm-up of one process. `folder` has the job, as a client packs it. It starts at once, and ends by itself."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._id = str(JobID.generate())
        self._process: SupervisedProcess | None = None
        try:
            self._process = SupervisedProcess(
                self._id, folder, str(folder), address_of(session), 0, "", self._received, lambda how: None
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
