"""CPU and memory of a program's processes, with Spark's JVM separate from Python processes."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

import psutil  # type: ignore[import-untyped]

_SAMPLE_S = 0.1


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


class CpuTime:
    """CPU time of this process and all that it has started, those that have ended included."""

    def __init__(self) -> None:
        self._of: dict[int, float] = {}

    def sample(self) -> float:
        """Return the total (s)."""
        for pid, seconds in cpu_of_each().items():
            self._of[pid] = max(seconds, self._of.get(pid, 0.0))
        return sum(self._of.values())

    @contextlib.contextmanager
    def sampled(self) -> Iterator[None]:
        """Sample all the time: workers end with their job."""
        done = threading.Event()

        def run() -> None:
            while not done.wait(_SAMPLE_S):
                self.sample()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
