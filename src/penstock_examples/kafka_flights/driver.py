"""The driver of the job: a process of `penstock run`, as a user starts it, and restarts it after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.common.errors import PenstockError
from penstock_examples.kafka_flights import job

_KILLED_S = 10.0


class JobFailedError(PenstockError):
    """The job has ended with an error."""


class Driver:
    """Context manager of the job's process. `folder`: of its checkpoints and output."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._checkpoints = folder / "checkpoints"
        self._log = folder / "log"
        self._arguments = arguments

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._end()

    @property
    def pid(self) -> int:
        """The process id of the current driver."""
        return self._process.pid

    def kill_and_start_again(self) -> None:
        """Kill the driver, with its JVM (`kill -9`). Another one resumes from the newest checkpoint."""
        self._end()
        self._start()

    def has_ended(self) -> bool:
        """Return whether the job is done. Raises JobFailedError if it has failed."""
        status = self._process.poll()
        if status:
            said = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise JobFailedError(f"the job has ended with status {status}. The end of its output:\n{said}")
        return status is not None

    def _start(self) -> None:
        options = ["-D", f"execution.checkpointing.dir={self._checkpoints}"]
        if any(self._checkpoints.glob("*/chk-*/_metadata")):
            options += ["-s", "latest"]
        command = [
            sys.executable,
            "-m",
            "penstock.service.cli.main",
            "run",
            *options,
            str(job.__file__),
            *self._arguments,
        ]
        with self._log.open("ab") as log:
            # In a session of its own: its processes can be killed together, and Ctrl-C goes only to this program.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + _KILLED_S
        while time.monotonic() < deadline:
            # The group includes its JVM, which is not the child of this process.
            try:
                os.killpg(self._process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
