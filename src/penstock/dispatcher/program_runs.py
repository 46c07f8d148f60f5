"""Runs programs of a cluster's: each by the command, as a user would, in a process of its own beside the cluster's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.client.rest_client import TOKEN
from penstock.common.errors import JobError

_COMMAND = "from penstock.cli.main import app; app()"
_LONGEST_S = 600.0
"""Until a program has submitted a job: Flink's web.timeout."""
_TOO_LONG = f"the program has not submitted a job within {_LONGEST_S:.0f} s, and was ended"
_WORDS_MOST = 20_000
"""Characters of what a program that has failed has said: the last ones."""


def run_program(file: Path, options: Sequence[str], arguments: Sequence[str], address: str, token: str) -> str:
    """Have a program submit its jobs to the cluster at `address`. Returns the id of the first one.

    The program may go on: its process is left to itself then. `options` are those of `penstock run`. Raises JobError
    with what the program has said if it ends, or after ten minutes, without having submitted a job.
    """
    ran = _Run([*_command("run", "--json", "-d", "-m", address, *options), str(file), *arguments], {TOKEN: token})
    return ran.first_job()


def plan_program(file: Path, options: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    """The plan of the first job of a program, which is not run. Raises JobError with what the program has said."""
    command = [*_command("explain", "--json", *options), str(file), *arguments]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_LONGEST_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise JobError(_TOO_LONG) from None
    for line in ended.stdout.splitlines():
        if (plan := _event(line)) is not None and "nodes" in plan:
            return plan
    raise JobError(ended.stderr.strip()[-_WORDS_MOST:] or f"{file.name} executes nothing")


def _command(*words: str) -> list[str]:
    # -P: the cluster's working directory is nobody's code.
    return [sys.executable, "-P", "-c", _COMMAND, *words]


class _Run:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            # What it prints is in the cluster's log.
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=sys.stderr,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        self._job_id: str | None = None
        self._words: list[str] = []
        self._known = threading.Event()
        threading.Thread(target=self._listen, name="penstock-program", daemon=True).start()

    def first_job(self) -> str:
        if not self._known.wait(_LONGEST_S):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            raise JobError(_TOO_LONG)
        if self._job_id is None:
            raise JobError("".join(self._words).strip()[-_WORDS_MOST:] or "the program has executed nothing")
        return self._job_id

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            event = _event(line)
            if event is None:
                sys.stderr.write(line)
                if not self._known.is_set():
                    self._words.append(line)
            elif self._job_id is None and event.get("event") == "taken":
                self._job_id = str(event["job_id"])
                self._known.set()
        self._process.wait()
        self._known.set()


def _event(line: str) -> dict[str, Any] | None:
    """What a command has said in JSON; None: these are words of the program's."""
    with contextlib.suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return None
