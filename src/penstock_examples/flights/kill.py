"""Kills one of the job's Python workers part-way (`kill -9`), and observes how the job recovers."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from penstock.common.job_status import JobStatus
from penstock_examples.flights.job import SOURCE

_PART = 1 / 3
_POLL_S = 0.02
_WORKER = "-m penstock.hosts.spark.worker.daemon"


class Kill:
    """Context manager that waits for a third of the reports and a checkpoint, then kills.

    Call `result` for each result.
    """

    def __init__(self, client: Any, total: int, announce: Callable[[int], object] = lambda pid: None) -> None:
        """`announce` is given the worker before it is killed."""
        self.pid: int | None = None
        """Process id of the killed worker; None if the stream ended before."""
        self.read = 0
        """Number of reports the source had read by then."""
        self.checkpoint_id = 0
        """The checkpoint from which the job recovered."""
        self.flowing_s: float | None = None
        """Time from the kill until the last operator received records again, by its counter; None if it never did."""
        self.results_s: float | None = None
        """Time from the kill until a result computed after it was returned; None if there was none."""
        self._announce = announce
        self._client = client
        self._total = total
        self._killed_s = 0.0
        self._runs_again = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kill", daemon=True)

    def __enter__(self) -> Kill:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def result(self) -> None:
        """Record that a result was returned."""
        if self._runs_again and self.results_s is None:
            self.results_s = time.monotonic() - self._killed_s

    def _watch(self) -> None:
        if not self._until(self._is_time):
            return
        found = workers()
        if not found:
            return
        self._announce(found[-1])
        self._killed_s = time.monotonic()
        os.kill(found[-1], signal.SIGKILL)
        self.pid = found[-1]
        if not self._until(lambda: self._status() is not JobStatus.RUNNING):
            return
        self.checkpoint_id = self._client.get_checkpoints()[-1].checkpoint_id
        # Results of completed checkpoints are returned before the job runs again: all later results are new.
        self._runs_again = self._until(lambda: self._status() is JobStatus.RUNNING)
        # Old tasks no longer report: a counter that changes belongs to a new task.
        before = self._arrived()
        if self._runs_again and self._until(
            lambda: any(0 < count != before.get(subtask) for subtask, count in self._arrived().items())
        ):
            self.flowing_s = time.monotonic() - self._killed_s

    def _is_time(self) -> bool:
        self.read = self._client.get_metrics().get(SOURCE, {}).get("numRecordsOut", 0)
        return self.read >= self._total * _PART and bool(self._client.get_checkpoints())

    def _arrived(self) -> dict[int, int]:
        """Return the number of records received by each subtask of the last operator."""
        reports = self._client.get_vertex_metrics()[-1].subtasks
        return {report.subtask: report.operators[-1].records_in for report in reports}

    def _status(self) -> JobStatus:
        status: JobStatus = self._client.get_job_status().result()
        return status

    def _until(self, happened: Any) -> bool:
        """Wait for a condition; return False if the job ends first."""
        while not happened():
            if self._over.wait(_POLL_S) or self._status().is_globally_terminal_state():
                return False
        return True


def workers() -> list[int]:
    """Return the Python workers of Spark: forked by a daemon that is a descendant of this process."""
    lines = subprocess.check_output(["ps", "-ww", "-eo", "pid=,ppid=,args="], text=True).splitlines()
    processes = [line.split(None, 2) for line in lines]
    parents = {int(pid): int(parent) for pid, parent, *_ in processes}
    daemons = {int(pid) for pid, _, *command in processes if command and _WORKER in command[0]}
    return sorted(pid for pid in daemons if parents[pid] in daemons and os.getpid() in _ancestors(pid, parents))


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found
