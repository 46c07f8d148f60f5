"""Start condition of batch tasks."""

from __future__ import annotations

import enum


class InputDependencyConstraint(enum.Enum):
    """Which inputs must be available before a task starts. Ignored, because Spark decides: kept for compatibility."""

    ANY = 0
    ALL = 1
