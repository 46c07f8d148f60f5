"""Run the jobs of a notebook, each with a line below its cell that shows progress and, finally, how the job ended.

The line is updated even after the cell has ended, as after `execute_async`: Jupyter's displays have ids.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.text.quantities import as_duration
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.job_progress import ProgressMeter

_EVERY_S = 1.0

Display = Callable[[str], Callable[[str], None]]
"""Show a text, and return a function that replaces it."""


def notebook_display() -> Display | None:
    """Return how to show a text in the notebook of this process, or None if it is not a notebook."""
    # A notebook's kernel has imported IPython; other programs need not import it for this check.
    interactive: Any = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    # IPython in a terminal has no kernel.
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    display: Any = import_module("IPython.display").display

    def show(text: str) -> Callable[[str], None]:
        handle = display({"text/plain": text}, raw=True, display_id=True)
        return lambda later: handle.update({"text/plain": later}, raw=True)

    return show


class NotebookExecutor(PipelineExecutor):
    """Pass jobs to `executor`, and show each of them with `display`."""

    def __init__(self, executor: PipelineExecutor, display: Display, every_s: float = _EVERY_S) -> None:
        self._executor = executor
        self._display = display
        self._every_s = every_s

    def execute(self, submission: Submission) -> JobClient:
        """Start the job. Raises what the executor raises."""
        shown = _ShownJob(ProgressMeter(submission.graph, time.monotonic()), self._display, self._every_s)
        try:
            client = self._executor.execute(replace(submission, on_start=shown.starts))
        except BaseException:
            shown.refused()
            raise
        shown.runs(client)
        return client


class _ShownJob:
    """The line of one job, which a thread of its own updates."""

    def __init__(self, meter: ProgressMeter, display: Display, every_s: float) -> None:
        self._meter = meter
        self._display = display
        self._every_s = every_s
        self._update: Callable[[str], None] | None = None
        self._client: JobClient | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def starts(self, job_id: JobID) -> None:
        self._meter.job_id = str(job_id)
        self._update = self._display(self._starting())
        threading.Thread(target=self._tick, name="penstock-notebook", daemon=True).start()

    def runs(self, client: JobClient) -> None:
        self._client = client
        client.when_ended(self._show_end)

    def refused(self) -> None:
        self._ended.set()
        with self._lock:
            if self._update is not None:
                self._update(f"{self._name()} was not started")

    def _tick(self) -> None:
        while not self._ended.wait(self._every_s):
            client = self._client
            text = self._starting() if client is None else self._meter.measure(client).as_line()
            # The last line is not replaced again.
            with self._lock:
                if self._update is not None and not self._ended.is_set():
                    self._update(text)

    def _show_end(self) -> None:
        self._ended.set()
        assert self._client is not None and self._update is not None
        with self._lock:
            self._update(self._meter.measure(self._client).as_end())

    def _starting(self) -> str:
        return f"{self._name()} starting {as_duration(self._meter.running_ms())}"

    def _name(self) -> str:
        return f"job {self._meter.job_id} '{self._meter.name}'"
