"""Run the jobs of a program, and print what the user wants to know of each: its start, its progress, its end."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType

from penstock.common.configuration import options, rest_options
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.text.one_line import on_one_line
from penstock.common.text.quantities import as_duration
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.executor_loader import load_executor
from penstock.service.client.job_progress import UNREACHABLE, JobProgress, ProgressMeter
from penstock.service.client.live_line import LiveLine
from penstock.service.client.remote_job import LOST_S
from penstock.service.cluster.rest_address import RestAddress, shown_address
from penstock.service.cluster.running_dashboard import dashboard_urls

_LIVE_EVERY_S = 0.5
_JSON_EVERY_S = 5.0
_FIRST_LINE_S = 2.0
_LINES_EVERY_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Job:
    """A job that the program has executed. `client` is None until the job has started."""

    meter: ProgressMeter
    client: JobClient | None = None
    outlives: bool = False
    """Whether the job keeps running after the program has ended."""
    is_lost: bool = False
    """Whether its cluster does not answer."""

    def __str__(self) -> str:
        return f"{self.meter.job_id[:8]} '{self.meter.name}'".lstrip()


class WatchedExecutor(PipelineExecutor):
    """Pass jobs to `executor`, or to the one that `execution.target` names, and report on them on standard error.

    Prints a line at the start and at the end of a job, and on a terminal a live line in between. With `as_json`, prints
    each event as a JSON object on a line of its own, and progress every five seconds. With `quiet`, prints nothing.
    The live line shows `program` while no job runs. `is_interrupted` returns whether a Ctrl-C waits until Spark has
    started. `rest_ports` is the `rest.bind-port` of jobs that do not set it. `first_job_id`: that of the first job, if
    it is new. `in_lines`: without a terminal, print the live line at times, as a line of its own. `look_s`: how often
    the line is updated.
    """

    def __init__(
        self,
        program: str,
        quiet: bool = False,
        as_json: bool = False,
        executor: PipelineExecutor | None = None,
        is_interrupted: Callable[[], bool] = lambda: False,
        rest_ports: str | None = None,
        *,
        first_job_id: str = "",
        in_lines: bool = False,
        look_s: float = _LIVE_EVERY_S,
    ) -> None:
        self.jobs = 0
        """Number of jobs that the program has executed."""
        self._executor = executor
        self._program = program
        self._quiet = quiet
        self._as_json = as_json
        self._is_interrupted = is_interrupted
        self._rest_ports = rest_ports
        self._next_job_id = first_job_id
        self._look_s = look_s
        self._next_line_s = _FIRST_LINE_S if in_lines and not as_json else None
        self._began_s = time.monotonic()
        self._line = LiveLine()
        self._running: list[_Job] = []
        self._lock = threading.RLock()
        self._rest: RestAddress | None = None
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="penstock-live-line", daemon=True)

    def __enter__(self) -> WatchedExecutor:
        if not self._quiet:
            self._line.__enter__()
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if not self._quiet:
            self._ticker.join()
            self._line.__exit__(kind, error, trace)
        with self._lock:
            for job in self._running:
                if job.outlives:
                    self._detached(job)
                elif job.client is not None:
                    # Rows of a query raise the job's error before the job is known to have ended.
                    why = "failed" if isinstance(error, Exception) else "ended without waiting for it"
                    text = f"job {job} ends, because the program has {why}"
                    self._report("abandoned", text, {"job_id": job.meter.job_id, "name": job.meter.name})
            self._running.clear()

    def execute(self, submission: Submission) -> JobClient:
        """Report that the job starts, and start it. Raises what the executor raises."""
        self.jobs += 1
        job = _Job(ProgressMeter(submission.graph, time.monotonic()))
        with self._lock:
            self._running.append(job)
        try:
            executor = self._executor or load_executor(submission.configuration, is_watched=True)
            client = executor.execute(
                replace(
                    submission,
                    on_taken=lambda job_id: self._accepted(submission, job_id),
                    on_start=lambda job_id: self._starts(job, submission, job_id),
                    on_waiting=lambda job_id, why: self._waits(job, submission, job_id, why),
                    on_rest=self._serves,
                    rest_ports=self._rest_ports,
                    job_id=submission.job_id or self._take_job_id(),
                )
            )
        except BaseException:
            with self._lock:
                self._running.remove(job)
            raise
        job.client = client
        configuration = submission.configuration
        job.outlives = configuration.get(options.TARGET) == "remote"
        if job.outlives and not configuration.get(rest_options.ATTACHED):
            with self._lock:
                self._running.remove(job)
            self._detached(job)
            return client
        client.when_ended(lambda: self._ended(job))
        return client

    def _take_job_id(self) -> str:
        with self._lock:
            taken, self._next_job_id = self._next_job_id, ""
        return taken

    def _accepted(self, submission: Submission, job_id: JobID) -> None:
        # Only for programs, which need the id early: a person sees the line about waiting or starting.
        if self._as_json:
            self._report("taken", "", {"job_id": str(job_id), "name": submission.graph.name})

    def _starts(self, job: _Job, submission: Submission, job_id: JobID) -> None:
        graph = submission.graph
        job.meter.job_id = str(job_id)
        mode = graph.mode.name
        slots = f"{graph.slots} slot{'s'[: graph.slots > 1]}"
        self._report(
            "starting",
            f"job {job_id} '{graph.name}' starts: {mode}, {slots}",
            {"job_id": str(job_id), "name": graph.name, "mode": mode, "slots": graph.slots},
        )

    def _waits(self, job: _Job, submission: Submission, job_id: JobID, why: str) -> None:
        job.meter.job_id = str(job_id)
        name = submission.graph.name
        figures: dict[str, object] = {"job_id": str(job_id), "name": name, "waiting": why}
        text = f"job {job_id} '{name}' {why}"
        if self._quiet:
            # Printed even if quiet: the job may wait for hours without any other line.
            _log.warning("%s", text)
        self._report("waiting", text, figures)

    def _detached(self, job: _Job) -> None:
        text = f"job {job} keeps running in its cluster. Its output: penstock logs {job.meter.job_id[:8]} --output"
        self._report("detached", text, {"job_id": job.meter.job_id})

    def _serves(self, rest: RestAddress) -> None:
        if rest != self._rest:
            # All jobs of the program share the endpoint: report it once.
            self._rest = rest
            figures: dict[str, object] = {"url": rest.url, "token_file": rest.token_file}
            self._report("rest", f"REST: {shown_address(rest)}", figures)
            for url in dashboard_urls():
                self._report("dashboard", f"dashboard: {url}", {"url": url})

    def _ended(self, job: _Job) -> None:
        with self._lock:
            if job not in self._running:
                return
            self._running.remove(job)
        assert job.client is not None
        progress = job.meter.measure(job.client)
        self._report("ended", progress.as_end(), progress.as_dict())
        if job.outlives and progress.status != UNREACHABLE:
            # Workers are children of the cluster's JVM, so their output does not reach this terminal.
            text = f"the output of its functions is on the cluster's machine: penstock logs {job.meter.job_id[:8]}"
            self._report("logs", text, {"job_id": job.meter.job_id})

    def _tick(self) -> None:
        every_s = _JSON_EVERY_S if self._as_json else self._look_s
        while not self._closed.wait(every_s):
            with self._lock:
                running = list(self._running)
            lines = []
            for job in running:
                if job.client is None:
                    doing = "canceling" if self._is_interrupted() else "starting"
                    lines.append(f"{job} {doing} {as_duration(job.meter.running_ms())}")
                    continue
                progress = job.meter.measure(job.client)
                lines.append(progress.as_line())
                self._notice_reach(job, progress)
                if self._as_json:
                    self._report("progress", "", progress.as_dict())
            if not running:
                lines.append(f"{self._program} {as_duration((time.monotonic() - self._began_s) * 1000)}")
            if not self._as_json:
                self._show("  |  ".join(lines))

    def _show(self, text: str) -> None:
        """Show the live line; without a terminal, print it after 2 s, 4 s, 8 s and so on, and then every minute."""
        self._line.show(text)
        if self._line.is_on or self._next_line_s is None:
            return
        now_s = time.monotonic() - self._began_s
        if now_s >= self._next_line_s:
            self._next_line_s = now_s + min(now_s, _LINES_EVERY_S)
            self._report("", text, {})

    def _notice_reach(self, job: _Job, progress: JobProgress) -> None:
        """Report once that the cluster of a job does not answer, and once that it does again."""
        is_lost = progress.status == UNREACHABLE
        if is_lost and not job.is_lost:
            text = f"job {job}: its cluster does not answer. Retrying for {LOST_S:.0f} s"
            self._report("unreachable", text, {"job_id": job.meter.job_id})
        elif job.is_lost and not is_lost:
            self._report("reachable", f"job {job}: its cluster answers again", {"job_id": job.meter.job_id})
        job.is_lost = is_lost

    def _report(self, event: str, text: str, figures: dict[str, object]) -> None:
        if self._quiet:
            return
        # Looked up at each call: on a terminal, LiveLine replaces sys.stderr while it is shown.
        stream = sys.stderr
        # The reader may have gone (`2>&1 | head`): the job and the reporting threads must continue.
        with suppress(OSError):
            stream.write((json.dumps({"event": event, **figures}) if self._as_json else on_one_line(text)) + "\n")
            stream.flush()
