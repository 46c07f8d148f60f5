"""When a batch task may start."""

from __future__ import annotations

import enum


class InputDependencyConstraint(enum.Enum):
    """Which of its inputs must be there before a task starts. Spark decides that here: kept for its name only."""

    ANY = 0
    ALL = 1
