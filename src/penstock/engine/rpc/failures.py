"""Describe a failure for the way from a worker to the driver: the names of its classes, and its text."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Iterable

from penstock.common import errors
from penstock.common.errors import JobError, PenstockError, UserFunctionError
from penstock.common.text.secrets import redacted
from penstock.common.text.unicode_text import writable

Failure = tuple[str, str, frozenset[str]]
"""(name of the error's class, its text, `class_names` of the error that a user's function raised)."""


_FRAME = re.compile(r' *File "(?P<file>.+)", line (?P<line>\d+), in ')


def describe(error: BaseException) -> Failure:
    """Describe an error in text that can be written; an error that is not penstock's becomes a JobError with traceback.

    The class is the nearest one in `penstock.common.errors`, which every process has: a connector's own class is
    missing where the connector is not installed.
    """
    if isinstance(error, PenstockError):
        raised = error.raised if isinstance(error, UserFunctionError) else frozenset[str]()
        known = next(kind.__name__ for kind in type(error).__mro__ if vars(errors).get(kind.__name__) is kind)
        return known, writable(str(error)), raised
    return "JobError", writable(redacted("".join(traceback.format_exception(error)).rstrip())), frozenset()


def revive(kind: str, message: str, raised: Iterable[str] = ()) -> PenstockError:
    """Return the error that `describe` described."""
    message = _with_lines(message)
    known = getattr(errors, kind, None)
    if not isinstance(known, type) or not issubclass(known, PenstockError):
        return JobError(message)
    return known(message, raised) if issubclass(known, UserFunctionError) else known(message)


def _with_lines(text: str) -> str:
    """Add the lines of code that only this process has to a traceback: a notebook's cells are not in files."""
    lines = text.split("\n")
    shown = []
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        shown.append(line)
        if frame := _FRAME.match(line):
            indent = line[: len(line) - len(line.lstrip())] + "  "
            code = linecache.getline(frame["file"], int(frame["line"])).strip()
            if code and not next_line.startswith(indent):
                shown.append(indent + code)
    return "\n".join(shown)
