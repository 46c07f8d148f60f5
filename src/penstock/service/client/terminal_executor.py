"""Run the jobs of a program started with `python`, and show a line on a terminal while a job starts.

Until the first record arrives, most of the time is Spark's start. The line is shown during that time, and removed when
the job runs: from then on the terminal is the program's own. `penstock run` shows more.
"""

from __future__ import annotations

import threading
import time

from penstock.common.job_client import JobClient
from penstock.common.job_status import JobStatus
from penstock.common.text.quantities import as_duration
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.live_line import LiveLine
from penstock.service.client.rest_client import UnreachableError

_EVERY_S = 0.5


class TerminalExecutor(PipelineExecutor):
    """Pass a job to `executor`, and show on `line` that it starts."""

    def __init__(self, executor: PipelineExecutor, line: LiveLine, every_s: float = _EVERY_S) -> None:
        self._executor = executor
        self._line = line
        self._every_s = every_s

    def execute(self, submission: Submission) -> JobClient:
        """Start the job. Raises what the executor raises."""
        start = _Start(submission.graph.name, self._line, self._every_s)
        try:
            client = start.client = self._executor.execute(submission)
        except BaseException:
            start.end()
            raise
        return client


class _Start:
    """The line of one job, which a thread of its own updates until the job runs or has ended."""

    def __init__(self, name: str, line: LiveLine, every_s: float) -> None:
        self.client: JobClient | None = None
        self._name = name
        self._line = line
        self._every_s = every_s
        self._began_s = time.monotonic()
        self._ended = threading.Event()
        line.__enter__()
        self._ticker = threading.Thread(target=self._tick, name="penstock-start-line", daemon=True)
        self._ticker.start()

    def end(self) -> None:
        """The job did not start: its error follows."""
        self._ended.set()
        self._ticker.join()

    def _tick(self) -> None:
        while not self._ended.is_set() and self._starts():
            took = as_duration((time.monotonic() - self._began_s) * 1000)
            self._line.show(f"job '{self._name}' starts … {took}")
            self._ended.wait(self._every_s)
        self._line.__exit__(None, None, None)

    def _starts(self) -> bool:
        client = self.client
        try:
            return client is None or client.get_job_status().result() is JobStatus.CREATED
        except UnreachableError:
            # The caller that waits for the job gets its error.
            return False
