"""The traceback of an error as its user wants to read it: without the frames of ours above the user's own code."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

_PACKAGE_DIRECTORY = f"{Path(__file__).parents[1]}{os.sep}"


def user_traceback(error: BaseException) -> str:
    """The traceback from the first frame of the user's code on, as Python prints it."""
    summary = traceback.TracebackException.from_exception(error)
    stack = summary.stack
    # Only our frames above the user's code are left out. Those below it stay: they show what the user's code called.
    first = next((index for index, frame in enumerate(stack) if not _is_ours(frame.filename)), 0)
    if first:
        summary.stack = traceback.StackSummary.from_list(stack[first:])
    return "".join(summary.format()).rstrip()


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE_DIRECTORY)
