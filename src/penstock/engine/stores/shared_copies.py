"""Share copies of snapshot files among the subtasks on one machine while they restore.

If the parallelism has grown, several subtasks begin with the files of one store. One of them reads each file from the
checkpoint storage, and all link to that copy, so the disk writes it once. Only immutable files are shared.

The copies of a store are in a directory that all subtasks that restore it hold (common/files/held_directory.py). The
last one removes it; databases keep their links. Without such a directory, or without links, each has its own copies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from penstock.common.errors.disk_errors import naming_file
from penstock.common.files.held_directory import held_together, is_at
from penstock.engine.state.backends.rocksdb.store import StoredFile

_POLL_S = 0.01
PATIENCE_S = 5.0
"""How long to wait for a copy that does not grow (seconds): its process may have been stopped."""


def put_files(files: Mapping[str, StoredFile], target: Path, parent: str) -> None:
    """Put `files` into the directory `target` by name. It is on the same disk as `parent`.

    Files with an identity are shared. Raises the errors of reading them, and OSError if they cannot be written.
    """
    shared = {name: file for name, file in files.items() if file.identity}
    unshared = files.keys() - shared.keys()
    if shared:
        with held_together(directory_name_of(shared), parent, PATIENCE_S) as directory:
            unshared |= _share(shared, target, directory) if directory is not None else shared.keys()
    for name in unshared:
        with naming_file(str(target / name)), _open_for_writing(target / name) as descriptor:
            _write(descriptor, files[name].parts)


def directory_name_of(files: Mapping[str, StoredFile]) -> str:
    """Return the name of the directory that all subtasks hold that begin with these files."""
    store = "\n".join(sorted(file.identity for file in files.values()))
    return f"restored-{os.geteuid()}-{hashlib.sha256(store.encode()).hexdigest()}"


def _share(files: Mapping[str, StoredFile], target: Path, directory: Path) -> set[str]:
    """Link or copy `files`. Returns the names of files that another process copies too slowly."""
    waiting = [*files]
    seen, since = (0, 0), time.monotonic()
    while waiting:
        # Files that other processes are copying come last, so that all processes copy different files.
        waiting = [name for name in waiting if not _shared_copy(files[name], target / name, directory)]
        now = len(waiting), sum(_size(_unfinished(directory, files[name])) for name in waiting)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= PATIENCE_S:
            break
        if waiting:
            time.sleep(_POLL_S)
    return {*waiting}


def _shared_copy(file: StoredFile, path: Path, directory: Path) -> bool:
    """Link the copy of a file to `path`, after creating it if needed. Returns False if another process creates it."""
    copy, unfinished = directory / file.identity, _unfinished(directory, file)
    if _linked(copy, path):
        file.found_locally()
        return True
    with _open_for_writing(unfinished) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if not is_at(unfinished, descriptor):
            # Finished meanwhile: a database may use this file, so it must not be written to.
            return False
        if _linked(copy, path):
            # Finished before the open, which created a new file.
            unfinished.unlink()
            file.found_locally()
            return True
        # The file stays if this fails: another process may wait for its lock. A killed process may have begun it.
        os.ftruncate(descriptor, 0)
        try:
            with naming_file(str(path)):
                _write(descriptor, file.parts)
        except BaseException:
            os.ftruncate(descriptor, 0)
            raise
        # This process has its file in any case. Without links it has the only copy.
        unfinished.rename(copy if _linked(unfinished, path) else path)
    return True


def _linked(copy: Path, path: Path) -> bool:
    """Link a file to `path`. Returns False if it does not exist, or cannot be linked."""
    try:
        os.link(copy, path)
    except OSError:
        return False
    return True


def _unfinished(directory: Path, file: StoredFile) -> Path:
    return directory / f"{file.identity}.unfinished"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def _open_for_writing(path: Path) -> Iterator[int]:
    """Open a file for writing, created if it does not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, parts: Iterable[bytes]) -> None:
    """Write without a buffer, whose rest would be written after an error."""
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
