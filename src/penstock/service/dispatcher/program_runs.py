"""Runs programs of a cluster's: each by the command, as a user would, in a process of its own beside the cluster's."""

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
_LONGEST_S = 600.0
"""Until a program has submitted a job: Flink's web.timeout."""
_TOO_LONG = f"the program has not submitted a job within {_LONGEST_S:.0f} s, and was ended"
_JOB_ID = re.compile("[0-9a-f]{32}")
_LAST_WORDS_S = 2.0
"""For them to arrive when a program has ended. What it has forked may keep its standard error open for ever."""
_awaited: set[subprocess.Popen[str]] = set()
"""Programs that run and have not submitted a job."""
_WORDS_MOST = 20_000
"""Characters of what a program that has failed has said: the last ones."""


def run_program(file: Path, options: Sequence[str], arguments: Sequence[str], address: str, token: str) -> str:
    """Have a program submit its jobs to the cluster at `address`. Returns the id of the first one.

    The program may go on: its process is left to itself then. `options` are those of `penstock run`. Raises JobError
    with what the program has said if it ends, or after ten minutes, without having submitted a job;
    then, and by `end_awaited`, its process is ended, with those that it has started.
    """
    ran = _Run([*_command("run", "--json", "-d", "-m", address, *options), str(file), *arguments], {TOKEN: token})
    return ran.first_job()


def end_awaited() -> None:
    """End the programs that have not submitted a job yet: one that hangs would outlive the cluster."""
    for process in list(_awaited):
        _end(process)


def plan_program(file: Path, options: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    """The plan of the first job of a program, which is not run. Raises JobError with what the program has said.

    What it has started, and left behind, is ended.
    """
    command = [*_command("explain", "--json", *options), str(file), *arguments]
    # Files, since a pipe would end only when all processes that the program has started have ended.
    with _scratch() as plans, _scratch() as words:
        process = _started(command, {}, plans, words)
        _awaited.add(process)
        try:
            process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            raise JobError(_TOO_LONG) from None
        finally:
            _awaited.discard(process)
            _end(process)
            process.wait()
        plans.seek(0)
        words.seek(0)
        for line in plans:
            # A program may print objects of its own.
            if (plan := _object(line)) is not None and plan.keys() >= {"jid", "name", "nodes"}:
                return plan
        raise JobError(words.read().strip()[-_WORDS_MOST:] or f"{file.name} executes nothing")


def _scratch() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _command(*words: str) -> list[str]:
    # -P: the cluster's working directory is nobody's code.
    return [sys.executable, "-P", "-c", _COMMAND, *words]


def _started(
    command: Sequence[str], environment: Mapping[str, str], output: IO[str], words: IO[str] | int
) -> subprocess.Popen[str]:
    """With a session of its own, so that it can be ended with all that it has started. Raises JobError."""
    try:
        return subprocess.Popen(
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output, stderr=words,
            encoding="utf-8", errors="replace", start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        # An argument is too long, or has a zero byte.
        raise JobError(f"the program can't be started: {error}") from error


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _Run:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # What it prints is in the cluster's log.
        self._process = _started(command, environment, sys.stderr, subprocess.PIPE)
        self._job_id: str | None = None
        self._words = ""
        self._known = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="penstock-program", daemon=True)
        self._listener.start()
        threading.Thread(target=self._await, name="penstock-program-end", daemon=True).start()

    def first_job(self) -> str:
        _awaited.add(self._process)
        try:
            if not self._known.wait(_LONGEST_S):
                raise JobError(_TOO_LONG)
            if self._job_id is None:
                raise JobError(self._words.strip() or "the program has executed nothing")
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
                    self._words = (self._words + line)[-_WORDS_MOST:]
            # A program may write objects of its own that look like it.
            elif event["event"] == "taken" and _JOB_ID.fullmatch(id := str(event.get("job_id"))):
                self._job_id = self._job_id or id
                self._known.set()

    def _await(self) -> None:
        self._process.wait()
        self._listener.join(_LAST_WORDS_S)
        self._known.set()


def _object(line: str) -> dict[str, Any] | None:
    """An object in JSON, as commands say what they do; None: these are words of the program's."""
    # Brackets within brackets are more than Python's parser takes.
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return None
