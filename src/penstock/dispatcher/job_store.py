"""What a dispatcher keeps on disk: submitted jobs, how it is with each, what was seen of those that have ended.

    DIRECTORY/lock              held by the dispatcher that leads
    DIRECTORY/token             that its REST asks for: the same of the next one, so that clients go on with it
    DIRECTORY/bundles/NAME      what travels beside programs, by its content
    DIRECTORY/jobs/ID/job       as the client has sent it
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
from pathlib import Path

import msgspec

from penstock.common.errors import ConfigurationError
from penstock.dispatcher.dispatcher import DispatchedJob

FIGURES = "figures"


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

    def close(self) -> None:
        """Another dispatcher may have the directory."""
        self._lock.close()

    def token(self) -> str:
        """Made by the first dispatcher. Raises OSError if it can't be kept."""
        file = self.directory / "token"
        if not file.exists():
            _write(file, secrets.token_hex(32).encode())
        return file.read_text(encoding="ascii")

    def folder(self, id: str) -> Path:
        """Of one submission."""
        return self.directory / "jobs" / id

    def bundle(self, name: str) -> Path:
        """Where a bundle is, or would be."""
        return self.directory / "bundles" / name

    def add(self, id: str, job: bytes) -> None:
        """Keep a job as its client has sent it."""
        self.folder(id).mkdir(mode=0o700)
        _write(self.folder(id) / "job", job)

    def record(self, job: DispatchedJob) -> None:
        """Keep how it is with a job now."""
        _write(self.folder(job.id) / "state", msgspec.json.encode(job))

    def drop(self, id: str) -> None:
        """Remove a job with all that is known of it."""
        shutil.rmtree(self.folder(id), ignore_errors=True)

    def jobs(self) -> list[DispatchedJob]:
        """All that are kept, in the order of their submission. Those that can't be read are left out."""
        found = []
        for path in (self.directory / "jobs").glob("*/state"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=DispatchedJob))
        return sorted(found, key=lambda job: (job.submitted_ms, job.id))


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}")
    with open(unfinished, "wb", opener=_for_the_user_alone) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def _for_the_user_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
