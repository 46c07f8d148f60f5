"""JobListener: told when a program's jobs are submitted and when they have ended."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult

_log = logging.getLogger(__name__)


class JobListener(ABC):
    """Register it with `StreamExecutionEnvironment.register_job_listener`. Source: Flink's Java API, JobListener.

    Of each pair of arguments one is None. What a listener raises is logged, and changes nothing.
    """

    @abstractmethod
    def on_job_submitted(self, job_client: JobClient | None, throwable: BaseException | None) -> None:
        """A job was submitted, or could not be."""

    @abstractmethod
    def on_job_executed(self, job_execution_result: JobExecutionResult | None, throwable: BaseException | None) -> None:
        """`execute` has waited for the end of a job, which succeeded or failed. Not called after `execute_async`."""


class JobListeners:
    """Those of one environment, told in the order of their registration."""

    def __init__(self) -> None:
        self._listeners: list[JobListener] = []

    def add(self, listener: JobListener) -> None:
        """Add a listener. Raises TypeError if it is none."""
        if not isinstance(listener, JobListener):
            raise TypeError(f"expected a JobListener, got {listener!r}")
        self._listeners.append(listener)

    def clear(self) -> None:
        """Forget all."""
        self._listeners.clear()

    def submitted(self, client: JobClient | None, error: BaseException | None = None) -> None:
        """Tell them of a submission."""
        self._tell(lambda listener: listener.on_job_submitted(client, error))

    def executed(self, result: JobExecutionResult | None, error: BaseException | None = None) -> None:
        """Tell them of the end of a job."""
        self._tell(lambda listener: listener.on_job_executed(result, error))

    def _tell(self, call: Callable[[JobListener], None]) -> None:
        for listener in self._listeners:
            try:
                call(listener)
            except Exception:
                _log.exception("the job listener %r failed", listener)
