"""Runs the jobs of a program, and tells the user of each: what starts, how far it is, how it ended."""

from __future__ import annotations

import json
import sys
import threading
import time
from types import TracebackType

from penstock.cli.job_progress import ProgressMeter, as_duration
from penstock.cli.live_line import LiveLine
from penstock.client.executor import PipelineExecutor, Submission
from penstock.client.executor_loader import load_executor
from penstock.common.job_client import JobClient

_LIVE_EVERY_S = 0.5
_JSON_EVERY_S = 5.0


class WatchedExecutor(PipelineExecutor):
    """Hands jobs to `executor`, or to the one that `execution.target` names, and writes about them to standard error.

    A line at the start of a job and one at its end; on a terminal one live line in between. `as_json`: each as an
    object of JSON on a line of its own, progress every five seconds. `quiet`: nothing of this. `program` is shown as
    long as no job runs.
    """

    def __init__(
        self, program: str, quiet: bool = False, as_json: bool = False, executor: PipelineExecutor | None = None
    ) -> None:
        self.jobs = 0
        """How many were executed."""
        self._executor = executor
        self._program = program
        self._quiet = quiet
        self._as_json = as_json
        self._began_s = time.monotonic()
        self._line = LiveLine()
        self._running: dict[str, tuple[ProgressMeter, JobClient | None]] = {}
        self._lock = threading.RLock()
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
            for job_id, (meter, client) in self._running.items():
                if client is not None:
                    text = f"job {job_id[:8]} '{meter.name}' ends here: the program has ended and did not wait for it"
                    self._say("abandoned", text, {"job_id": job_id, "name": meter.name})
            self._running.clear()

    def execute(self, submission: Submission) -> JobClient:
        """Say that the job starts, and start it. Raises what the executor raises."""
        graph, job_id = submission.graph, str(submission.job_id)
        self.jobs += 1
        meter = ProgressMeter(graph, job_id, time.monotonic())
        mode = "BATCH" if graph.batched else "STREAMING"
        slots = f"{graph.slots} slot{'s'[: graph.slots > 1]}"
        self._say(
            "starting",
            f"job {job_id} '{graph.name}' starts: {mode}, {slots}",
            {"job_id": job_id, "name": graph.name, "mode": mode, "slots": graph.slots},
        )
        with self._lock:
            self._running[job_id] = meter, None
        try:
            client = (self._executor or load_executor(submission.configuration)).execute(submission)
        except BaseException:
            with self._lock:
                del self._running[job_id]
            raise
        with self._lock:
            self._running[job_id] = meter, client
        client.when_ended(lambda: self._ended(job_id))
        return client

    def _ended(self, job_id: str) -> None:
        with self._lock:
            meter, client = self._running.pop(job_id, (None, None))
        if meter is not None and client is not None:
            progress = meter.measure(client)
            self._say("ended", progress.as_end(), progress.as_dict())

    def _tick(self) -> None:
        every_s = _JSON_EVERY_S if self._as_json else _LIVE_EVERY_S
        while not self._closed.wait(every_s):
            with self._lock:
                running = list(self._running.items())
            lines = []
            for job_id, (meter, client) in running:
                if client is None:
                    lines.append(f"{job_id[:8]} '{meter.name}' starting {as_duration(meter.running_ms())}")
                    continue
                progress = meter.measure(client)
                lines.append(progress.as_line())
                if self._as_json:
                    self._say("progress", "", progress.as_dict())
            if not running:
                lines.append(f"{self._program} {as_duration((time.monotonic() - self._began_s) * 1000)}")
            if not self._as_json:
                self._line.show("  |  ".join(lines))

    def _say(self, event: str, text: str, figures: dict[str, object]) -> None:
        if self._quiet:
            return
        # Of the moment: on a terminal it is the one that knows of the live line.
        stream = sys.stderr
        stream.write((json.dumps({"event": event, **figures}) if self._as_json else text) + "\n")
        stream.flush()
