"""Files that are complete or absent; and space that is reserved for files written at the end of a job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from penstock.common.errors.disk_errors import naming_file
from penstock.common.files.durable import sync_local, sync_written


def write_atomically(
    path: Path, content: bytes, unfinished: Path | None = None, check: Callable[[], object] = lambda: None
) -> None:
    """Write a file under another name, and rename it once it is on disk; the new name is then on disk too.

    `unfinished`: that other name, if two processes may write the file at once. `check` is called right before the
    rename. Raises OSError, and what `check` raises; nothing is left then, unless the renamed file could not be made
    durable.
    """
    unfinished = unfinished or path.with_name(f".{path.name}")
    try:
        with naming_file(str(unfinished)), open(unfinished, "wb", opener=_for_the_user_alone) as file:
            file.write(content)
            sync_written(file)
        check()
        unfinished.rename(path)
    except BaseException:
        # It takes space, too.
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    sync_local(path.parent)


def write_reserved(path: Path, content: bytes, set_aside_for: str = "") -> None:
    """Write a file into the space that is reserved for it, if the disk has no other.

    Raises OSError.
    """
    try:
        write_atomically(path, content)
    except OSError:
        spare = reserved_path(path.with_name(set_aside_for or path.name))
        if not spare.exists() or len(content) > spare.stat().st_size:
            raise
        with spare.open("r+b") as file:
            file.write(content)
            file.truncate()
            sync_written(file)
        spare.rename(path)
        sync_local(path.parent)


def reserve_space(path: Path, size: int) -> None:
    """Reserve this many bytes for a file of that name, which does not exist yet. Raises OSError."""
    # Written, not only extended: a file of zeros may have no blocks.
    with naming_file(str(path)), open(reserved_path(path), "wb", opener=_for_the_user_alone) as file:
        file.write(b" " * size)


def reserved_path(path: Path) -> Path:
    """Return the path of the reserved space for a file."""
    return path.with_name(f".{path.name}.spare")


def _for_the_user_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
