"""Working directories that end with their process. The next process removes the directories of killed ones.

A process holds a lock (flock) on its directory, which shows that it lives: the kernel releases the lock however the
process ends. A process id would not do, as containers that share the disk have their own ids.
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

_HELD_PREFIX = "penstock-held-"
_KEPT_PREFIX = "penstock-kept-"
"""Directories with such a name stay when their process has ended."""
_RETRY_S = 0.01

_log = logging.getLogger(__name__)


class HeldDirectory:
    """A new directory below `parent` (default: the system's temporary directory). `kind` is a part of its name.

    Raises OSError if it can't be created.
    """

    def __init__(self, kind: str, parent: str | None = None) -> None:
        self.path, self._descriptor = _new(f"{_HELD_PREFIX}{kind}-", parent)

    def remove(self) -> None:
        """Remove the directory with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._release()

    def keep(self) -> None:
        """Keep the directory after the end of the process.

        It gets a name that no version of penstock removes. Its former path becomes a link to it.
        """
        if self._descriptor is None:
            return
        held = Path(self.path)
        kept = held.with_name(held.name.replace(_HELD_PREFIX, _KEPT_PREFIX, 1))
        try:
            held.rename(kept)
        except OSError as error:
            # It stays held, so users can copy it while this process lives.
            _log.warning("%s is removed when this process has ended, because it can't be renamed: %s", held, error)
            return
        try:
            held.symlink_to(kept.name)
        except OSError as error:
            # A full disk may have no space for the link.
            _log.warning("%s was renamed to %s, without a link: %s", held, kept, error)
        self._release()

    def remove_if_empty(self) -> None:
        """Remove the directory if it is empty. Several threads may call it, after each has removed its part."""
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
        # In the moment before the lock, another process may remove the directory as abandoned: then create another one.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Path(path).stat()
            except (BlockingIOError, FileNotFoundError):
                os.close(descriptor)
            except OSError:
                # The file system has no such locks. Other processes can't lock the directory either, so they don't
                # remove it.
                return path, descriptor
            else:
                return path, descriptor


@contextlib.contextmanager
def held_together(kind: str, parent: str, patience_s: float) -> Iterator[Path | None]:
    """Hold a directory below `parent` together with other processes that use the same `kind`. The last one removes it.

    Only this user can access it. Yields None if that is not possible, or if its removal by another process takes longer
    than `patience_s`.
    """
    path = Path(parent, f"{_HELD_PREFIX}{kind}")
    descriptor = _shared(path, patience_s)
    if descriptor is None:
        yield None
        return
    try:
        yield path
    finally:
        try:
            with contextlib.suppress(OSError):
                # Fails while other processes hold the directory; then it stays.
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
            """The last holder is removing it, or has removed it."""
        except OSError:
            return None
        finally:
            if descriptor is not None:
                os.close(descriptor)
        time.sleep(_RETRY_S)
    return None


def _holds(path: Path, descriptor: int) -> bool:
    """Lock the directory, shared. Return False if it was removed meanwhile. Raises OSError if it can't be held."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{path} belongs to another user, or other users can access it")
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # No other process holds it: its content is from processes that were killed, perhaps with their machine.
        for each in path.iterdir() if is_at(path, descriptor) else ():
            each.unlink()
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return is_at(path, descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Return whether `path` is still the open directory `descriptor`.

    If not, the directory was removed, and another process may have created a new one there.
    """
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_abandoned(parent: str | None = None) -> None:
    """Remove the directories of processes that have ended, as far as possible. Raises no errors."""
    for path in Path(parent or tempfile.gettempdir()).glob(f"{_HELD_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(path):
            shutil.rmtree(path, ignore_errors=True)
            _log.debug("removed %s of a process that has ended", path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the directory. Raises OSError if a process holds it, or if that can't be determined."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_at(path, descriptor):
            raise FileNotFoundError(f"{path} was removed, and may have been created again")
        yield
    finally:
        os.close(descriptor)
