"""The log of a cluster: standard error of its process and of Spark's JVM, in one file of bounded size."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from penstock.service.cluster.running_cluster import LOG

_MOST = 8 << 20
_STDERR = 2


def keep_bounded(directory: Path, most: int = _MOST) -> None:
    """Rotate a full log to `cluster.log.1`, replacing the one before. Raises OSError.

    The log is copied and truncated, not renamed: the JVM has inherited the file and would keep writing to it. All
    writers append. Lines written between the last read and the truncation are lost. Does nothing if standard error is
    not that file, as with `penstock cluster start --foreground`.
    """
    log = directory / LOG
    try:
        state = log.stat()
    except FileNotFoundError:
        return
    if state.st_size < most or not os.path.samestat(state, os.fstat(_STDERR)):
        return
    older = log.with_name(f"{LOG}.1")
    part = log.with_name(f".{LOG}.1")
    with log.open("rb") as source, part.open("wb") as target:
        shutil.copyfileobj(source, target)
        part.rename(older)
        # Lines that were written during the copy.
        shutil.copyfileobj(source, target)
        target.flush()
        os.truncate(log, 0)
