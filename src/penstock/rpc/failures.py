"""A failure as a worker sends it to the driver: the name of its class, and its text."""

from __future__ import annotations

import traceback

from penstock.common import errors
from penstock.common.errors import JobError, PenstockError


def describe(error: BaseException) -> tuple[str, str]:
    """(name of the error's class, its text); an error that is not penstock's own comes with its traceback."""
    if isinstance(error, PenstockError):
        return type(error).__name__, str(error)
    return "JobError", "".join(traceback.format_exception(error)).rstrip()


def revive(kind: str, message: str) -> PenstockError:
    """The error that `describe` described."""
    known = getattr(errors, kind, None)
    return known(message) if isinstance(known, type) and issubclass(known, PenstockError) else JobError(message)
