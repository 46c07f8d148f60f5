"""The processes of one run of the job, by what they are; all carry a mark in their environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path

MARK = "PENSTOCK_CHAOS"
_DAEMON = re.compile(r"\S*python\S* -m \S*daemon\b")


def marked(mark: str) -> dict[int, str]:
    """The command lines of the living processes that carry a mark, by their ids."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            # It may end while we look.
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}\0".encode() in (folder / "environ").read_bytes() and not _is_dead(folder):
                    found[int(folder.name)] = (
                        (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
    return found


def _is_dead(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def parent_of(pid: int) -> int:
    """The process that has started another; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class Processes:
    """Of the driver `pid`."""

    def __init__(self, pid: int, mark: str) -> None:
        self.driver = pid
        self._mark = mark

    def _below(self) -> dict[int, str]:
        everything = marked(self._mark)
        below = {}
        for pid, command in everything.items():
            above = pid
            while above in everything and above != self.driver:
                above = parent_of(above)
            if above == self.driver and pid != self.driver:
                below[pid] = command
        return below

    def jvms(self) -> list[int]:
        """The driver's JVM."""
        return sorted(pid for pid, command in self._below().items() if "SparkSubmit" in command)

    def executors(self) -> list[int]:
        """JVMs of executors."""
        return sorted(pid for pid, command in self._below().items() if "ExecutorBackend" in command)

    def daemons(self) -> list[int]:
        """The processes that fork Python workers."""
        python = self._pythons()
        return sorted(pid for pid in python if parent_of(pid) not in python)

    def workers(self) -> list[int]:
        """Python workers."""
        python = self._pythons()
        return sorted(pid for pid in python if parent_of(pid) in python)

    def _pythons(self) -> set[int]:
        # A JVM names the daemon among its settings, and so does the script that starts one.
        return {pid for pid, command in self._below().items() if _DAEMON.match(command)}


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal. False: the process is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
