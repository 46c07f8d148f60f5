"""The stored states of a cluster's jobs, which only the leading dispatcher can change.

If all dispatchers run on one machine, a lock on the directory keeps others out; the kernel releases it with the
process. If they are elected, a former leader may resume at any time: it writes states under names of its own, and each
counts from the moment at which the register has a pointer to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.service.cluster.high_availability.pointers import Pointers
from penstock.service.dispatcher.atomic_files import reserved_path, write_atomically, write_reserved

STATE = "state"
POINTER = "pointer"
"""Its spare file makes room for an entry of the register."""
DROPPED = "dropped"
"""Marks a folder without a pointer that could not be removed completely yet."""
_STATE_FILE = re.compile(r"state-(\d+)-(\d+)")
_OF_STARTED = ("output*", "checked", "figures", "archive")
"""Files of a job that was accepted and started."""
_NAMED_MAX = 20
"""Most jobs that a warning names."""
_UNKNOWN_S = 3600.0
"""How long a folder without a pointer is kept: a client may just be submitting its job."""
LEFT_OUT = (
    "the job %s is left out and not resumed: cannot read its state, %s: %s. Restore that file, and the next start "
    "resumes the job; or start its program from its newest checkpoint"
)
_log = logging.getLogger(__name__)


class JobStates(ABC):
    """Files below a directory: `jobs/ID/…`."""

    @abstractmethod
    def all(self) -> dict[Path, bytes]:
        """Return the state of each job, by its file. Raises OSError if nothing can be read.

        Leaves out and logs those that can't be read.
        """

    @abstractmethod
    def put(self, id: str, state: bytes, ends: bool = False) -> None:
        """Replace or add the state of a job. `ends`: it is the last one. Raises OSError, NotLeadingError."""

    @abstractmethod
    def remove(self, id: str) -> None:
        """Remove the state, so that nothing leads to the job. Raises OSError, NotLeadingError."""

    @abstractmethod
    def remove_unknown(self) -> None:
        """Remove the rest of jobs that were never accepted."""

    @abstractmethod
    def close(self) -> None:
        """Release the lock: another dispatcher may lead."""


class LockedStates(JobStates):
    """States in files, behind a lock. Raises ConfigurationError if another dispatcher of this machine has it."""

    def __init__(self, directory: Path) -> None:
        self._jobs = directory / "jobs"
        self._lock = (directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigurationError(
                f"a cluster with the jobs in {directory} is already running: penstock cluster status"
            ) from None

    def all(self) -> dict[Path, bytes]:
        """Return the contents of the files."""
        found = {}
        for path in self._jobs.glob("*/state"):
            try:
                found[path] = path.read_bytes()
            except OSError as error:
                _log.error(LEFT_OUT, path.parent.name, path, error)
        return found

    def put(self, id: str, state: bytes, ends: bool = False) -> None:
        """Write the file."""
        write = write_reserved if ends else write_atomically
        write(self._jobs / id / STATE, state)

    def remove(self, id: str) -> None:
        """Remove the file."""
        (self._jobs / id / "state").unlink(missing_ok=True)

    def remove_unknown(self) -> None:
        """Remove folders without a file, after an hour; dropped ones at once; never those of started jobs."""
        unknown = [folder for folder in self._jobs.iterdir() if not (folder / STATE).exists()]
        _remove_begun(unknown, f"{STATE}-*")

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


class FencedStates(JobStates):
    """States in files that pointers lead to. `term`: of the leader, unique to it."""

    def __init__(self, directory: Path, term: int, pointers: Pointers) -> None:
        self._jobs = directory / "jobs"
        self._term = term
        self._pointers = pointers
        self._numbers = itertools.count(1)

    def all(self) -> dict[Path, bytes]:
        """Return the contents of the files that the pointers name."""
        found = {}
        for id, pointer in self._pointers.all().items():
            path = self._jobs / id / pointer
            try:
                if not _STATE_FILE.fullmatch(pointer):
                    raise ValueError(f"'{pointer}' is not a state of a job")
                found[path] = path.read_bytes()
            except (OSError, ValueError) as error:
                _log.error(LEFT_OUT, id, path, error)
        return found

    def put(self, id: str, state: bytes, ends: bool = False) -> None:
        """Write a file, then the pointer to it."""
        number = next(self._numbers)
        name = f"state-{self._term}-{number}"
        if ends:
            write_reserved(self._jobs / id / name, state, STATE)
        else:
            write_atomically(self._jobs / id / name, state)
        try:
            self._pointers.put(id, name)
        except OSError:
            spare = reserved_path(self._jobs / id / POINTER)
            if not ends or not spare.exists():
                raise
            # If the register is a folder too, its entry needs space on a disk that may be full.
            spare.unlink()
            self._pointers.put(id, name)
        for old in (self._jobs / id).glob("state-*"):
            found = _STATE_FILE.fullmatch(old.name)
            # Files of a later term are another leader's: this process may have been suspended since its pointer
            # counted.
            if found is not None and (int(found[1]), int(found[2])) < (self._term, number):
                with contextlib.suppress(OSError):
                    old.unlink()

    def remove(self, id: str) -> None:
        """Remove the pointer."""
        self._pointers.remove(id)

    def remove_unknown(self) -> None:
        """Remove folders without a pointer, after an hour; dropped ones at once; never those of started jobs."""
        known = self._pointers.all()
        # Without any pointer, this may be another place than that of earlier leaders.
        of_others = STATE if known else f"{STATE}*"
        _remove_begun([folder for folder in self._jobs.iterdir() if folder.name not in known], of_others)

    def close(self) -> None:
        """Nothing is held."""


def _remove_begun(folders: Iterable[Path], of_others: str) -> None:
    """Remove the files with which clients have started a submission, and that nothing leads to. Keep all other files.

    `of_others`: the files by which a dispatcher with other settings than this one knows a job.
    """
    left_out = []
    for folder in folders:
        with contextlib.suppress(OSError):
            is_ours = (folder / "job").exists() or not any(folder.iterdir())
            if (folder / DROPPED).exists():
                shutil.rmtree(folder, ignore_errors=True)
            elif any(any(folder.glob(name)) for name in (of_others, *_OF_STARTED)):
                left_out.append(folder.name)
            elif is_ours and time.time() - folder.stat().st_mtime > _UNKNOWN_S:
                _log.warning("%s is removed: its job was never accepted", folder)
                shutil.rmtree(folder, ignore_errors=True)
    if left_out:
        _log.error(
            "%d jobs are left out and not resumed: the leaders' pointers do not mention them. Has "
            "high-availability.type, or the place of the pointers, changed since then? They are kept: %s",
            len(left_out),
            ", ".join(sorted(left_out)[:_NAMED_MAX]),
        )
