"""Working directories that end with their process: what a killed one has left is removed by the next that starts.

Whether a process lives is asked by a lock on the directory that it holds (flock), not by its number: the kernel
releases the lock however the process ends, and another container, which shares the disk, has other numbers.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NAME = "penstock-held-"

_log = logging.getLogger(__name__)


class HeldDirectory:
    """A new directory below `parent`, the system's own for temporary files by default. `kind` is a part of its name.

    Raises OSError if it can't be made.
    """

    def __init__(self, kind: str, parent: str | None = None) -> None:
        self.path, self._descriptor = _new(f"{_NAME}{kind}-", parent)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._release()

    def remove_if_empty(self) -> None:
        """Remove it if nothing is in it. May be called by several threads, after each has removed its part."""
        with contextlib.suppress(OSError):
            Path(self.path).rmdir()
            self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _new(prefix: str, parent: str | None) -> tuple[str, int | None]:
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)
        # Another process may take it for one that was left, in the moment before it is locked: then one more is made.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Path(path).stat()
            except (BlockingIOError, FileNotFoundError):
                os.close(descriptor)
            except OSError:
                # A file system without such locks. No process can lock it, so none removes it.
                return path, descriptor
            else:
                return path, descriptor


def remove_abandoned(parent: str | None = None) -> None:
    """Remove the directories of processes that have ended. Raises nothing: what can't be removed stays."""
    for path in Path(parent or tempfile.gettempdir()).glob(f"{_NAME}*"):
        with contextlib.suppress(OSError), _locked(path):
            shutil.rmtree(path, ignore_errors=True)
            _log.debug("removed %s, which was left by a process that has ended", path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Raises OSError if a process holds it, or if there is no knowing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
