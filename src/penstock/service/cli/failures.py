"""Format the failures of a job for the terminal: the newest with the end of its traceback, others in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.common.text.quantities import as_duration

_LAST_LINES = 5
_LINE_MOST = 200
"""Most characters of a line: the value that a function was called with may be long."""


def failure_lines(failures: Sequence[dict[str, Any]], now_ms: int) -> Iterator[str]:
    """Format failures, newest first. `failures` are JobFailures as a job answers them, oldest first."""
    for index, failure in enumerate(reversed(failures)):
        head = f"failed {as_duration(now_ms - failure['at_ms'])} ago by {failure['error']}"
        # Without the markers below lines of code (`~~~^^^`), which cost lines and add little.
        lines = [_cut(line) for line in failure["text"].splitlines() if line.strip(" ^~")]
        if index or len(lines) < 2:
            yield ": ".join([head, *(line.strip() for line in lines[-1:])])
            continue
        yield f"{head}:"
        # The first line says where it failed, the last ones why; the frames in between matter less.
        if len(lines) > _LAST_LINES + 1:
            lines[1:-_LAST_LINES] = ["  …"]
        yield from (f"  {line}" for line in lines)


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_MOST else f"{line[:_LINE_MOST]}…"
