"""What `penstock sql` starts before it imports the rest: the planner's process, and Spark's session."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from penstock.common.configuration import Configuration
from penstock.common.files.cache_directory import cache_directory
from penstock.common.job_id import JobID
from penstock.hosts.logs.settings import DIRECTORY, log_settings
from penstock.hosts.spark.driver.early_session import EarlySession
from penstock.table.operators.worker_modules import WORKER_MODULES
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process
from penstock.table.planner.statements import begins_job, split_statements

_OF_SPARK = ("'spark.", "'penstock.spark.", "'execution.target'")
"""Beginnings of options of a session: one that is started before a script sets them would be replaced."""


class EarlyStart:
    """Starts what the statements of scripts will need. `settings`: of jobs. Raises nothing: what needs it does."""

    def __init__(self, scripts: Sequence[str], settings: Mapping[str, str]) -> None:
        self.job_id = ""
        """The id that the first job should have, in whose log folder Spark's JVM writes; empty: any."""
        self._session: EarlySession | None = None
        # The planner first: while a session starts, the environment of this process has variables for it.
        with contextlib.suppress(PlannerError):
            shared_process().start()
        if needs_session(scripts):
            # Invalid settings are reported by who reads them next.
            with contextlib.suppress(ValueError):
                self._begin_session(settings)

    def settle(self) -> None:
        """Call this before the program ends."""
        if self._session is not None:
            self._session.settle()

    def _begin_session(self, settings: Mapping[str, str]) -> None:
        configuration = Configuration()
        for key, value in settings.items():
            configuration.set_string(key, value)
        job_id = str(JobID.generate())
        logs = log_settings(configuration, job_id, "sql", cache_directory(os.environ) / DIRECTORY)
        self._session = EarlySession(configuration, logs, WORKER_MODULES)
        if self._session.begin():
            self.job_id = job_id


def needs_session(scripts: Sequence[str]) -> bool:
    """Return whether a session with the settings from outside will be needed."""
    if any(option in script for script in scripts for option in _OF_SPARK):
        return False
    return any(begins_job(statement.sql) for script in scripts for statement in split_statements(script))
