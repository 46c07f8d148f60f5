"""What goes wrong with disks, in words for those who can mend it: which file, and what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OF_DISKS = _FULL | {errno.EFBIG, errno.EIO, errno.EROFS}


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """An error of a disk that names no file, as those of an open file's `write`, names this one.

    Others stay as they are: code of users runs in between, too.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_DISKS:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def advice_on(error: BaseException, otherwise: str) -> str:
    """What to do about a file that could not be written: `otherwise` helps nobody whose disk is full."""
    return "Free some space there" if isinstance(error, OSError) and error.errno in _FULL else otherwise
