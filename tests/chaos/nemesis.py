"""Carries faults out, from outside: signals, the disk, the network, and bits of stored files."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
from tests.chaos import network
from tests.chaos.driven_job import DrivenJob
from tests.chaos.plan import Fault, Kind
from tests.chaos.processes import send
from tests.chaos.store import Store

from penstock.common.errors import DamagedCheckpointError
from penstock.engine.checkpoint.manifest import decode, is_relative

_STOP_FACTOR = 2
"""Processes are stopped for up to 8 s: some for longer than the heartbeat timeout."""

_KILOBITS = (100, 500, 2_000, 10_000)
"""Per second: what a network passes on that is slow. Heartbeats alone need about ten."""


class Nemesis:
    """Of one job."""

    def __init__(self, job: DrivenJob, store: Store) -> None:
        self._job = job
        self._store = store
        self._mend: Callable[[], None] = lambda: None

    def strike(self, fault: Fault) -> bool:
        """Carry a fault out. False: there was nothing to hit."""
        return _STRIKES[fault.kind](self, fault, Random(fault.chance))

    def mend(self) -> None:
        """What was damaged is as it was."""
        mend, self._mend = self._mend, lambda: None
        mend()

    # Processes.

    def _kill(self, pids: list[int], random: Random) -> bool:
        return bool(pids) and send(random.choice(pids), signal.SIGKILL)

    def _stop(self, pids: list[int], fault: Fault, random: Random) -> bool:
        if not pids or not send(pid := random.choice(pids), signal.SIGSTOP):
            return False
        time.sleep(fault.ms * _STOP_FACTOR / 1000)
        send(pid, signal.SIGCONT)
        return True

    def _kill_driver(self, fault: Fault, random: Random) -> bool:
        # Alone: what it has started has to notice it.
        killed = self._kill([self._job.driver.pid], random)
        self._job.driver.wait()
        return killed

    def _replace_driver(self, fault: Fault, random: Random) -> bool:
        before = self._job.record()
        if not before or not send(self._job.driver.pid, signal.SIGSTOP):
            return False
        former = self._job.take_over()
        try:
            self._job.until(lambda: self._is_claimed(before) or self._job.driver.poll() is not None, "a claim")
            time.sleep(fault.ms / 1000)
        finally:
            send(former.pid, signal.SIGCONT)
        # The other one may have been refused: then it goes on with what it had.
        if self._job.driver.poll() is not None and former.poll() is None:
            self._job.driver = former
        else:
            self._job.until_ended(former)
        return True

    def _is_claimed(self, before: set[Path]) -> bool:
        for entry in self._job.record() - before:
            with contextlib.suppress(FileNotFoundError):
                if b'"claim"' in entry.read_bytes():
                    return True
        return False

    # Disk and network.

    @contextlib.contextmanager
    def _for(self, fault: Fault, state: contextlib.AbstractContextManager[None]) -> Iterator[None]:
        with state:
            time.sleep(fault.ms / 1000)
            yield

    def _disk(self, fault: Fault, random: Random) -> bool:
        states = {
            Kind.DISK_FULL: self._store.full,
            Kind.STORE_HANGS: self._store.hanging,
            Kind.STORE_FAILS: self._store.failing,
        }
        with self._for(fault, states[fault.kind]()):
            return True

    def _lose_power(self, fault: Fault, random: Random) -> bool:
        """The machine's: all processes die, and the disk has what was synced."""
        with self._store.without_power():
            self._job.end()
        self._job.looks_anew()
        return True

    def _disturb(self, fault: Fault, random: Random) -> bool:
        pid = self._job.driver.pid
        try:
            if fault.kind is Kind.CONNECTIONS_CUT:
                return network.cut_connections(pid, random)
            kilobits = random.choice(_KILOBITS)
            with self._for(fault, network.down(pid) if fault.kind is Kind.NETWORK_CUT else network.slow(pid, kilobits)):
                return True
        except FileNotFoundError:
            # The driver has ended.
            return False

    # Bits.

    def _flip_state(self, fault: Fault, random: Random) -> bool:
        """In a file of the newest checkpoint, which is restored then."""
        for entry in sorted(self._job.record(), key=_age, reverse=True):
            # It may be a claim, or subsumed at this moment.
            with contextlib.suppress(FileNotFoundError, DamagedCheckpointError, msgspec.DecodeError):
                files = decode(entry.read_bytes(), str(entry)).files()
                own = [entry.parents[1] / path for path in files if is_relative(path)]
                return self._flip(own, random) and self._kill(self._job.processes.workers(), random)
        return False

    def _flip_record(self, fault: Fault, random: Random) -> bool:
        """That of a job whose driver is dead."""
        self._kill_driver(fault, random)
        return self._flip(sorted(self._job.record(), key=_age)[-1:], random)

    def _flip(self, paths: list[Path], random: Random) -> bool:
        for path in random.sample(sorted(paths), len(paths)):
            # It may be subsumed at this moment, or be empty.
            with contextlib.suppress(FileNotFoundError):
                size = path.stat().st_size
                if size:
                    bit = random.randrange(8 * size)
                    _flip_bit(path, bit)
                    self._mend = lambda path=path, bit=bit: _flip_bit(path, bit)  # type: ignore[misc]
                    return True
        return False


def _age(entry: Path) -> tuple[float, str]:
    try:
        return entry.stat().st_mtime, entry.name
    except FileNotFoundError:
        return 0.0, entry.name


def _flip_bit(path: Path, bit: int) -> None:
    """It is changed in place: the file stays the same one. Nothing happens if it is gone."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            (byte,) = os.pread(descriptor, 1, bit // 8)
            os.pwrite(descriptor, bytes([byte ^ 1 << bit % 8]), bit // 8)
        finally:
            os.close(descriptor)


_STRIKES: dict[Kind, Callable[[Nemesis, Fault, Random], bool]] = {
    Kind.WORKER_KILLED: lambda self, fault, random: self._kill(self._job.processes.workers(), random),
    Kind.WORKER_STOPPED: lambda self, fault, random: self._stop(self._job.processes.workers(), fault, random),
    Kind.DAEMON_KILLED: lambda self, fault, random: self._kill(self._job.processes.daemons(), random),
    Kind.JVM_KILLED: lambda self, fault, random: self._kill(self._job.processes.jvms(), random),
    Kind.JVM_STOPPED: lambda self, fault, random: self._stop(self._job.processes.jvms(), fault, random),
    Kind.EXECUTOR_KILLED: lambda self, fault, random: self._kill(self._job.processes.executors(), random),
    Kind.DRIVER_KILLED: Nemesis._kill_driver,
    Kind.DRIVER_STOPPED: lambda self, fault, random: self._stop([self._job.driver.pid], fault, random),
    Kind.DRIVER_REPLACED: Nemesis._replace_driver,
    Kind.DISK_FULL: Nemesis._disk,
    Kind.STORE_HANGS: Nemesis._disk,
    Kind.STORE_FAILS: Nemesis._disk,
    Kind.POWER_LOST: Nemesis._lose_power,
    Kind.NETWORK_CUT: Nemesis._disturb,
    Kind.NETWORK_SLOW: Nemesis._disturb,
    Kind.CONNECTIONS_CUT: Nemesis._disturb,
    Kind.STATE_FLIPPED: Nemesis._flip_state,
    Kind.RECORD_FLIPPED: Nemesis._flip_record,
}
