"""JobListener: receives notifications when a program's jobs are submitted and when they have ended."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult

_log = logging.getLogger(__name__)


class JobListener(ABC):
    """Receives notifications. Register it with `StreamExecutionEnvironment.register_job_listener`.

    In each call one of the two arguments is None. An exception of a listener is logged and has no other effect. Source:
    Flink's Java API, JobListener.
    """

    @abstractmethod
    def on_job_submitted(self, job_client: JobClient | None, throwable: BaseException | None) -> None:
        """Act on a submission: `job_client` if it succeeded, else `throwable`."""

    @abstractmethod
    def on_job_executed(self, job_execution_result: JobExecutionResult | None, throwable: BaseException | None) -> None:
        """Act on the end of a job for which `execute` has waited: its result, or the error. Not for `execute_async`."""


class JobListeners:
    """The listeners of one environment, notified in the order of registration."""

    def __init__(self) -> None:
        self._listeners: list[JobListener] = []

    @property
    def is_empty(self) -> bool:
        """Whether the environment lacks listeners."""
        return not self._listeners

    def add(self, listener: JobListener) -> None:
        """Add a listener. Raises TypeError if it is not a JobListener."""
        if not isinstance(listener, JobListener):
            raise TypeError(f"expected a JobListener, got {listener!r}")
        self._listeners.append(listener)

    def clear(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()

    def submitted(self, client: JobClient | None, error: BaseException | None = None) -> None:
        """Notify the listeners of a submission."""
        self._notify(lambda listener: listener.on_job_submitted(client, error))

    def executed(self, result: JobExecutionResult | None, error: BaseException | None = None) -> None:
        """Notify the listeners of the end of a job."""
        self._notify(lambda listener: listener.on_job_executed(result, error))

    def _notify(self, call: Callable[[JobListener], None]) -> None:
        for listener in self._listeners:
            try:
                call(listener)
            except Exception:
                _log.exception("the job listener %r failed", listener)
