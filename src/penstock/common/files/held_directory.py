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
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_NAME = "penstock-held-"
_KEPT = "penstock-kept-"
"""What the name of a directory begins with that is not to be removed when its process has ended."""
_LOOK_S = 0.01

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

    def keep(self) -> None:
        """Let it stay for good, also when no process holds it any more.

        It gets a name that no process looks for, of whatever version of penstock. Its former path stays a link to it.
        """
        if self._descriptor is None:
            return
        held = Path(self.path)
        kept = held.with_name(held.name.replace(_NAME, _KEPT, 1))
        try:
            held.rename(kept)
        except OSError as error:
            # It stays held: as long as this process lives, it can be copied.
            _log.warning("%s stays only until this process ends, as it can't be renamed: %s", held, error)
            return
        try:
            held.symlink_to(kept.name)
        except OSError as error:
            # A full disk may have no room for it.
            _log.warning("%s is now %s, as no link to it can be made: %s", held, kept, error)
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


@contextlib.contextmanager
def held_together(kind: str, parent: str, patience_s: float) -> Iterator[Path | None]:
    """A directory below `parent` that all who ask for this `kind` at the same time hold; the last one removes it.

    It is this user's alone. None: it can't be, or one that removes it has been at that for `patience_s`.
    """
    path = Path(parent, f"{_NAME}{kind}")
    descriptor = _shared(path, patience_s)
    if descriptor is None:
        yield None
        return
    try:
        yield path
    finally:
        try:
            with contextlib.suppress(OSError):
                # Refused while others hold it. It removes nothing then.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_at(path, descriptor):
                    shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _shared(path: Path, patience_s: float) -> int | None:
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        descriptor = None
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if _holds(path, descriptor):
                found, descriptor = descriptor, None
                return found
        except (BlockingIOError, FileNotFoundError):
            """The last one removes it, or has."""
        except OSError:
            return None
        finally:
            if descriptor is not None:
                os.close(descriptor)
        time.sleep(_LOOK_S)
    return None


def _holds(path: Path, descriptor: int) -> bool:
    """Hold the directory with others. False: it was removed before. Raises OSError: it is not to be had."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{path} is not this user's alone")
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody else has it: what is there was left by processes that were killed, perhaps with their machine.
        for each in path.iterdir() if is_at(path, descriptor) else ():
            each.unlink()
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return is_at(path, descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether what is open, and perhaps locked, has this name. Else it was removed, and what is there is another's."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


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
        if not is_at(path, descriptor):
            raise FileNotFoundError(f"{path} was removed, and may have been made anew")
        yield
    finally:
        os.close(descriptor)
