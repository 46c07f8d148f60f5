"""Crash reports of workers that ended without one: by os._exit, a signal, or the kernel when memory ran out.

A worker leaves a note of what it hosts, and takes it away when it ends as it should. The daemon that has forked it
finds the note of one that did not, and puts how it ended in its place, where Spark's JVM looks for the traceback of a
crash (`spark.sql.execution.pyspark.udf.faulthandler.enabled`). So it is in the text of Spark's exception, on any
machine. It names the files that the worker was reading (`common/files/open_inputs.py`). But Spark starts a task
again that has lost its worker, and the driver may hear of that first: so the next worker of a pipelined
slot finds the words of the former one, and reports them.
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
"""Environment variable of Spark's: where each worker's crash is written, in a file that is named by its pid."""


def write_note(level: LevelSpec, slots: Sequence[int]) -> None:
    """In a worker: it hosts these slots of a level, in ascending order, from now on."""
    former = "" if level.batched else _of_slot(level, slots[0])
    names = [node.operator.name for vertex in level.vertices if slots[0] < vertex.parallelism for node in vertex.nodes]
    shown = ", ".join(f"'{name}'" for name in names)
    if (directory := os.environ.get(_DIRECTORY)) is not None:
        # A note that can't be written is missed only if the worker dies.
        with contextlib.suppress(OSError):
            what = f"level {level.level} slot{'s'[: len(slots) > 1]} {', '.join(map(str, slots))}, which runs {shown}"
            _note(directory, os.getpid()).write_text(f"{former}\n{what}")
            record_in(_inputs(directory, os.getpid()))


def end_of_former(level: LevelSpec, slots: Sequence[int]) -> str:
    """In a worker of pipelined slots: how the one before it in the same attempt has ended; empty if there was none."""
    if (directory := os.environ.get(_DIRECTORY)) is not None:
        words = Path(directory) / _of_slot(level, slots[0])
        with contextlib.suppress(OSError):
            text = words.read_text(errors="replace")
            words.unlink()
            return text
    return ""


def _of_slot(level: LevelSpec, index: int) -> str:
    return f"{level.job_id}-{level.epoch}-{level.attempt}-{level.level}-{index}.penstock-ended"


def remove_note() -> None:
    """In a worker: it ends as it should, whatever that is."""
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
    """In the daemon. It counts the processes that the kernel has killed when it was out of memory, on this machine."""

    def __init__(self) -> None:
        self._oom_kills = _oom_kills()

    def of(self, pid: int, status: int) -> None:
        """The worker `pid` has ended with this status, as `os.waitpid` gives it."""
        directory = os.environ.get(_DIRECTORY)
        if directory is None:
            return
        note, crash = _note(directory, pid), Path(directory) / str(pid)
        before, self._oom_kills = self._oom_kills, _oom_kills()
        inputs = recorded_in(_inputs(directory, pid))
        _inputs(directory, pid).unlink(missing_ok=True)
        if not note.exists():
            # Workers end by os._exit, which skips Spark's removal of this file.
            crash.unlink(missing_ok=True)
            return
        traceback = crash.read_text(errors="replace").strip() if crash.exists() else ""
        of_slot, _, what = note.read_text().partition("\n")
        end = how_it_ended(status, self._oom_kills > before)
        if inputs:
            end += f", while it was reading {', '.join(inputs)}. Damaged input can make a library crash"
        text = f"the worker of {what}, {end}\n{traceback}".rstrip()
        if of_slot:
            (Path(directory) / of_slot).write_text(text)
        # Complete, before it is there: the JVM may look for it at any time.
        note.write_text(str(to_stage_failure(TaskLostError(text))))
        note.replace(crash)


def how_it_ended(status: int, out_of_memory: bool) -> str:
    """A status, as `os.waitpid` gives it, in words. `out_of_memory`: the kernel has killed some process for that."""
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        return f"ended itself with exit code {code}: a function, or a library that it uses, has called os._exit"
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL and out_of_memory:
        return f"was killed by the kernel, which had run out of memory ({name})"
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return f"was killed from outside ({name}; a container or cluster does so at its limit of memory)"
    return f"has crashed ({name}), as libraries in C can"


def _oom_kills() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
