"""Ends all processes that a measurement has started, also those that have left its session, and whatever ends the run.

Workers of PyFlink and of Spark lead sessions of their own, so no process group contains them. They are recognised by
their environment, which children inherit. A guardian does the same when the process that measures is killed.

    python -m benchmarks.own_processes MARK      the guardian: waits for the end of its standard input
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = "PENSTOCK_BENCHMARK_RUN"
_ROOT = Path(__file__).resolve().parent.parent
_TRIES = 25
_PAUSE_S = 0.2


@contextlib.contextmanager
def own_processes() -> Iterator[dict[str, str]]:
    """Gives the variables with which to start processes. At its end these are killed, with all their descendants."""
    mark = uuid.uuid4().hex
    guardian = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.own_processes", mark],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield {_VARIABLE: mark}
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait()


def end_all(mark: str) -> None:
    """Kill all processes that carry a mark, until there are none."""
    for _ in range(_TRIES):
        found = marked(mark)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def marked(mark: str) -> list[int]:
    """The processes whose environment has a mark."""
    wanted = f"{_VARIABLE}={mark}".encode()
    if Path("/proc/self/environ").exists():
        return [pid for pid in _of_proc() if wanted in _environment_of(pid)]
    import psutil  # type: ignore[import-untyped]

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_VARIABLE) == mark:
                found.append(process.pid)
    return found


def _of_proc() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _environment_of(pid: int) -> bytes:
    # It may have ended, or be another user's.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


if __name__ == "__main__":
    # A Ctrl-C in the terminal is for the process that measures; the guardian sees the end of that.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_all(sys.argv[1])
