"""Directories that appear when they are complete: in the cache, where several processes may make the same one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Give an empty directory, which has the name `target` behind the block. If that raises, nothing remains.

    If there is such a directory with files already, as of a process that was faster, the new one is deleted. Its parent
    is temporary, too, and has room for other files. Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}-") as temporary:
        new = Path(temporary, "new")
        new.mkdir()
        yield new
        try:
            new.rename(target)
        except OSError:
            if not target.is_dir():
                raise
