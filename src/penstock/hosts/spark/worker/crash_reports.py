"""Crash reports of workers that ended without an error: by os._exit, a signal, or the kernel when memory ran out.

A worker writes a note of the slots that it hosts, and removes it when it ends normally. If the note of an ended worker
still exists, the daemon that has forked it replaces the note by a report of its end, at the path where Spark's JVM
reads the traceback of a crash (`spark.sql.execution.pyspark.udf.faulthandler.enabled`). So the text of Spark's
exception has the report, on any machine. It names the files that the worker was reading (common/files/open_inputs.py).

Spark also starts a task again that has lost its worker, and its registration may reach the driver before the exception
does. So the next worker of a pipelined slot also reads the report of the previous one, and fails with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from penstock.common.errors import TaskLostError
from penstock.common.files.open_inputs import record_in, recorded_in, stop_recording
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.hosts.spark.failures import to_stage_failure

_DIRECTORY = "PYTHON_FAULTHANDLER_DIR"
"""Spark's environment variable with the directory of crash files, each named by the pid of a worker."""


def write_note(level: LevelSpec, slots: Sequence[int]) -> None:
    """Note, in a worker, that it hosts these slots of a level. `slots`: in ascending order."""
    report_name = _report_name(level, slots[0]) if level.mode.has_job_master else ""
    names = [node.operator.name for vertex in level.vertices if slots[0] < vertex.parallelism for node in vertex.nodes]
    shown = ", ".join(f"'{name}'" for name in names)
    if (directory := os.environ.get(_DIRECTORY)) is not None:
        # Without a note, only the report of a crash would be missing.
        with contextlib.suppress(OSError):
            what = f"level {level.level} slot{'s'[: len(slots) > 1]} {', '.join(map(str, slots))}, which runs {shown}"
            _note(directory, os.getpid()).write_text(f"{report_name}\n{what}")
            record_in(_inputs(directory, os.getpid()))


def previous_report(level: LevelSpec, slots: Sequence[int]) -> str:
    """Return the crash report of the previous worker of pipelined slots in this attempt, or "" if there is none."""
    if (directory := os.environ.get(_DIRECTORY)) is not None:
        report = Path(directory) / _report_name(level, slots[0])
        with contextlib.suppress(OSError):
            text = report.read_text(errors="replace")
            report.unlink()
            return text
    return ""


def _report_name(level: LevelSpec, index: int) -> str:
    return f"{level.job_id}-{level.epoch}-{level.attempt}-{level.level}-{index}.penstock-ended"


def remove_note() -> None:
    """Remove the note of this worker, which is about to end normally."""
    if (directory := os.environ.get(_DIRECTORY)) is not None:
        with contextlib.suppress(OSError):
            _note(directory, os.getpid()).unlink(missing_ok=True)
            stop_recording()
            _inputs(directory, os.getpid()).unlink(missing_ok=True)


def _note(directory: str, pid: int) -> Path:
    return Path(directory) / f"{pid}.penstock"


def _inputs(directory: str, pid: int) -> Path:
    return Path(directory) / f"{pid}.penstock-inputs"


class CrashReports:
    """Write crash reports in the daemon. Compares the kernel's count of processes killed for lack of memory."""

    def __init__(self) -> None:
        self._oom_kills = _oom_kills()

    def worker_ended(self, pid: int, status: int) -> None:
        """Write a report if the worker `pid` has ended abnormally. `status`: as `os.waitpid` returns it."""
        directory = os.environ.get(_DIRECTORY)
        if directory is None:
            return
        note, crash = _note(directory, pid), Path(directory) / str(pid)
        previous_kills, self._oom_kills = self._oom_kills, _oom_kills()
        inputs = recorded_in(_inputs(directory, pid))
        _inputs(directory, pid).unlink(missing_ok=True)
        if not note.exists():
            # Workers end by os._exit, which skips Spark's removal of this file.
            crash.unlink(missing_ok=True)
            return
        traceback = crash.read_text(errors="replace").strip() if crash.exists() else ""
        report_name, _, what = note.read_text().partition("\n")
        end = describe_end(status, self._oom_kills > previous_kills)
        if inputs:
            end += f", while it was reading {', '.join(inputs)}. Damaged input can make a library crash"
        text = f"the worker of {what}, {end}\n{traceback}".rstrip()
        if report_name:
            (Path(directory) / report_name).write_text(text)
        # Rename a complete file: the JVM may read it at any time.
        note.write_text(str(to_stage_failure(TaskLostError(text))))
        note.replace(crash)


def describe_end(status: int, out_of_memory: bool) -> str:
    """Return a verb phrase for a status of `os.waitpid`. `out_of_memory`: the kernel has killed a process for that."""
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        return f"ended itself with exit code {code}: a function, or a library that it uses, has called os._exit"
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL and out_of_memory:
        return f"was killed by the kernel, which had run out of memory ({name})"
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return f"was killed from outside ({name}; containers and clusters do so at their memory limit)"
    return f"has crashed ({name}), as libraries in C can"


def _oom_kills() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
