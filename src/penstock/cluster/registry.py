"""The jobs that run on this machine, so that `penstock savepoint JOB` and its like find them.

Each has a file of its own below the user's cache directory, readable by the user alone: it holds the keys of the job's
control port. A job removes its file when it ends; files of drivers that were killed are removed by whoever looks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.common.errors import JobError
from penstock.rpc.commands import ask
from penstock.rpc.keys import ControlAddress
from penstock.rpc.messages import Command
from penstock.spark.driver.java import cache_directory

_ANSWER_S = 2


class RunningJob(msgspec.Struct, frozen=True):
    """What is known of a running job. `pid` is its driver's."""

    job_id: str
    name: str
    pid: int
    started_ms: int
    address: ControlAddress


class JobRegistry:
    """The files."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._directory = cache_directory(environ) / "jobs"

    def add(self, job: RunningJob) -> None:
        """Tell of a job."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path(job.job_id), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(job))

    def remove(self, job_id: str) -> None:
        """The job has ended."""
        self._path(job_id).unlink(missing_ok=True)

    def jobs(self) -> list[RunningJob]:
        """All that run, oldest first."""
        found = []
        for path in self._directory.glob("*.json"):
            # It may be gone, or half written, by now.
            with contextlib.suppress(OSError, msgspec.DecodeError):
                job = msgspec.json.decode(path.read_bytes(), type=RunningJob)
                if _is_alive(job.pid):
                    found.append(job)
                else:
                    path.unlink(missing_ok=True)
        return sorted(found, key=lambda job: job.started_ms)

    def answers(self, job_id: str) -> bool:
        """Whether a job runs here for sure: its process may have been killed, and another have its number."""
        for job in self.jobs():
            if job.job_id == job_id:
                with contextlib.suppress(JobError):
                    ask(job.address, Command("status"), _ANSWER_S, lambda: True)
                    return True
        return False

    def find(self, wanted: str) -> RunningJob:
        """The job of that id, of an id that begins so, or of that name. Raises JobError unless there is exactly one."""
        jobs = self.jobs()
        matching = [job for job in jobs if job.job_id == wanted or job.name == wanted]
        matching = matching or [job for job in jobs if job.job_id.startswith(wanted)]
        if len(matching) == 1:
            return matching[0]
        running = "\n".join(f"  {job.job_id}  {job.name}" for job in matching or jobs)
        if matching:
            raise JobError(f"'{wanted}' is the name or the beginning of several jobs; name one by its id:\n{running}")
        if jobs:
            raise JobError(f"no job '{wanted}' runs on this machine. There are:\n{running}")
        raise JobError(f"no job '{wanted}' runs on this machine; none at all does that this user has started")

    def _path(self, job_id: str) -> Path:
        return self._directory / f"{job_id}.json"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
