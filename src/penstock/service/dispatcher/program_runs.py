"""Run programs that were uploaded to a cluster: each with the command, as a user would, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from penstock.common.errors import JobError
from penstock.service.client.rest_client import TOKEN

_COMMAND = "from penstock.service.cli.main import app; app()"
_SUBMISSION_S_MAX = 600.0
"""Longest time until a program has submitted a job: Flink's web.timeout."""
_NOT_SUBMITTED = f"the program has not submitted a job within {_SUBMISSION_S_MAX:.0f} s, and was ended"
_JOB_ID = re.compile("[0-9a-f]{32}")
_OUTPUT_END_S_MAX = 2.0
"""How long to read output after a program has ended. A forked process may keep its standard error open forever."""
_awaited: set[subprocess.Popen[str]] = set()
"""Programs that run and have not submitted a job."""
_ERROR_OUTPUT_MAX = 20_000
"""Most characters of a failed program's output in its error: the last ones."""


def run_program(file: Path, options: Sequence[str], arguments: Sequence[str], address: str, token: str) -> str:
    """Let a program submit its jobs to the cluster at `address`. Return the id of the first one.

    The program may continue: its process is then no longer supervised. `options` are those of `penstock run`. Raises
    JobError with the program's output if it ends, or runs for ten minutes, without submitting a job; then, and by
    `kill_waiting_programs`, its process is killed, with its children.
    """
    ran = _Run([*_command("run", "--json", "-d", "-m", address, *options), str(file), *arguments], {TOKEN: token})
    return ran.first_job()


def kill_waiting_programs() -> None:
    """Kill the programs that have not submitted a job yet: one that hangs would outlive the cluster."""
    for process in list(_awaited):
        _end(process)


def plan_program(file: Path, options: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    """Return the plan of a program's first job, without running it. Raises JobError with the program's output.

    Kills processes that it has started and left behind.
    """
    command = [*_command("explain", "--json", *options), str(file), *arguments]
    # Files, since a pipe would stay open until all processes that the program has started have ended.
    with _temporary_file() as plans, _temporary_file() as errors:
        process = _started(command, {}, plans, errors)
        _awaited.add(process)
        try:
            process.wait(_SUBMISSION_S_MAX)
        except subprocess.TimeoutExpired:
            raise JobError(_NOT_SUBMITTED) from None
        finally:
            _awaited.discard(process)
            _end(process)
            process.wait()
        plans.seek(0)
        errors.seek(0)
        for line in plans:
            # A program may print JSON objects of its own.
            if (plan := _object(line)) is not None and plan.keys() >= {"jid", "name", "nodes"}:
                return plan
        raise JobError(errors.read().strip()[-_ERROR_OUTPUT_MAX:] or f"{file.name} executes no job")


def _temporary_file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _command(*words: str) -> list[str]:
    # -P: modules in the cluster's working directory must not be importable.
    return [sys.executable, "-P", "-c", _COMMAND, *words]


def _started(
    command: Sequence[str], environment: Mapping[str, str], output: IO[str], errors: IO[str] | int
) -> subprocess.Popen[str]:
    """Start the command in a session of its own, so that it can be killed with all its children. Raises JobError."""
    try:
        return subprocess.Popen(
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            encoding="utf-8", errors="replace", start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        # An argument is too long, or contains a zero byte.
        raise JobError(f"cannot start the program: {error}") from error


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _Run:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # Its output goes to the cluster's log.
        self._process = _started(command, environment, sys.stderr, subprocess.PIPE)
        self._job_id: str | None = None
        self._error_output = ""
        self._known = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="penstock-program", daemon=True)
        self._listener.start()
        threading.Thread(target=self._await, name="penstock-program-end", daemon=True).start()

    def first_job(self) -> str:
        _awaited.add(self._process)
        try:
            if not self._known.wait(_SUBMISSION_S_MAX):
                raise JobError(_NOT_SUBMITTED)
            if self._job_id is None:
                raise JobError(self._error_output.strip() or "the program has executed no job")
            return self._job_id
        finally:
            _awaited.discard(self._process)
            if self._job_id is None:
                _end(self._process)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            event = _object(line)
            if event is None or "event" not in event:
                sys.stderr.write(line)
                if not self._known.is_set():
                    self._error_output = (self._error_output + line)[-_ERROR_OUTPUT_MAX:]
            # A program may write objects of its own that look the same.
            elif event["event"] == "taken" and _JOB_ID.fullmatch(id := str(event.get("job_id"))):
                self._job_id = self._job_id or id
                self._known.set()

    def _await(self) -> None:
        self._process.wait()
        self._listener.join(_OUTPUT_END_S_MAX)
        self._known.set()


def _object(line: str) -> dict[str, Any] | None:
    """Return an object in JSON, as commands write it; None: the line is the program's output."""
    # Python's JSON parser limits nested brackets.
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return None
