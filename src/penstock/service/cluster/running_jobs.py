"""The jobs that run on this machine, so that commands such as `penstock savepoint JOB` find them.

Each has a file of its own below the user's cache directory, readable by the user alone: it contains the keys of the
job's control port. A job removes its file when it ends; the next reader removes files of killed drivers. A job without
a control port yet, because Spark is starting, has a file that says only this.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.common.errors import JobError, JobNotRunningError
from penstock.common.files.cache_directory import cache_directory
from penstock.common.text.one_line import on_one_line
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.rpc.keys import ControlAddress
from penstock.hosts.live_process import is_alive, start_mark_of
from penstock.service.cluster.job_reference import matching_jobs
from penstock.service.cluster.rest_address import RestAddress

_STARTING = ".starting"
_log = logging.getLogger(__name__)


class RunningJob(msgspec.Struct, frozen=True):
    """The facts about a running job. `pid` is its driver's."""

    job_id: str
    name: str
    pid: int
    started_ms: int
    address: ControlAddress
    rest: RestAddress | None = None
    """The REST endpoint, or None."""
    beginning: str = ""
    """The mark of the process, set by `add`: another process may get its id later."""


class StartingJob(msgspec.Struct, frozen=True):
    """A job that accepts no commands yet."""

    job_id: str
    name: str
    pid: int
    started_ms: int
    beginning: str = ""


Entry = TypeVar("Entry", RunningJob, StartingJob)


class JobRegistry:
    """The files of the registry."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._directory = cache_directory(environ) / "jobs"

    def add(self, job: RunningJob) -> None:
        """Register a job. Only warn if that fails: the job itself does not need the registry."""
        try:
            self._write(self._path(job.job_id), job)
        except OSError as error:
            _log.warning("penstock list, stop and other commands will not find the job '%s': %s", job.name, error)
        self._starts_no_more(job.job_id, job.pid)

    def add_starting(self, job: StartingJob) -> None:
        """Register a job that is about to start. A failure is reported a moment later, by `add`."""
        with contextlib.suppress(OSError):
            self._write(self._path_of_starting(job.job_id), job)

    def remove(self, job_id: str, pid: int) -> None:
        """Remove a job that has ended, unless a run in another process has taken it over."""
        self._starts_no_more(job_id, pid)
        with contextlib.suppress(OSError, *DECODING_ERRORS):
            job = from_json(self._path(job_id).read_bytes(), RunningJob)
            if job.pid == pid:
                self._path(job_id).unlink(missing_ok=True)

    def _starts_no_more(self, job_id: str, pid: int) -> None:
        path = self._path_of_starting(job_id)
        with contextlib.suppress(OSError, *DECODING_ERRORS):
            if from_json(path.read_bytes(), StartingJob).pid == pid:
                path.unlink(missing_ok=True)

    def _write(self, path: Path, job: RunningJob | StartingJob) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = path.with_name(f".{path.name}-{os.getpid()}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(msgspec.structs.replace(job, beginning=start_mark_of(job.pid))))
        # Replaced in one step: a reader may read at any moment.
        unfinished.replace(path)

    def jobs(self) -> list[RunningJob]:
        """Return all running jobs, oldest first."""
        return self._looked_at()[0]

    def starting(self) -> list[StartingJob]:
        """Return all starting jobs, oldest first."""
        found = []
        for path in self._directory.glob(f"*{_STARTING}"):
            with contextlib.suppress(OSError, *DECODING_ERRORS):
                content = path.read_bytes()
                job = from_json(content, StartingJob)
                if is_alive(job.pid, job.beginning):
                    found.append(job)
                else:
                    _forget(path, content)
        return sorted(found, key=lambda job: job.started_ms)

    def named(self, reference: str) -> list[RunningJob]:
        """Return the running jobs with this id, prefix of an id, or name.

        Keeps the files of processes that are gone.
        """
        return _matching(reference, self._looked_at(forgets=False)[0])

    def find(self, reference: str) -> RunningJob:
        """Return the job with this id, prefix of an id, or name. Raises JobError unless there is exactly one."""
        if not reference.strip():
            # All ids start with the empty text: an unset variable of a script would cancel the only running job.
            raise JobError("name a job by its id, a prefix of its id, or its name; got an empty text")
        # Those that start first: one that begins to run meanwhile would be in neither list.
        all_starting = self.starting()
        jobs, gone = self._looked_at()
        matching = _matching(reference, jobs)
        if len(matching) == 1:
            return matching[0]
        named = on_one_line(reference)
        running = "\n".join(f"  {job.job_id}  {on_one_line(job.name)}" for job in matching or jobs)
        if matching:
            raise JobError(f"'{named}' matches several jobs; name one by its id:\n{running}")
        if starting := _matching(reference, all_starting):
            raise JobNotRunningError(
                f"the job '{on_one_line(starting[0].name)}' is starting and accepts no commands yet: retry when "
                "penstock list shows it as running. To end it now: Ctrl-C where it was started, or "
                f"kill {starting[0].pid}"
            )
        if killed := _matching(reference, gone):
            raise JobError(
                f"the process of the job '{named}', {killed[0].pid}, ended without reporting an error: it was killed, "
                "or its machine is out of memory. If its cluster restarts it, penstock list shows it in some seconds; "
                "otherwise run it again with -s latest"
            )
        if jobs:
            raise JobError(f"no job '{named}' runs on this machine. Running jobs:\n{running}")
        raise JobError(f"no job '{named}' runs on this machine, and no other job of this user")

    def _looked_at(self, forgets: bool = True) -> tuple[list[RunningJob], list[RunningJob]]:
        """Return running jobs, oldest first, and those whose processes are gone, which it removes if it `forgets`."""
        alive, gone = [], []
        for path in self._directory.glob("*.json"):
            # It may have been removed, or be incomplete.
            with contextlib.suppress(OSError, *DECODING_ERRORS):
                content = path.read_bytes()
                job = from_json(content, RunningJob)
                if is_alive(job.pid, job.beginning):
                    alive.append(job)
                else:
                    gone.append(job)
                    if forgets:
                        _forget(path, content)
        return sorted(alive, key=lambda job: job.started_ms), gone

    def _path(self, job_id: str) -> Path:
        return self._directory / f"{job_id}.json"

    def _path_of_starting(self, job_id: str) -> Path:
        return self._directory / f"{job_id}{_STARTING}"


def _forget(path: Path, content: bytes) -> None:
    """Remove the file of a process that is gone, unless the job has been restarted in the meantime."""
    if path.read_bytes() == content:
        path.unlink(missing_ok=True)


def _matching(reference: str, jobs: list[Entry]) -> list[Entry]:
    return matching_jobs(reference, jobs, lambda job: job.name, lambda job: (job.job_id,))
