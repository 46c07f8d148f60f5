"""Election in a folder that all processes see, for clusters without ZooKeeper: a journal, and a lease for each term.

    STORAGE/CLUSTER/leader/record/00000012    the journal: claims of the leadership, and the pointers to the jobs
                          /lease-3            of the leader of term 3, which renews it

The journal ensures that writes of two leaders never both count. The lease tells others when they may claim the
leadership. Each term has a file of its own, so a former leader that still runs renews only its own lease. On one
machine a standby need not wait for a dead process: the lock on the lease disappears with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from pathlib import Path

import msgspec
from pyarrow import fs

from penstock.common.files.exclusive_creation import exclusive_creation
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.checkpoint.record_files import RecordFiles
from penstock.service.cluster.high_availability.journal import Journal
from penstock.service.cluster.high_availability.lease_watch import LeaseObservation, LeaseWatch
from penstock.service.cluster.high_availability.pointers import Pointers
from penstock.service.cluster.high_availability.register import LeaderAddress, Register
from penstock.service.cluster.high_availability.steady_clock import steady_ms

_SIZE = 1024
"""The size of a lease in bytes: it is always written in one piece."""
_OVER = b"over"
_KERNEL = Path("/proc/sys/kernel/random/boot_id")


class _Lease(msgspec.Struct, frozen=True):
    """The content of a lease."""

    leader: LeaderAddress
    kernel: str
    """The boot of the leader's machine: only processes of the same boot can rely on the lock of the file."""
    renewals: int


class LeaseRegister(Register):
    """`folder`: the cluster's. `lease_ms`: how long a leader may go without renewing its lease. Raises OSError."""

    def __init__(self, folder: Path, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._folder = folder / "leader"
        self._watch = LeaseWatch(lease_ms)
        self._journal = self._new_journal()
        self._lock = threading.Lock()
        """Held while the journal is used."""
        self._term = 0
        self._file: int | None = None
        self._renewals = 0

    def look(self) -> int | None:
        """Return the next term if there is no leader."""
        began_ms = steady_ms()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock:
            observation = self._observe(self._journal.read().term)
        return self._watch.vacant(observation, began_ms, steady_ms())

    def claim(self, term: int) -> bool:
        """Write a claim to the journal, and start the lease of the term."""
        with self._lock:
            if not self._journal.claim(term):
                return False
        path = self._lease(term)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with contextlib.suppress(OSError):
            # The file system has no locks: standbys must wait for the lease to expire.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._term = term
        self._renew("")
        for old in self._folder.glob("lease-*"):
            with contextlib.suppress(OSError, ValueError):
                if int(old.name.partition("-")[2]) < term:
                    old.unlink()
        return True

    def confirm(self, url: str) -> None:
        """Renew the lease of a term that no other process has ended."""
        with self._lock:
            self._journal.check()
        self._renew(url)

    def pointers(self) -> Pointers:
        """The pointers in the journal."""
        return _JournalPointers(self._journal, self._lock)

    def leader(self) -> LeaderAddress | None:
        """Return the leader that the lease of the newest term names."""
        text = self._text(self._new_journal().read().term)
        with contextlib.suppress(*DECODING_ERRORS):
            return from_json(text, _Lease).leader
        return None

    def close(self) -> None:
        """End the lease."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._file, _OVER.ljust(_SIZE), 0)
            os.close(self._file)
            self._file = None

    def _renew(self, url: str) -> None:
        file = self._file
        if file is None:
            return
        self._renewals += 1
        leader = LeaderAddress(self._term, socket.gethostname(), os.getpid(), url)
        os.pwrite(file, msgspec.json.encode(_Lease(leader, _kernel(), self._renewals)).ljust(_SIZE), 0)

    def _observe(self, term: int) -> LeaseObservation:
        text = self._text(term)
        if text.strip() == _OVER:
            return LeaseObservation(term, text, is_over=True)
        with contextlib.suppress(*DECODING_ERRORS):
            lease = from_json(text, _Lease)
            return LeaseObservation(term, text, lease.kernel == _kernel() != "" and not self._is_locked(term))
        # The lease has not been written yet, or is just being written.
        return LeaseObservation(term, text)

    def _text(self, term: int) -> bytes:
        try:
            return self._lease(term).read_bytes()
        except FileNotFoundError:
            return b""

    def _is_locked(self, term: int) -> bool:
        with contextlib.suppress(OSError), self._lease(term).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        return True

    def _lease(self, term: int) -> Path:
        return self._folder / f"lease-{term}"

    def _new_journal(self) -> Journal:
        system = fs.LocalFileSystem()
        root = str(self._folder)
        return Journal(RecordFiles(system, root, lambda: exclusive_creation(root, system)))


class _JournalPointers(Pointers):
    """Each entry has all pointers."""

    def __init__(self, journal: Journal, lock: threading.Lock) -> None:
        self._journal = journal
        self._lock = lock

    def all(self) -> dict[str, str]:
        with self._lock:
            return self._journal.jobs

    def put(self, id: str, pointer: str) -> None:
        with self._lock:
            self._journal.write({**self._journal.jobs, id: pointer})

    def remove(self, id: str) -> None:
        with self._lock:
            jobs = self._journal.jobs
            if jobs.pop(id, None) is not None:
                self._journal.write(jobs)


def _kernel() -> str:
    """Return an id of this boot of this machine; empty: unknown."""
    try:
        return _KERNEL.read_text(encoding="ascii").strip()
    except OSError:
        return ""
