"""What a dispatcher keeps on disk: submitted jobs, how it is with each, what was seen of those that have ended.

    DIRECTORY/lock              held by the dispatcher that leads, unless leaders are elected
    DIRECTORY/token             that its REST asks for: the same of the next one, so that clients go on with it
    DIRECTORY/port              where the newest one has served: the next one does so, too, if it may
    DIRECTORY/programs/ID_NAME  that were uploaded: programs.py
    DIRECTORY/bundles/NAME      what travels beside programs, by its content
    DIRECTORY/jobs/ID/job       as the client has sent it
                     /NAME      a link to its bundle, if it has one, and beside it the bundle unpacked, until it ends
                     /state     how it is with it now; where leaders are elected: state-TERM-NUMBER (job_states.py)
                     /checked   its sources and sinks have been asked whether what they read and write is there
                     /output…   what its process has written: job_output.py
                     /figures   what it had counted at its end
                     /archive   what its REST endpoint answered then
                     /dropped   it is being removed

A file is written under another name, and renamed: what is there is whole. For what has to be kept at the end of a job
there is space from its submission on (`.state.spare` and its neighbours), until it has ended: a disk that is full by
then must not make a job that has finished one that runs again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import secrets
import shutil
import time
from pathlib import Path

import msgspec

from penstock.common.errors import ConfigurationError
from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.files.durable import sync_local
from penstock.common.values.decoding import from_json
from penstock.service.dispatcher.dispatcher import DispatchedJob
from penstock.service.dispatcher.job_states import DROPPED, LEFT_OUT, POINTER, STATE, JobStates, LockedStates
from penstock.service.dispatcher.whole_files import set_aside, spare_of, write_whole

_TOKEN = re.compile(rb"[!-~]+")
FIGURES = "figures"
ARCHIVE = "archive"
CHECKED = "checked"
_SPARE_BYTES = {STATE: 16 << 10, POINTER: 64 << 10, FIGURES: 64 << 10, ARCHIVE: 256 << 10}
_ERROR_MOST = 2_000
"""Characters of an error that a spare file takes."""
_log = logging.getLogger(__name__)
_WANTED_S = 3600.0
"""How long a bundle is kept for a job that is still to come."""


class JobStore:
    """Of the one dispatcher that leads. `states`: how it is with each job; None: files, behind a lock.

    Raises ConfigurationError if another dispatcher of this machine has the lock, OSError.
    """

    def __init__(self, directory: Path, states: JobStates | None = None) -> None:
        self.directory = directory
        for name in ("bundles", "jobs"):
            (directory / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._states = states or LockedStates(directory)
        self._states.remove_unknown()

    def close(self) -> None:
        """Another dispatcher may have the directory."""
        self._states.close()

    def token(self) -> str:
        """Made by the first dispatcher. Raises OSError if it can't be kept, ConfigurationError if it is damaged."""
        file = self.directory / "token"
        if not file.exists():
            new = self.directory / f".token-{secrets.token_hex(4)}"
            write_whole(new, secrets.token_hex(32).encode())
            try:
                # Exclusively: a former leader may be about to do the same.
                os.link(new, file)
            except FileExistsError:
                """The one that is there counts."""
            finally:
                new.unlink()
        kept = file.read_bytes()
        if not _TOKEN.fullmatch(kept):
            raise ConfigurationError(
                f"{file} holds no token that a client could send: remove it, and the next start makes another"
            )
        return kept.decode("ascii")

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

        Raises OSError; nothing is left then. Raises NotLeadingError: the next leader may have taken it by now.
        """
        folder = self.folder(job.id)
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            sync_local(folder.parent)
            write_whole(folder / "job", packed)
            if bundle:
                with contextlib.suppress(FileNotFoundError):
                    (folder / bundle).unlink()
                # Relative: another machine may have mounted the directory elsewhere.
                self.bundle(bundle).stat()
                (folder / bundle).symlink_to(os.path.relpath(self.bundle(bundle), folder))
            for name, size in _SPARE_BYTES.items():
                set_aside(folder / name, size)
            self.record(job)
        except OSError:
            self.drop(job.id)
            raise

    def record(self, job: DispatchedJob) -> None:
        """Keep how it is with a job now. Raises OSError; not for its end, if there is space set aside for that.

        Raises NotLeadingError.
        """
        content = msgspec.json.encode(job)
        if job.status is None:
            self._states.put(job.id, content)
            return
        try:
            self._states.put(job.id, content, ends=True)
        except OSError:
            job = dataclasses.replace(job, error=job.error[:_ERROR_MOST])
            self._states.put(job.id, msgspec.json.encode(job), ends=True)

    def release(self, id: str) -> None:
        """Remove the code of a job that has ended, which can be large; what is to be known stays. Raises nothing."""
        with contextlib.suppress(OSError):
            folder = self.folder(id)
            for path in [*folder.glob("*.bundle*"), *(spare_of(folder / name) for name in _SPARE_BYTES)]:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def drop(self, id: str) -> None:
        """Remove a job with all that is known of it, and the bundles that no other one has.

        What can't be removed stays. Raises NotLeadingError.
        """
        # First: of a process that ends here a folder would be left that looks like that of another cluster's job.
        with contextlib.suppress(OSError):
            (self.folder(id) / DROPPED).touch()
        try:
            self._states.remove(id)
        except OSError:
            return
        shutil.rmtree(self.folder(id), ignore_errors=True)
        with contextlib.suppress(OSError):
            of_jobs = {path.name for path in (self.directory / "jobs").glob("*/*.bundle")}
            for path in (self.directory / "bundles").iterdir():
                if path.name not in of_jobs and time.time() - path.stat().st_mtime > _WANTED_S:
                    path.unlink()

    def jobs(self) -> list[DispatchedJob]:
        """All that are kept, in the order of their submission. Those that can't be read are left out."""
        found = []
        for path, state in self._states.all().items():
            try:
                found.append(from_json(state, DispatchedJob))
            except UNREADABLE as error:
                damaged = f"it is damaged ({error}), and begins with {state[:100]!r}"
                _log.error(LEFT_OUT, path.parent.name, path, damaged)
        return sorted(found, key=lambda job: (job.submitted_ms, job.id))
