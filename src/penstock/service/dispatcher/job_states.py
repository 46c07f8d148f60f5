"""How it is with each job of a cluster, as it is stored: so that only the dispatcher that leads can change it.

Where one machine has all dispatchers, a lock on the directory keeps others out, which the kernel releases with the
process. Where they are elected, a former leader may wake up at any time: it writes states under names that are its own,
and each counts from the moment at which the register has a pointer to it.
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
from penstock.service.dispatcher.whole_files import spare_of, write_at_the_end, write_whole

STATE = "state"
POINTER = "pointer"
"""Its spare file makes room for an entry of the register."""
DROPPED = "dropped"
"""The folder of a job that nothing leads to is to be removed, as far as that has not been done."""
_STATE_FILE = re.compile(r"state-(\d+)-(\d+)")
_OF_STARTED = ("output*", "checked", "figures", "archive")
"""What there is of a job that was taken, and begun."""
_TOLD_MOST = 20
_UNKNOWN_S = 3600.0
"""How long a folder stays that no pointer leads to: a client may just be handing its job over."""
LEFT_OUT = (
    "the job %s is left out, and does not go on: its state, %s, can't be read: %s. With that file as it was, the next "
    "start goes on with it; or start its program from its newest checkpoint"
)
_log = logging.getLogger(__name__)


class JobStates(ABC):
    """Below a directory: `jobs/ID/…`."""

    @abstractmethod
    def all(self) -> dict[Path, bytes]:
        """The state of each job, by its file. Raises OSError if nothing can be read.

        Those that can't be read are left out, and the log says so.
        """

    @abstractmethod
    def put(self, id: str, state: bytes, ends: bool = False) -> None:
        """Replace the state of a job, or add it. `ends`: it is the last one. Raises OSError, NotLeadingError."""

    @abstractmethod
    def remove(self, id: str) -> None:
        """Remove it: nothing leads to the job any more. Raises OSError, NotLeadingError."""

    @abstractmethod
    def remove_unknown(self) -> None:
        """Remove what was left of jobs whose clients were not told that they were taken."""

    @abstractmethod
    def close(self) -> None:
        """Another dispatcher may lead."""


class LockedStates(JobStates):
    """Files, behind a lock. Raises ConfigurationError if another dispatcher of this machine has it."""

    def __init__(self, directory: Path) -> None:
        self._jobs = directory / "jobs"
        self._lock = (directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigurationError(
                f"a cluster runs already with the jobs in {directory}: penstock cluster status"
            ) from None

    def all(self) -> dict[Path, bytes]:
        """What is in the files."""
        found = {}
        for path in self._jobs.glob("*/state"):
            try:
                found[path] = path.read_bytes()
            except OSError as error:
                _log.error(LEFT_OUT, path.parent.name, path, error)
        return found

    def put(self, id: str, state: bytes, ends: bool = False) -> None:
        """Write the file."""
        write = write_at_the_end if ends else write_whole
        write(self._jobs / id / STATE, state)

    def remove(self, id: str) -> None:
        """Remove the file."""
        (self._jobs / id / "state").unlink(missing_ok=True)

    def remove_unknown(self) -> None:
        """Those without a file, after an hour; those that were dropped at once; none that was begun."""
        unknown = [folder for folder in self._jobs.iterdir() if not (folder / STATE).exists()]
        _remove_begun(unknown, f"{STATE}-*")

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


class FencedStates(JobStates):
    """Files that pointers lead to. `term`: of the leader, which no other one has."""

    def __init__(self, directory: Path, term: int, pointers: Pointers) -> None:
        self._jobs = directory / "jobs"
        self._term = term
        self._pointers = pointers
        self._numbers = itertools.count(1)

    def all(self) -> dict[Path, bytes]:
        """What the pointers lead to."""
        found = {}
        for id, pointer in self._pointers.all().items():
            path = self._jobs / id / pointer
            try:
                if not _STATE_FILE.fullmatch(pointer):
                    raise ValueError(f"'{pointer}' is no state of a job")
                found[path] = path.read_bytes()
            except (OSError, ValueError) as error:
                _log.error(LEFT_OUT, id, path, error)
        return found

    def put(self, id: str, state: bytes, ends: bool = False) -> None:
        """Write a file, then the pointer to it."""
        number = next(self._numbers)
        name = f"state-{self._term}-{number}"
        if ends:
            write_at_the_end(self._jobs / id / name, state, STATE)
        else:
            write_whole(self._jobs / id / name, state)
        try:
            self._pointers.put(id, name)
        except OSError:
            spare = spare_of(self._jobs / id / POINTER)
            if not ends or not spare.exists():
                raise
            # Where the register is a folder, too, an entry of it needs space on a disk that may be full.
            spare.unlink()
            self._pointers.put(id, name)
        for old in (self._jobs / id).glob("state-*"):
            found = _STATE_FILE.fullmatch(old.name)
            # Those of a later term are another leader's: this process may have been stopped since its pointer counts.
            if found is not None and (int(found[1]), int(found[2])) < (self._term, number):
                with contextlib.suppress(OSError):
                    old.unlink()

    def remove(self, id: str) -> None:
        """Remove the pointer."""
        self._pointers.remove(id)

    def remove_unknown(self) -> None:
        """Those without a pointer, after an hour; those that were dropped at once; none that was begun."""
        known = self._pointers.all()
        # Where there is none it may be another place than that of the leaders before.
        of_others = STATE if known else f"{STATE}*"
        _remove_begun([folder for folder in self._jobs.iterdir() if folder.name not in known], of_others)

    def close(self) -> None:
        """Nothing is held."""


def _remove_begun(folders: Iterable[Path], of_others: str) -> None:
    """Remove what clients have begun jobs with, and nothing leads to. What else somebody has put there stays.

    `of_others`: the files by which another dispatcher knows a job, which has other settings than this one.
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
                _log.warning("%s is removed: nothing says that its job was taken", folder)
                shutil.rmtree(folder, ignore_errors=True)
    if left_out:
        _log.error(
            "%d jobs are left out, and do not go on: nothing leads to what is kept of them. Has high-availability.type "
            "changed since they were submitted, or where its leaders keep their pointers? They stay: %s",
            len(left_out),
            ", ".join(sorted(left_out)[:_TOLD_MOST]),
        )
