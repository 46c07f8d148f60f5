"""The log of a cluster: what its process and Spark's JVM write to standard error, in one file of a bounded size."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from penstock.service.cluster.running_cluster import LOG

_MOST = 8 << 20
_STDERR = 2


def keep_bounded(directory: Path, most: int = _MOST) -> None:
    """If the log is full, it becomes `cluster.log.1`, in place of the one before, and begins again. Raises OSError.

    It is copied and cut off, not renamed: the JVM, which has inherited it, would write on where it is. Whoever has it
    opened appends. What is written between the last look and the cut is lost. Does nothing if standard error is not
    that file, as with `penstock cluster start --foreground`.
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
        # What has come meanwhile.
        shutil.copyfileobj(source, target)
        target.flush()
        os.truncate(log, 0)
