"""What an error's text says in one line, where there is room for no more: a list of jobs, a failure that repeats."""

from __future__ import annotations

import re
import textwrap

_FRAME = re.compile(r'\s*File ".*", line \d+')
_RAISED = re.compile(r"[\w.]+: ")


def raised_line(text: str) -> str:
    """The line behind the first that says what was raised, such as `ValueError: 3`; empty: there is none.

    It is the one behind the last frame of a traceback. What follows it there, and in what a database answers, is where
    that was: `LINE 1: …`, `in INSERT …`.
    """
    _, _, below = text.partition("\n")
    lines = textwrap.dedent(below).splitlines()
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if frames:
        return next((line for line in lines[frames[-1] + 1 :] if line[:1].strip()), "")
    return next((line for line in lines if _RAISED.match(line)), "")
