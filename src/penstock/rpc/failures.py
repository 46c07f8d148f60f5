"""A failure as a worker sends it to the driver: the names of its classes, and its text."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from penstock.common import errors
from penstock.common.errors import JobError, PenstockError, UserFunctionError

Failure = tuple[str, str, frozenset[str]]
"""(name of the error's class, its text, `class_names` of what a user's function raised)."""


def describe(error: BaseException) -> Failure:
    """An error in words; one that is not penstock's own comes as a JobError, with its traceback."""
    if isinstance(error, PenstockError):
        raised = error.raised if isinstance(error, UserFunctionError) else frozenset[str]()
        return type(error).__name__, str(error), raised
    return "JobError", "".join(traceback.format_exception(error)).rstrip(), frozenset()


def revive(kind: str, message: str, raised: Iterable[str] = ()) -> PenstockError:
    """The error that `describe` described."""
    known = getattr(errors, kind, None)
    if not isinstance(known, type) or not issubclass(known, PenstockError):
        return JobError(message)
    return known(message, raised) if issubclass(known, UserFunctionError) else known(message)
