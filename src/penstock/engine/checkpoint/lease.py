"""The lease of a job: a file by which the run that holds the job shows that it is alive.

It protects against a second run that is started by mistake. Fencing between two runs does not depend on it: see
job_record.py. So the lease may be wrong: a run that was stopped for longer than its lease is taken over, and learns
this when it publishes, or when it finds another run's holder in the lease.

Clocks are never compared: a run that wants to take over watches the file for the duration of a lease. On one machine it
does not wait for a run that has died: the operating system releases the lock of a process that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from pyarrow import fs

from penstock.common.errors import CheckpointError
from penstock.common.job_threads import start_loop

LEASE_MS = 10_000
_RENEWALS = 5
_LOOK_S = 0.2


class Lease:
    """The lease of one run.

    `on_lost`: called by the lease's thread when another run holds both the file and the job. `is_taken_over`: whether
    another run holds the job; the file alone may be a late write of an earlier run.
    """

    def __init__(
        self,
        system: fs.FileSystem,
        path: str,
        on_lost: Callable[[], object],
        lease_ms: int = LEASE_MS,
        is_taken_over: Callable[[], bool] = lambda: True,
    ) -> None:
        self._system = system
        self._path = path
        self._on_lost = on_lost
        self._is_taken = is_taken_over
        self._pause_s = lease_ms / 1000 / _RENEWALS
        self._holder = uuid.uuid4().hex.encode()
        self._renewals = 0
        self._locked: int | None = None
        self._ended = threading.Event()

    def hold(self) -> None:
        """Write the lease, and renew it until `release`. Raises OSError."""
        self._system.create_dir(self._path.rpartition("/")[0], recursive=True)
        if isinstance(self._system, fs.LocalFileSystem):
            # A new file: a run that was taken over still holds the lock of the previous file.
            with contextlib.suppress(FileNotFoundError):
                Path(self._path).unlink()
            self._locked = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            with contextlib.suppress(OSError):
                fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write(0)
        # Other errors of a store are logged, and the renewal is repeated.
        start_loop("penstock-lease", self._renew, lambda error: None)

    def release(self) -> None:
        """Delete the lease, so that no other run waits for this one."""
        self._ended.set()
        with contextlib.suppress(OSError):
            if self._holder_of() == self._holder:
                self._system.delete_file(self._path)
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def _renew(self) -> bool:
        if self._ended.wait(self._pause_s):
            return False
        self._renewals += 1
        # If a store fails for a while, the lease runs out and another run may take over.
        with contextlib.suppress(OSError):
            if self._holder_of() not in (self._holder, None) and self._is_taken():
                self._on_lost()
                return False
            self._write(self._renewals)
        return True

    def _holder_of(self) -> bytes | None:
        text = _read(self._system, self._path)
        return text.partition(b" ")[0] if text is not None else None

    def _write(self, number: int) -> None:
        if self._ended.is_set():
            return
        text = b"%s %d\n" % (self._holder, number)
        if self._locked is not None:
            os.pwrite(self._locked, text, 0)
        else:
            with self._system.open_output_stream(self._path) as stream:
                stream.write(text)


def wait_until_free(system: fs.FileSystem, path: str, job_id: str, lease_ms: int = LEASE_MS) -> None:
    """Wait until no run holds the job, at most until its lease has run out.

    Raises CheckpointError if a run renews the lease, or if it cannot be read for the duration of a lease.
    """
    lease_s = lease_ms / 1000
    before: bytes | None = None
    read_at = until = time.monotonic()
    while True:
        try:
            now = _read(system, path)
        except OSError as error:
            # A failed read says nothing about the holder: read again.
            if time.monotonic() - read_at > lease_s:
                raise CheckpointError(f"cannot read the lease of the job {job_id} ({path}): {error}") from error
        else:
            read_at = time.monotonic()
            if now is None:
                return
            if before is None:
                if not _is_locked(system, path):
                    return
                before, until = now, read_at + lease_s
            elif now != before:
                raise CheckpointError(
                    f"the job {job_id} is still running: it has just renewed its lease ({path}). Cancel it first, with "
                    f"penstock cancel {job_id}, or start from a savepoint"
                )
            elif read_at >= until:
                return
        time.sleep(_LOOK_S)


def _read(system: fs.FileSystem, path: str) -> bytes | None:
    try:
        with system.open_input_stream(path) as stream:
            data: bytes = stream.read()
            return data
    except FileNotFoundError:
        return None


def _is_locked(system: fs.FileSystem, path: str) -> bool:
    """Whether a living process may hold the lease. True on file systems without locks."""
    if not isinstance(system, fs.LocalFileSystem):
        return True
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)
