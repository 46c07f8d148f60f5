"""CPU and memory of a program's processes, with Spark's JVM separate from Python processes."""

from __future__ import annotations

import contextlib
import dataclasses

import psutil  # type: ignore[import-untyped]


@dataclasses.dataclass(frozen=True)
class Usage:
    """Totals over all processes since their start: CPU in seconds, resident memory in bytes."""

    jvm_cpu_s: float = 0.0
    python_cpu_s: float = 0.0
    jvm_bytes: int = 0
    python_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Memory of all."""
        return self.jvm_bytes + self.python_bytes


def workers() -> list[psutil.Process]:
    """Return Spark's Python workers among the descendants of this process: forked by daemons that a JVM started."""
    below = psutil.Process().children(recursive=True)
    virtual_machines = {process.pid for process in below if process.name().startswith("java")}
    daemons = {process.pid for process in below if process.ppid() in virtual_machines}
    return [process for process in below if process.ppid() in daemons]


def usage() -> Usage:
    """Return the usage of this process and its descendants. Ended processes are not included."""
    jvm_cpu_s = python_cpu_s = 0.0
    jvm_bytes = python_bytes = 0
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = process.cpu_times()
            # Count memory shared by forked workers once, where the system reports it.
            memory = process.memory_full_info()
            resident = getattr(memory, "pss", 0) or memory.rss
            if process.name().startswith("java"):
                jvm_cpu_s += times.user + times.system
                jvm_bytes += resident
            else:
                python_cpu_s += times.user + times.system
                python_bytes += resident
    return Usage(jvm_cpu_s, python_cpu_s, jvm_bytes, python_bytes)


def cpu_of_each() -> dict[int, float]:
    """Return the CPU time of this process and each of its descendants, in seconds since its start, by its id."""
    found = {}
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found
