"""Order the attempts of a sink's subtasks."""

from __future__ import annotations

import re

_ATTEMPT = re.compile(r"-(\d+)-(\d+)-[^-]*$")


def order_of(attempt: str) -> tuple[int, int]:
    """Return a number that is greater for the later of two attempts (`SinkContext.attempt`) of one job."""
    # Job, epoch and number. The last part names the process of the subtask.
    found = _ATTEMPT.search(attempt)
    return (int(found[1]), int(found[2])) if found else (0, 0)
