"""Errors of disks, with the name of the file and advice."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DISK_ERRORS = _FULL | {errno.EFBIG, errno.EIO, errno.EROFS}


@contextlib.contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Add `path` to disk errors without a file name, such as errors of `write` on an open file.

    Other errors are not changed: they may come from users' code.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _DISK_ERRORS:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def advice_on(error: BaseException, otherwise: str) -> str:
    """Return the advice for a file that could not be written: free some space if the disk is full, else `otherwise`."""
    return "Free some space there" if isinstance(error, OSError) and error.errno in _FULL else otherwise
