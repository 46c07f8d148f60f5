"""The lease of a job: a file by which the run that holds the job shows that it lives.

Protects against a second run that is started by mistake. That two runs do no harm to each other does not depend on
it: see job_record.py. So it may be wrong: a run that was stopped for longer than its lease is taken over, and learns of
it when it wants to publish something, or sees that the lease is another run's.

Clocks are never compared: who wants to take over watches the file for the time of a lease. On one machine it need not
wait for a run that has died: the lock that a process holds on the file goes with the process.
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
from penstock.common.job_threads import serve

LEASE_MS = 10_000
_RENEWALS = 5
_LOOK_S = 0.2


class Lease:
    """Of one run. `lost` is called, by its thread, when the file is found to be another run's, and the job is, too.

    `is_taken` tells whether the job is: the file may be that of a former run, whose last write came late.
    """

    def __init__(
        self,
        system: fs.FileSystem,
        path: str,
        lost: Callable[[], object],
        lease_ms: int = LEASE_MS,
        is_taken: Callable[[], bool] = lambda: True,
    ) -> None:
        self._system = system
        self._path = path
        self._lost = lost
        self._is_taken = is_taken
        self._pause_s = lease_ms / 1000 / _RENEWALS
        self._holder = uuid.uuid4().hex.encode()
        self._renewals = 0
        self._locked: int | None = None
        self._ended = threading.Event()

    def hold(self) -> None:
        """Take the lease, and renew it from now on. Raises OSError."""
        self._system.create_dir(self._path.rpartition("/")[0], recursive=True)
        if isinstance(self._system, fs.LocalFileSystem):
            # A file of its own: a run that was taken over keeps the lock of the one before.
            with contextlib.suppress(FileNotFoundError):
                Path(self._path).unlink()
            self._locked = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            with contextlib.suppress(OSError):
                fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write(0)
        # What a store raises besides is logged; to renew the lease is tried again.
        serve("penstock-lease", self._renew, lambda error: None)

    def release(self) -> None:
        """The run has ended: no other run has to wait for it."""
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
        # A store that fails for a while: then the lease runs out, and someone may take over.
        with contextlib.suppress(OSError):
            if self._holder_of() not in (self._holder, None) and self._is_taken():
                self._lost()
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
    """Return when no run holds a job, at the latest when its lease must have run out.

    Raises CheckpointError if a run renews it, or if it can't be read for as long.
    """
    lease_s = lease_ms / 1000
    before: bytes | None = None
    heard = until = time.monotonic()
    while True:
        try:
            now = _read(system, path)
        except OSError as error:
            # A store that fails for a moment has not said who holds the job.
            if time.monotonic() - heard > lease_s:
                raise CheckpointError(f"the lease of the job {job_id} can't be read ({path}): {error}") from error
        else:
            heard = time.monotonic()
            if now is None:
                return
            if before is None:
                if not _is_locked(system, path):
                    return
                before, until = now, heard + lease_s
            elif now != before:
                raise CheckpointError(
                    f"the job {job_id} is still running: it has just renewed its lease ({path}). Cancel it first, with "
                    f"penstock cancel {job_id}, or start from a savepoint"
                )
            elif heard >= until:
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
    """Whether a process that may live holds the lease. Where nothing can be locked: perhaps."""
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
