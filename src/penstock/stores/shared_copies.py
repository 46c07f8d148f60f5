"""Copies of the files of snapshots that the subtasks on one machine share while they restore.

With more subtasks than before, several begin with the files of one store. Each file is read from the checkpoint storage
by one of them, and all have links to that copy: the disk writes it once. Only files that never change are shared.

The copies are in one directory, which is this user's alone. Who restores holds a lock on it that others hold, too
(flock, which the kernel releases however a process ends); the last one removes the copies. Databases keep their links.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.common.disk_errors import naming
from penstock.state.backends.rocksdb.store import StoredFile

_LOOK_S = 0.01
PATIENCE_S = 5.0
"""A copy that has not grown for so long is not waited for: its process may have been stopped."""


def put_files(files: Mapping[str, StoredFile], target: Path, parent: str) -> None:
    """Put `files`, by their names, into the directory `target`, which is on the same disk as `parent`.

    Those with an identity are shared. Raises what reading them raises, and OSError if they can't be written.
    """
    shared = {name: file for name, file in files.items() if file.identity}
    for name in files.keys() - shared.keys():
        _write_new(target / name, files[name])
    if shared:
        with _held(parent) as directory:
            for name in _not_shared(shared, target, directory) if directory is not None else shared:
                _write_new(target / name, shared[name])


def _not_shared(files: Mapping[str, StoredFile], target: Path, directory: Path) -> list[str]:
    """Link or copy `files`; returns the names of those that another process copies too slowly."""
    waiting = [*files]
    seen, since = (0, 0), time.monotonic()
    while waiting:
        # What another process copies comes last, so that each of them has something to do.
        waiting = [name for name in waiting if not _shared_copy(files[name], target / name, directory)]
        now = len(waiting), sum(_size(_unfinished(directory, files[name])) for name in waiting)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= PATIENCE_S:
            break
        if waiting:
            time.sleep(_LOOK_S)
    return waiting


def _shared_copy(file: StoredFile, path: Path, directory: Path) -> bool:
    """Link the copy of a file to `path`, and make it first if there is none. False: another process makes it."""
    copy, unfinished = directory / file.identity, _unfinished(directory, file)
    if _linked(copy, path):
        return True
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "wb") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # Finished since, and then this is that file itself: it must not be written to.
        if _linked(copy, path):
            return True
        # It stays if this fails: another process may wait for its lock. A process that was killed may have begun it.
        out.truncate(0)
        try:
            with naming(str(unfinished)):
                out.writelines(file.parts)
                out.flush()
        except BaseException:
            out.truncate(0)
            raise
        unfinished.rename(copy)
        os.link(copy, path)
    return True


def _linked(copy: Path, path: Path) -> bool:
    try:
        os.link(copy, path)
    except FileNotFoundError:
        return False
    return True


def _unfinished(directory: Path, file: StoredFile) -> Path:
    return directory / f"{file.identity}.unfinished"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _write_new(path: Path, file: StoredFile) -> None:
    with naming(str(path)), path.open("wb") as out:
        out.writelines(file.parts)


@contextlib.contextmanager
def _held(parent: str) -> Iterator[Path | None]:
    """The directory of the copies while a process restores; None: it can't have one here, or it is not its own."""
    path = Path(parent, f"penstock-restored-{os.geteuid()}")
    try:
        descriptor = _open_locked(path)
    except OSError:
        yield None
        return
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            # Refused while others hold it; the last one has it.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for each in path.iterdir():
                each.unlink()
            path.rmdir()
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    """Raises OSError if others could write there, or the file system has no such locks."""
    while True:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise PermissionError(f"{path} is not this user's alone")
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == found.st_ino:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # The last one has removed it, before it was locked here.
        os.close(descriptor)
