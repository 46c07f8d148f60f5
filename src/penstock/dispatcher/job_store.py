"""What a dispatcher keeps on disk: submitted jobs, how it is with each, what was seen of those that have ended.

    DIRECTORY/lock              held by the dispatcher that leads
    DIRECTORY/token             that its REST asks for: the same of the next one, so that clients go on with it
    DIRECTORY/port              where the newest one has served: the next one does so, too, if it may
    DIRECTORY/bundles/NAME      what travels beside programs, by its content
    DIRECTORY/jobs/ID/job       as the client has sent it
                     /NAME      a link to its bundle, if it has one, and beside it the bundle unpacked, until it ends
                     /state     how it is with it now
                     /output    what its process has written
                     /figures   what it had counted at its end
                     /archive   what its REST endpoint answered then

A file is written under another name, and renamed: what is there is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from pathlib import Path

import msgspec

from penstock.common.errors import ConfigurationError
from penstock.dispatcher.dispatcher import DispatchedJob

FIGURES = "figures"
_WANTED_S = 3600.0
"""How long a bundle is kept for a job that is still to come."""


class JobStore:
    """Of the one dispatcher that has this directory. Raises ConfigurationError if another one lives there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("bundles", "jobs"):
            (directory / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = (directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigurationError(
                f"a cluster runs already with the jobs in {directory}: penstock cluster status"
            ) from None

        for folder in (directory / "jobs").iterdir():
            if not (folder / "state").exists():
                # Its client has not been told that it was taken.
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Another dispatcher may have the directory."""
        self._lock.close()

    def token(self) -> str:
        """Made by the first dispatcher. Raises OSError if it can't be kept."""
        file = self.directory / "token"
        if not file.exists():
            write_whole(file, secrets.token_hex(32).encode())
        return file.read_text(encoding="ascii")

    def port(self) -> int | None:
        """Where the dispatcher before has served; None: there was none."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.directory / "port").read_text(encoding="ascii"))
        return None

    def keep_port(self, port: int) -> None:
        """For the next dispatcher. Raises OSError."""
        write_whole(self.directory / "port", str(port).encode())

    def folder(self, id: str) -> Path:
        """Of one submission."""
        return self.directory / "jobs" / id

    def bundle(self, name: str) -> Path:
        """Where a bundle is, or would be."""
        return self.directory / "bundles" / name

    def wanted(self, bundle: Path) -> bool:
        """Whether it is there, and so is not removed until the job that it is wanted for has come."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(bundle)
            return True
        return False

    def add(self, job: DispatchedJob, packed: bytes, bundle: str = "") -> None:
        """Keep a job as its client has sent it. `bundle`: the name of its bundle, which is there; empty: it has none.

        Raises OSError; nothing is left then.
        """
        folder = self.folder(job.id)
        folder.mkdir(mode=0o700)
        try:
            write_whole(folder / "job", packed)
            if bundle:
                (folder / bundle).symlink_to(self.bundle(bundle).resolve(strict=True))
            self.record(job)
        except OSError:
            self.drop(job.id)
            raise

    def record(self, job: DispatchedJob) -> None:
        """Keep how it is with a job now."""
        write_whole(self.folder(job.id) / "state", msgspec.json.encode(job))

    def release(self, id: str) -> None:
        """Remove the code of a job that has ended, which can be large; what is to be known stays. Raises nothing."""
        with contextlib.suppress(OSError):
            for path in self.folder(id).glob("*.bundle*"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def drop(self, id: str) -> None:
        """Remove a job with all that is known of it, and the bundles that no other one has. Raises nothing."""
        shutil.rmtree(self.folder(id), ignore_errors=True)
        with contextlib.suppress(OSError):
            of_jobs = {path.name for path in (self.directory / "jobs").glob("*/*.bundle")}
            for path in (self.directory / "bundles").iterdir():
                if path.name not in of_jobs and time.time() - path.stat().st_mtime > _WANTED_S:
                    path.unlink()

    def jobs(self) -> list[DispatchedJob]:
        """All that are kept, in the order of their submission. Those that can't be read are left out."""
        found = []
        for path in (self.directory / "jobs").glob("*/state"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=DispatchedJob))
        return sorted(found, key=lambda job: (job.submitted_ms, job.id))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name, and rename it when it is on disk. Raises OSError."""
    unfinished = path.with_name(f".{path.name}")
    with open(unfinished, "wb", opener=_for_the_user_alone) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def _for_the_user_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
