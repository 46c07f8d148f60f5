"""The directory of a dispatcher: submitted jobs, their states, and the archives of those that have ended.

    DIRECTORY/lock              held by the dispatcher that leads, unless leaders are elected
    DIRECTORY/token             of REST: the next dispatcher keeps it, so that clients need not change
    DIRECTORY/port              of the newest dispatcher: the next one uses it too, if it is free
    DIRECTORY/programs/ID_NAME  that were uploaded: programs.py
    DIRECTORY/bundles/NAME      files that travel with programs, named by content
    DIRECTORY/jobs/ID/job       as the client has sent it
                     /NAME      a link to its bundle, if it has one, and next to it the unpacked bundle, until it ends
                     /state     its current state; where leaders are elected: state-TERM-NUMBER (job_states.py)
                     /checked   its sources and sinks were checked
                     /output…   of its process: job_output.py
                     /figures   its counters at its end
                     /archive   the last answers of its REST endpoint
                     /dropped   it is being removed

A file is written under another name and then renamed, so that files are always complete. Space for the files that are
written at a job's end is reserved from its submission until it has ended (`.state.spare` and others): a full disk must
not make a finished job run again.
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
from penstock.common.files.durable import sync_local
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.service.dispatcher.atomic_files import reserve_space, reserved_path, write_atomically
from penstock.service.dispatcher.dispatcher import DispatchedJob
from penstock.service.dispatcher.job_states import DROPPED, LEFT_OUT, POINTER, STATE, JobStates, LockedStates

_TOKEN = re.compile(rb"[!-~]+")
FIGURES = "figures"
ARCHIVE = "archive"
CHECKED = "checked"
_SPARE_BYTES = {STATE: 16 << 10, POINTER: 64 << 10, FIGURES: 64 << 10, ARCHIVE: 256 << 10}
_ERROR_MAX = 2_000
"""Characters of an error for which a spare file has room."""
_log = logging.getLogger(__name__)
_WANTED_S = 3600.0
"""How long a bundle is kept for a job that has not arrived yet."""


class JobStore:
    """The directory of the leading dispatcher. `states`: the states of jobs; None: in files, behind a lock.

    Raises ConfigurationError if another dispatcher of this machine has the lock, OSError.
    """

    def __init__(self, directory: Path, states: JobStates | None = None) -> None:
        self.directory = directory
        for name in ("bundles", "jobs"):
            (directory / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._states = states or LockedStates(directory)
        self._states.remove_unknown()

    def close(self) -> None:
        """Release the directory to another dispatcher."""
        self._states.close()

    def token(self) -> str:
        """Return the token, which the first dispatcher creates.

        Raises OSError, and ConfigurationError if it is damaged.
        """
        file = self.directory / "token"
        if not file.exists():
            new = self.directory / f".token-{secrets.token_hex(4)}"
            write_atomically(new, secrets.token_hex(32).encode())
            try:
                # Exclusively: a former leader may be creating it at the same time.
                os.link(new, file)
            except FileExistsError:
                """The existing token counts."""
            finally:
                new.unlink()
        kept = file.read_bytes()
        if not _TOKEN.fullmatch(kept):
            raise ConfigurationError(
                f"{file} does not contain a valid token: remove it, and the next start creates another"
            )
        return kept.decode("ascii")

    def port(self) -> int | None:
        """Return the port of the previous dispatcher, or None."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.directory / "port").read_text(encoding="ascii"))
        return None

    def keep_port(self, port: int) -> None:
        """Store the port for the next dispatcher. Raises OSError."""
        write_atomically(self.directory / "port", str(port).encode())

    def folder(self, id: str) -> Path:
        """Return the folder of a submission."""
        return self.directory / "jobs" / id

    def bundle(self, name: str) -> Path:
        """Return the path of a bundle, whether it exists or not."""
        return self.directory / "bundles" / name

    def wanted(self, bundle: Path) -> bool:
        """Return whether a bundle exists; if so, it is kept until the job that needs it has arrived."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(bundle)
            return True
        return False

    def add(self, job: DispatchedJob, packed: bytes, bundle: str = "") -> None:
        """Store a job as its client has sent it. `bundle`: the name of its bundle, which exists; empty: none.

        Raises OSError; nothing is left then. Raises NotLeadingError: the next leader may have accepted the job by now.
        """
        folder = self.folder(job.id)
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            sync_local(folder.parent)
            write_atomically(folder / "job", packed)
            if bundle:
                with contextlib.suppress(FileNotFoundError):
                    (folder / bundle).unlink()
                # Relative: another machine may mount the directory elsewhere.
                self.bundle(bundle).stat()
                (folder / bundle).symlink_to(os.path.relpath(self.bundle(bundle), folder))
            for name, size in _SPARE_BYTES.items():
                reserve_space(folder / name, size)
            self.record(job)
        except OSError:
            self.drop(job.id)
            raise

    def record(self, job: DispatchedJob) -> None:
        """Store the state of a job. Raises OSError; not for its end, if space is reserved for that.

        Raises NotLeadingError.
        """
        content = msgspec.json.encode(job)
        if job.status is None:
            self._states.put(job.id, content)
            return
        try:
            self._states.put(job.id, content, ends=True)
        except OSError:
            job = dataclasses.replace(job, error=job.error[:_ERROR_MAX])
            self._states.put(job.id, msgspec.json.encode(job), ends=True)

    def release(self, id: str) -> None:
        """Remove the code of a job that has ended, which can be large. Keeps its state and archive. Raises nothing."""
        with contextlib.suppress(OSError):
            folder = self.folder(id)
            for path in [*folder.glob("*.bundle*"), *(reserved_path(folder / name) for name in _SPARE_BYTES)]:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def drop(self, id: str) -> None:
        """Remove a job with all its files, and the bundles that no other job has.

        Keeps files that can't be removed. Raises NotLeadingError.
        """
        # First: if this process ends here, it would leave a folder that looks like that of another cluster's job.
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
        """Return all stored jobs, in the order of their submission. Leaves out those that can't be read."""
        found = []
        for path, state in self._states.all().items():
            try:
                found.append(from_json(state, DispatchedJob))
            except DECODING_ERRORS as error:
                damaged = f"it is damaged ({error}), and begins with {state[:100]!r}"
                _log.error(LEFT_OUT, path.parent.name, path, damaged)
        return sorted(found, key=lambda job: (job.submitted_ms, job.id))
