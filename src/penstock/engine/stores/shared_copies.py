"""Copies of the files of snapshots that the subtasks on one machine share while they restore.

With more subtasks than before, several begin with the files of one store. Each file is read from the checkpoint storage
by one of them, and all have links to that copy: the disk writes it once. Only files that never change are shared.

The copies of a store are in a directory that those who restore it hold together (common/files/held_directory.py). The
last one removes it; databases keep their links. Where there is no such directory, or no links, each has its own copies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from penstock.common.errors.disk_errors import naming
from penstock.common.files.held_directory import held_together, is_at
from penstock.engine.state.backends.rocksdb.store import StoredFile

_LOOK_S = 0.01
PATIENCE_S = 5.0
"""A copy that has not grown for so long is not waited for: its process may have been stopped."""


def put_files(files: Mapping[str, StoredFile], target: Path, parent: str) -> None:
    """Put `files`, by their names, into the directory `target`, which is on the same disk as `parent`.

    Those with an identity are shared. Raises what reading them raises, and OSError if they can't be written.
    """
    shared = {name: file for name, file in files.items() if file.identity}
    own = files.keys() - shared.keys()
    if shared:
        with held_together(kind_of(shared), parent, PATIENCE_S) as directory:
            own |= _not_shared(shared, target, directory) if directory is not None else shared.keys()
    for name in own:
        with naming(str(target / name)), _new(target / name) as descriptor:
            _write(descriptor, files[name].parts)


def kind_of(files: Mapping[str, StoredFile]) -> str:
    """What the directory is called that is held by all who begin with these files."""
    store = "\n".join(sorted(file.identity for file in files.values()))
    return f"restored-{os.geteuid()}-{hashlib.sha256(store.encode()).hexdigest()}"


def _not_shared(files: Mapping[str, StoredFile], target: Path, directory: Path) -> set[str]:
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
    return {*waiting}


def _shared_copy(file: StoredFile, path: Path, directory: Path) -> bool:
    """Link the copy of a file to `path`, and make it first if there is none. False: another process makes it."""
    copy, unfinished = directory / file.identity, _unfinished(directory, file)
    if _linked(copy, path):
        file.was_here()
        return True
    with _new(unfinished) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if not is_at(unfinished, descriptor):
            # Finished since: this is a file that a database may have, and must not be written to.
            return False
        if _linked(copy, path):
            # Finished before this was opened, and so this is a new one.
            unfinished.unlink()
            file.was_here()
            return True
        # It stays if this fails: another process may wait for its lock. A process that was killed may have begun it.
        os.ftruncate(descriptor, 0)
        try:
            with naming(str(path)):
                _write(descriptor, file.parts)
        except BaseException:
            os.ftruncate(descriptor, 0)
            raise
        # Whatever becomes of the copy, this one has its file. Without links it has it alone.
        unfinished.rename(copy if _linked(unfinished, path) else path)
    return True


def _linked(copy: Path, path: Path) -> bool:
    """Link a file to `path`. False: it is not there, or can have no such link."""
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
def _new(path: Path) -> Iterator[int]:
    """A file to be written, which may be there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, parts: Iterable[bytes]) -> None:
    """Without a buffer, of which a rest would be written after an error."""
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
